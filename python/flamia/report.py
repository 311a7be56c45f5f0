"""One HTML file with audits and P-Cast figures: inline SVG, no script, no request to anywhere.

collect() runs what the report shows; page() turns JSON objects into HTML. Used by: __main__.py.
"""

from __future__ import annotations

import dataclasses
import html
import os
import pathlib
from collections.abc import Callable, Sequence

from flamia import pictures
from flamia.picture_style import scientific, svg_text, title_of
from flamia.report_page import PAGE

_VERDICTS = {
    "passed": "nothing was found",
    "promised": "something was found that the function's promise allows",
    "failed": "more was found than the promise allows",
    "not tested": "the function does not return what the probe needs",
}
_SHOUTED = {"failed": "FAILED"}
_HOLDS = {"passed": "holds", "failed": "FAILS"}


@dataclasses.dataclass
class ReportData:
    """What a report shows. Every part is a JSON object of the program or the library, or absent."""

    version: str
    audits: list[dict] = dataclasses.field(default_factory=list)
    context: dict[str, dict] = dataclasses.field(default_factory=dict)
    dp: dict | None = None
    table1: dict | None = None
    sweep: dict | None = None
    recommend: dict | None = None
    commands: list[str] = dataclasses.field(default_factory=list)


def collect(
    input: str | os.PathLike | None = None,
    *,
    quick: bool = False,
    audits: Sequence[dict] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> ReportData:
    """Runs the program and audits the library for a report.

    input: a safetensors file for `pcast recommend`. quick: fewer seeds, shorter documents and
    contexts. audits: JSON objects of other audits, shown first.
    Errors are those of run_program() and audit().
    """
    from flamia._version import __version__
    from flamia.audits import audit, spelled_command
    from flamia.pcast import pcast_report
    from flamia.program import run_program

    data = ReportData(__version__, audits=list(audits))
    sizes = dict(tokens=96, head_dim=64, context=2048) if quick else dict(tokens=256, context=8192)

    def run_audit(**options) -> dict:
        spelled = {"probe" if key == "probes" else key: value for key, value in options.items()}
        command = spelled_command("flamia audit --backend cpu", {**spelled, **sizes})
        data.commands.append(command)
        progress(command)
        return audit(**options, **sizes).data

    for safety in ("default", "exact"):
        data.audits.append(run_audit(path="mxfp8", safety=safety))
    for promote in ("tile", "none"):
        data.context[f"promote {promote}"] = run_audit(
            path="mxfp8", accumulate="hw", promote=promote, gradients=False, probes="context"
        )

    def run_pcast(*words) -> dict:
        data.commands.append(" ".join(["flamia", "pcast", *words]))
        progress(data.commands[-1])
        return run_program(["pcast", *words])

    seeds = ["--seeds", "3"] if quick else []
    data.dp = run_pcast("dp")
    data.table1 = run_pcast("table1", *seeds)
    data.sweep = run_pcast("sweep", *seeds)
    if input is not None:
        data.commands.append(f"flamia pcast recommend {os.path.basename(input)}")
        progress(data.commands[-1])
        data.recommend = pcast_report(input)
        for key in ("file", "input"):
            name = os.path.basename(input)
            data.recommend[key] = data.recommend[key].replace(os.fspath(input), name)
    return data


def write_report(path: str | os.PathLike, data: ReportData) -> pathlib.Path:
    """Writes the page to a file, whole or not at all; returns its path."""
    path = pathlib.Path(path)
    text = page(data)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
    return path


def page(data: ReportData) -> str:
    """The HTML text of a report."""
    figures = _Figures()
    parts = [_summary(data)]
    protocol = None
    for n, one in enumerate(data.audits):
        parts.append(_audit_section(n, one, figures, one["protocol"] != protocol))
        protocol = one["protocol"]
    if data.context:
        parts.append(_context_section(data.context, figures))
    if data.dp or data.table1 or data.sweep:
        parts.append(_pcast_section(data, figures))
    if data.recommend:
        parts.append(_recommend_section(data.recommend, figures))
    parts.append(_made_section(data))
    return PAGE.format(version=_text(data.version), body="\n".join(parts))


def _text(value) -> str:
    return html.escape(str(value), quote=True)


class _Figures:
    """Pictures as <figure> elements, each in both themes, numbered through the page."""

    def __init__(self):
        self._count = 0

    def add(self, picture: Callable, note: str = "") -> str:
        self._count += 1
        parts = []
        for theme in ("light", "dark"):
            figure = picture(theme=theme)
            svg = svg_text(figure, f"f{self._count}{theme[0]}")
            parts.append(f'<div class="{theme}">{svg}</div>')
        caption = f"<b>Figure {self._count}. {_text(title_of(figure))}.</b> {_text(note)}"
        return f"<figure>{''.join(parts)}<figcaption>{caption}</figcaption></figure>"


def _table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], kinds: str) -> str:
    """A table of cells that are HTML already. kinds: a letter per column, n for numbers."""

    def cell(tag: str, text: str, kind: str, scope: str = "") -> str:
        style = ' class="n"' if kind == "n" else ""
        return f"<{tag}{style}{scope}>{text}</{tag}>"

    head = "".join(cell("th", text, kind, ' scope="col"') for text, kind in zip(header, kinds))
    body = "".join(
        "<tr>" + "".join(cell("td", text, kind) for text, kind in zip(row, kinds)) + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _badge(outcome: str, words: dict[str, str] = _SHOUTED) -> str:
    word = words.get(outcome, outcome)
    return f'<span class="badge {outcome.replace(" ", "-")}">{word}</span>'


def _code(command: str) -> str:
    """A command that breaks between its words only, where it can."""
    words = " ".join(f"<span>{_text(word)}</span>" for word in command.split())
    return f"<code>{words}</code>"


def _counts(report: dict) -> str:
    counts = {}
    for one in report["findings"]:
        counts[one["outcome"]] = counts.get(one["outcome"], 0) + 1
    return ", ".join(f"{counts[name]} {name}" for name in _VERDICTS if name in counts)


def _summary(data: ReportData) -> str:
    rows = [
        [
            f'<a href="#audit-{n}">{_text(report["function"])}</a>',
            _badge("passed" if report["passed"] else "failed"),
            _text(_counts(report)),
        ]
        for n, report in enumerate(data.audits)
    ]
    words = "".join(f"<li>{_badge(name)} {_text(text)}</li>" for name, text in _VERDICTS.items())
    table = _table("Audited functions", ["function", "verdict", "findings"], rows, "ttt")
    return (
        f'<section><h2>Summary</h2>{table if rows else ""}<ul class="words">{words}</ul></section>'
    )


def _merged(findings: list[dict]) -> list[dict]:
    """Findings with "tensors": neighbours that say the same of several tensors become one."""
    merged = []
    for one in findings:
        alike = ("probe", "outcome", "words", "cause", "change", "reach")
        last = merged[-1] if merged else None
        if last and one["outcome"] == "passed" and all(one[key] == last[key] for key in alike):
            last["tensors"].append(one["tensor"])
        else:
            merged.append({**one, "tensors": [one["tensor"]]})
    return merged


def _finding_row(one: dict) -> list[str]:
    change = "∞" if one["change"] is None else scientific(one["change"]) if one["change"] else ""
    if one["outcome"] == "not tested":
        change = ""
    words = _text(one["words"])
    if one["cause"]:
        words += f'<br><span class="soft">Likely cause: {_text(one["cause"])}</span>'
    if one["outcome"] == "failed" and one["reproduce"]:
        words += f"<br>{_code(one['reproduce'])}"
    tensor = ", ".join(pictures.TITLES.get(name, name) for name in one["tensors"])
    reach = str(one["reach"]) if one["reach"] else ""
    probe = _text(one["probe"]).replace("_", "_<wbr>")
    return [probe, _text(tensor), _badge(one["outcome"]), change, reach, words]


def _audit_section(number: int, report: dict, figures: _Figures, with_protocol: bool) -> str:
    gradients = "with" if report["gradients"] else "without"
    facts = (
        f"{report['tokens']} tokens, {report['heads']} heads, {report['kv_heads']} key heads, "
        f"head_dim {report['head_dim']}, {report['mask']} mask, {gradients} gradients, contexts to "
        f"{report['context_keys']} keys, seed {report['seed']}, {report['calls']} calls. "
        f"Promise: {report['promise']['words']}."
    )
    rows = [_finding_row(one) for one in _merged(report["findings"])]
    verdict = _badge("passed" if report["passed"] else "failed")
    parts = [
        f'<section id="audit-{number}"><h2>Audit of {_text(report["function"])} {verdict}</h2>',
        f"<p>{_text(facts)}</p>",
        _table(
            "Findings. Change: in the norm of the protocol below. Reach: tokens between cause and "
            "change.",
            ["probe", "tensor", "outcome", "change", "reach", "finding"],
            rows,
            "tttnnt",
        ),
    ]
    for name, picture in pictures.pictures_of(report).items():
        if name.startswith("leak_map"):
            parts.append(
                figures.add(
                    picture,
                    "Each line is one perturbed token; colour is the largest change of a row over "
                    "all perturbations of that token.",
                )
            )
    protocol = "".join(f"<li>{_text(line)}</li>" for line in report["protocol"])
    protocol = f"<ul>{protocol}</ul>" if with_protocol else "<p>As of the audit before.</p>"
    return "".join([*parts, f"<h3>Protocol</h3>{protocol}</section>"])


def _context_section(audits: dict[str, dict], figures: _Figures) -> str:
    longest = max(report["context_keys"] for report in audits.values())
    parts = [
        "<section><h2>Accumulation over long contexts</h2>",
        "<p>Tensor cores add FP8 products with fewer bits than FP32 has. Promotion adds their sums "
        "into FP32 once per tile; without it, one accumulator runs through the whole context, "
        f"here up to {longest} keys.</p>",
    ]
    if all(report["context"] for report in audits.values()):
        for draw in (pictures.context_error, pictures.context_gain):
            parts.append(
                figures.add(lambda theme, draw=draw: draw(audits, theme=theme), "MXFP8 forward.")
            )
    rows = []
    for name, report in audits.items():
        for one in report["context"]:
            gain = "∞" if one["gain"] is None else f"{one['gain']:.5f}"
            error = "∞" if one["rel_l2"] is None else scientific(one["rel_l2"])
            rows.append([_text(name), f"{one['keys']}", gain, error])
    header = ["accumulation", "keys", "gain", "relative error"]
    return "".join([*parts, _table("The same in numbers", header, rows, "tnnn"), "</section>"])


def _table1_rows(report: dict) -> list[list[str]]:
    rows = []
    for row in report["rows"]:
        cells = [f"{row['sink']:g}"]
        for key in ("zeroed_s1", "zeroed_s256", "non_sink_mass", "loss"):
            mark = "" if row[key]["within"] else " !"
            cells += [f"{row[key]['ours']:.1f}{mark}", f"{row[key]['paper']:.1f}"]
        rows.append(cells)
    return rows


def _pcast_section(data: ReportData, figures: _Figures) -> str:
    parts = [
        "<section><h2>P-Cast: what the cast of P to 8 bits loses</h2>",
        "<p>FP8 attention multiplies P by a scale S and casts it to E4M3. Values of P S at or "
        "below 2<sup>−10</sup> become zero, while the row sum still counts them. Strong attention "
        "sinks push everything else below that line when keys are visited in forward order.</p>",
    ]
    if data.dp:
        parts.append(figures.add(lambda theme: pictures.dp_sawtooth(data.dp, theme=theme)))
        holds = {True: _badge("passed", _HOLDS), False: _badge("failed", _HOLDS)}
        checks = "".join(
            f"<li>{holds[one['holds']]} {_text(one['statement'])}</li>" for one in data.dp["checks"]
        )
        parts.append(f"<h3>Statements checked by enumeration</h3><ul>{checks}</ul>")
    if data.table1:
        note = (
            "Forward order, 4096 keys, 4 sinks. Lost: the published measure, mass at risk times "
            "the fraction of keys zeroed."
        )
        parts.append(
            figures.add(lambda theme: pictures.zeroed_fraction(data.table1, theme=theme), note)
        )
        header = ["sink", "zeroed, S=1", "paper", "zeroed, S=256", "paper", "not on sinks", "paper"]
        parts.append(
            _table(
                f"Percent, {data.table1['seeds']} random instances from seed "
                f"{data.table1['first_seed']}; ! misses the published value by more than "
                f"{data.table1['tolerance_points']:g} points",
                [*header, "loss", "paper"],
                _table1_rows(data.table1),
                "n" * 9,
            )
        )
    if data.sweep:
        note = f"{data.sweep['seeds']} random instances; bands: one standard error."
        for draw in (
            pictures.mse_against_sink,
            pictures.mse_against_keys,
            pictures.zeroed_fraction,
        ):
            extra = (
                note
                if draw is not pictures.zeroed_fraction
                else (
                    f"{data.sweep['seeds']} random instances; lost: probability of keys that "
                    "really became zero."
                )
            )
            parts.append(figures.add(lambda theme, draw=draw: draw(data.sweep, theme=theme), extra))
    return "".join([*parts, "</section>"])


def _recommend_section(report: dict, figures: _Figures) -> str:
    rows = [
        [
            _text(one["name"]),
            _text(one["order"]),
            f"{one['scale']:g}",
            f"{100 * one['zeroed']:.2f} %",
            f"{100 * one['lost_mass']:.2g} %",
            f"{one['relative_error']:.5f}",
            _text(one["verdict"]),
            _text(one["advice"]),
        ]
        for one in report["all"]["kernels"]
    ]
    header = [
        "kernel",
        "order",
        "S",
        "keys zeroed",
        "P zeroed",
        "relative error",
        "verdict",
        "advice",
    ]
    return "".join(
        [
            f"<section><h2>Known kernels on {_text(report['file'])}</h2>",
            f"<p>{_text(report['input'])}; {_text(report['mask'])} mask, the first "
            f"{report['sinks']} keys of a document as sinks, {report['all']['rows']} rows.</p>",
            figures.add(lambda theme: pictures.kernel_errors(report, theme=theme)),
            figures.add(lambda theme: pictures.score_gaps(report, theme=theme)),
            _table("All heads together", header, rows, "ttnnnntt"),
            "</section>",
        ]
    )


def _made_section(data: ReportData) -> str:
    commands = "".join(f"<li>{_code(command)}</li>" for command in data.commands)
    listed = f"<p>Commands, in order:</p><ol>{commands}</ol>" if commands else ""
    return (
        f"<section><h2>How this was made</h2><p>flamia {_text(data.version)}. Every random input "
        "is a function of its seed; the same commands give the same figures.</p>"
        f"{listed}</section>"
    )
