"""Pictures of P-Cast figures: each function takes the JSON object of a `flamia pcast` command.

Every function takes theme="light" or "dark" and returns a matplotlib Figure, whose alt text
picture_style.alt_text() has. Used by: report.py, __main__.py. Of audits: audit_pictures.py.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from flamia.audit_pictures import (
    TITLES,
    context_error,
    context_gain,
    leak_map,
    leak_tensors,
)
from flamia.picture_style import (
    DASHES,
    MARKERS,
    Theme,
    alt_text,
    label_ends,
    log_ticks,
    new_axes,
    number_ticks,
    save,
    styled,
)

__all__ = [
    "alt_text",
    "TITLES",
    "context_error",
    "context_gain",
    "dp_sawtooth",
    "kernel_errors",
    "leak_map",
    "mse_against_keys",
    "mse_against_sink",
    "pictures_of",
    "save",
    "save_all",
    "score_gaps",
    "zeroed_fraction",
]


@styled
def dp_sawtooth(report: dict, *, theme: Theme) -> Figure:
    """dp(S), the largest step of the E4M3 line below S, against S; from `pcast dp`."""
    scales = [point[0] for point in report["sawtooth"]]
    steps = [point[1] for point in report["sawtooth"]]
    best = min(steps)
    reach = sorted(scale for scale, step in report["sawtooth"] if step == best)
    alt = (
        f"Line of dp(S) for S from {scales[0]:g} to {scales[-1]:g}. It is a sawtooth that touches "
        f"its least value, {best:g}, only at {len(reach)} scales, the powers of two from "
        f"{reach[0]:g} to {reach[-1]:g}, and jumps after each. Published values lie on it: "
        + ", ".join(f"{one['paper']:g} at {one['scale']:g}" for one in report["steps"])
        + "."
    )
    figure, (axes,) = new_axes(theme, "Step of the cast against the scale of P", alt, height=3.4)
    axes.plot(scales, steps, color=theme.colors[0], linewidth=1.2)
    axes.set_xscale("log", base=2)
    number_ticks(axes.xaxis)
    axes.set_xticks([2**n for n in range(10)])
    axes.set_xlim(1, 620)
    axes.set_ylim(0, max(steps) * 1.08)
    published = [(one["scale"], one["paper"]) for one in report["steps"]]
    axes.plot(
        [point[0] for point in published],
        [point[1] for point in published],
        linestyle="none",
        marker="o",
        markersize=5,
        markerfacecolor=theme.paper,
        markeredgecolor=theme.colors[1],
        markeredgewidth=1.5,
    )
    axes.axhline(best, color=theme.soft, linewidth=0.8, linestyle=DASHES[2])
    axes.annotate(
        f"least step {best:g}: powers of two only",
        (1, best),
        xytext=(4, -5),
        textcoords="offset points",
        va="top",
        color=theme.soft,
        fontsize=8.5,
    )
    places = {3: (2.6, 0.145), 100: (58, 0.15), 300: (170, 0.18), 448: (260, 0.215)}
    for scale, paper in published:
        if scale not in places:
            continue
        axes.annotate(
            f"S = {scale:g}: {paper:g}",
            (scale, paper),
            xytext=places[scale],
            ha="center",
            color=theme.colors[1],
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": theme.colors[1], "lw": 0.7, "shrinkB": 3},
        )
    axes.text(
        0.02,
        0.96,
        "○ published values",
        color=theme.colors[1],
        transform=axes.transAxes,
        va="top",
        fontsize=8.5,
    )
    axes.set_xlabel("scale S of P")
    axes.set_ylabel("largest step dp(S), as a fraction of P = 1")
    return figure


_CONFIGURATION_COLORS = {
    "forward, S=1": 1,
    "reverse, S=1": 4,
    "forward, S=448": 3,
    "forward, S=256": 2,
    "reverse, S=256": 0,
}


def _mse_lines(axes, theme: Theme, points: list[dict], key: str) -> list[tuple[str, list[float]]]:
    """Draws the error of each configuration with its standard error; returns their values."""
    x = [point[key] for point in points]
    lines = []
    names = [one["configuration"] for one in points[0]["mse"]]
    for index, name in enumerate(names):
        color = theme.colors[_CONFIGURATION_COLORS.get(name, index) % len(theme.colors)]
        values = [point["mse"][index]["mean"] for point in points]
        errors = [point["mse"][index]["standard_error"] for point in points]
        axes.fill_between(
            x,
            [max(v - e, 1e-12) for v, e in zip(values, errors)],
            [v + e for v, e in zip(values, errors)],
            color=color,
            alpha=0.18,
            linewidth=0,
        )
        axes.plot(
            x,
            values,
            color=color,
            linestyle=DASHES[index % 5],
            marker=MARKERS[index % 5],
            clip_on=False,
        )
        lines.append((name, values))
    return lines


def _label_lines(axes, theme: Theme, lines) -> None:
    entries = []
    for index, (name, values) in enumerate(lines):
        color = theme.colors[_CONFIGURATION_COLORS.get(name, index) % len(theme.colors)]
        entries.append((values[-1], name, color))
    label_ends(axes, entries)


def _label_bundle(axes, theme: Theme, sinks: list[float], lines) -> None:
    """Names the line of S = 1 in forward order, and all others where they run together."""
    alone, values = lines[0]
    color = theme.colors[_CONFIGURATION_COLORS.get(alone, 0)]
    place = len(sinks) // 3
    note = {"textcoords": "offset points", "fontsize": 8.5}
    axes.annotate(
        alone,
        (sinks[place - 1], values[place - 1]),
        xytext=(-8, 6),
        ha="right",
        color=color,
        **note,
    )
    others = [name for name, _ in lines[1:]]
    words = "these run together:\n" + "\n".join(others)
    axes.annotate(
        words,
        (sinks[place], lines[-1][1][place]),
        xytext=(26, -4),
        va="top",
        color=theme.ink,
        **note,
    )


def _seeds(report: dict) -> str:
    return f"{report['seeds']} random instances from seed {report['first_seed']}"


@styled
def mse_against_sink(report: dict, *, theme: Theme) -> Figure:
    """Error of the output against the strength of the attention sinks; from `pcast sweep`."""
    points = report["figure2"]
    excess = report["largest_excess"]
    alt = (
        f"Mean squared error of the output against sink strength {points[0]['sink']:g} to "
        f"{points[-1]['sink']:g} nats for five configurations, {_seeds(report)}. Forward order "
        f"with S = 1 stands apart: it costs most at sink strength {excess['sink']:g}, "
        f"{excess['ratio']:.1f} times the error of S = 256. From 11 on all lines meet."
    )
    figure, (axes,) = new_axes(theme, "Output error against sink strength", alt)
    lines = _mse_lines(axes, theme, points, "sink")
    axes.set_yscale("log")
    axes.set_xlim(points[0]["sink"], points[-1]["sink"])
    axes.set_xticks([point["sink"] for point in points])
    axes.set_xlabel("sink strength Δ, nats above the mean of the other logits")
    axes.set_ylabel("MSE of the output")
    log_ticks(axes.yaxis)
    _label_bundle(axes, theme, [point["sink"] for point in points], lines)
    return figure


@styled
def mse_against_keys(report: dict, *, theme: Theme) -> Figure:
    """Error of the output against the number of keys; from `pcast sweep`."""
    points = report["figure3"]
    ratios = report["ratio_by_keys"]
    alt = (
        f"Mean squared error of the output against {points[0]['keys']} to {points[-1]['keys']} "
        f"keys at sink strength 7 for five configurations, {_seeds(report)}. Every error falls "
        "with the length, that of forward order with S = 1 least: it is "
        f"{ratios[0]:.2f} times that of S = 256 at {points[0]['keys']} keys and "
        f"{ratios[-1]:.1f} times at {points[-1]['keys']}."
    )
    figure, (axes,) = new_axes(theme, "Output error against length", alt)
    lines = _mse_lines(axes, theme, points, "keys")
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set_xticks([point["keys"] for point in points])
    number_ticks(axes.xaxis)
    axes.set_xlim(points[0]["keys"], points[-1]["keys"])
    axes.set_xlabel("keys")
    axes.set_ylabel("MSE of the output")
    log_ticks(axes.yaxis)
    _label_lines(axes, theme, lines)
    return figure


def _zeroed_series(report: dict) -> dict[str, list[float]]:
    """Percentages against sink strength, of table1 or sweep."""
    if "rows" in report:  # table1
        rows = report["rows"]
        return {
            "sink": [row["sink"] for row in rows],
            "S = 1": [row["zeroed_s1"]["ours"] for row in rows],
            "S = 256": [row["zeroed_s256"]["ours"] for row in rows],
            "at risk": [row["non_sink_mass"]["ours"] for row in rows],
            "lost": [row["loss"]["ours"] for row in rows],
            "paper S = 1": [row["zeroed_s1"]["paper"] for row in rows],
            "paper S = 256": [row["zeroed_s256"]["paper"] for row in rows],
            "paper at risk": [row["non_sink_mass"]["paper"] for row in rows],
            "paper lost": [row["loss"]["paper"] for row in rows],
        }
    points = report["figure2"]
    return {
        "sink": [point["sink"] for point in points],
        "S = 1": [100 * point["zeroed_s1"] for point in points],
        "S = 256": [100 * point["zeroed_s256"] for point in points],
        "at risk": [100 * point["non_sink_mass"] for point in points],
        "lost": [100 * point["lost_mass_s1"] for point in points],
    }


@styled
def zeroed_fraction(report: dict, *, theme: Theme) -> Figure:
    """Keys zeroed by the cast, and probability at risk; from `pcast table1` or `pcast sweep`."""
    series = _zeroed_series(report)
    sinks = series["sink"]
    is_table = "rows" in report
    lost = "at risk × zeroed" if is_table else "really zeroed"
    peak = max(range(len(sinks)), key=lambda n: series["lost"][n])
    alt = (
        f"Two panels against sink strength {sinks[0]:g} to {sinks[-1]:g} nats, forward order, "
        f"{_seeds(report)}. Left: keys cast to zero rise from {series['S = 1'][0]:.0f} to "
        f"{series['S = 1'][-1]:.0f} percent with S = 1, and from {series['S = 256'][0]:.0f} to "
        f"{series['S = 256'][-1]:.0f} percent with S = 256. Right: the probability that is not on "
        f"sinks falls from {series['at risk'][0]:.0f} to {series['at risk'][-1]:.1f} percent; what "
        f"S = 1 loses of it ({lost}) peaks at {sinks[peak]:g} with {series['lost'][peak]:.0f} "
        "percent." + (" Open circles are the published values." if is_table else "")
    )
    figure, panels = new_axes(
        theme, "Keys zeroed, and probability at risk", alt, columns=2, height=3.3, sharey=True
    )
    content = (
        (("S = 1", 1, "S = 1"), ("S = 256", 0, "S = 256")),
        (("at risk", 3, "not on sinks"), ("lost", 1, "lost by S = 1")),
    )
    places = {
        "S = 1": (2, (8, -4), "left"),
        "S = 256": (-1, (-12, -2), "right"),
        "at risk": (1, (10, 4), "left"),
        "lost": (peak, (0, -30), "center"),
    }
    for axes, lines in zip(panels, content):
        for n, (name, color, label) in enumerate(lines):
            axes.plot(
                sinks,
                series[name],
                color=theme.colors[color],
                linestyle=DASHES[n],
                marker=MARKERS[n],
            )
            if is_table:
                axes.plot(
                    sinks,
                    series["paper " + name],
                    linestyle="none",
                    marker="o",
                    markersize=8,
                    markerfacecolor="none",
                    markeredgecolor=theme.soft,
                )
            index, shift, side = places[name]
            axes.annotate(
                label,
                (sinks[index], series[name][index]),
                xytext=shift,
                textcoords="offset points",
                color=theme.colors[color],
                ha=side,
                va="center",
                fontsize=8.5,
            )
        axes.set_xticks([sink for sink in sinks if sink == int(sink)])
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        axes.set_ylim(-6, 104)
    figure.supxlabel(
        "sink strength Δ, nats above the mean of the other logits", color=theme.ink, fontsize=9
    )
    panels[0].set_title("keys cast to zero", loc="left", color=theme.ink)
    panels[0].set_ylabel("share" + ("   (○ published)" if is_table else ""))
    panels[1].set_title(f"probability; lost: {lost}", loc="left", color=theme.ink)
    return figure


@styled
def kernel_errors(report: dict, *, theme: Theme) -> Figure:
    """Relative error of known kernels on a file's scores, with verdicts; from `pcast recommend`."""
    kernels = report["all"]["kernels"]
    alt = f"Relative output error on {report['input']}: " + "; ".join(
        f"{one['name']} {one['relative_error']:.5f}, {one['verdict']}" for one in kernels
    )
    figure, (axes,) = new_axes(
        theme, "Known kernels on these activations", alt, height=0.9 + 0.29 * len(kernels)
    )
    tint = {"safe": 2, "harmless zeros": 0, "less precise": 4, "collapse": 1, "saturates": 1}
    y = list(range(len(kernels)))[::-1]
    largest = max(one["relative_error"] for one in kernels)
    for place, one in zip(y, kernels):
        color = theme.colors[tint.get(one["verdict"], 3)]
        axes.plot([0, one["relative_error"]], [place, place], color=color, linewidth=2.4)
        axes.plot(one["relative_error"], place, marker="o", color=color, markersize=6)
        words = f"{one['verdict']}, {100 * one['lost_mass']:.2g} % of P lost"
        axes.annotate(
            words,
            (one["relative_error"], place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=color,
            fontsize=8.5,
        )
    names = [f"{one['name']}  ({one['order']}, S={one['scale']:g})" for one in kernels]
    axes.set_yticks(y, names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    axes.grid(axis="x", color=theme.grid, linewidth=0.7)
    axes.set_xlim(0, largest * 2.5)
    axes.set_ylim(-0.6, len(kernels) - 0.4)
    axes.set_xticks(
        [tick for tick in MaxNLocator(6).tick_values(0, largest * 2.5) if tick < largest * 1.2]
    )
    axes.set_xlabel("relative error of the output (rms)")
    return figure


@styled
def score_gaps(report: dict, *, theme: Theme) -> Figure:
    """How far sinks and the largest other key stand above the rest; from `pcast recommend`."""
    heads = report["heads"]
    alt = "Gaps above the mean of the other keys, mean and 5 to 95 percent: " + "; ".join(
        f"head {n}: sinks {head['sink_gap']['mean']:.1f}, largest other key "
        f"{head['largest_other_gap']['mean']:.1f} nats"
        for n, head in enumerate(heads)
    )
    figure, (axes,) = new_axes(
        theme, "Gaps of the scores by head", alt, height=1.2 + 0.34 * len(heads)
    )
    kinds = (
        ("sink_gap", 1, 0.14, "o", "largest sink"),
        ("largest_other_gap", 0, -0.14, "s", "largest other key"),
    )
    for key, color, shift, marker, label in kinds:
        for n, head in enumerate(heads):
            gap, y = head[key], -n + shift
            axes.plot(
                [gap["quantile_05"], gap["quantile_95"]],
                [y, y],
                color=theme.colors[color],
                linewidth=2.2,
                alpha=0.45,
            )
            axes.plot(gap["mean"], y, marker=marker, color=theme.colors[color], markersize=6)
        axes.annotate(
            label,
            (heads[0][key]["mean"], shift),
            xytext=(0, 9 if shift > 0 else -9),
            textcoords="offset points",
            va="bottom" if shift > 0 else "top",
            ha="center",
            color=theme.colors[color],
            fontsize=8.5,
        )
    axes.set_yticks([-n for n in range(len(heads))], [f"head {n}" for n in range(len(heads))])
    axes.set_ylim(-len(heads) + 0.45, 0.7)
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    axes.grid(axis="x", color=theme.grid, linewidth=0.7)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=theme.soft, linewidth=0.8)
    axes.set_xlabel("gap above the mean of the other keys, nats (mean; bar: 5 to 95 % of rows)")
    return figure


_BY_COMMAND: dict[str, tuple[tuple[str, Callable], ...]] = {
    "pcast dp": (("dp_sawtooth", dp_sawtooth),),
    "pcast table1": (("zeroed_fraction", zeroed_fraction),),
    "pcast sweep": (
        ("mse_against_sink", mse_against_sink),
        ("mse_against_keys", mse_against_keys),
        ("zeroed_fraction_sweep", zeroed_fraction),
    ),
    "pcast recommend": (("kernel_errors", kernel_errors), ("score_gaps", score_gaps)),
}


def pictures_of(report: dict) -> dict[str, Callable[..., Figure]]:
    """The pictures that a JSON object can give, by file name: functions of a theme.

    report: of `flamia pcast dp|table1|sweep|recommend` or of an audit; empty for others.
    """
    if report.get("kind") == "audit":
        found = {
            f"leak_map_{tensor}": functools.partial(leak_map, report, tensor)
            for tensor in leak_tensors(report)
        }
        if report["context"]:
            found["context_error"] = functools.partial(context_error, {report["function"]: report})
            found["context_gain"] = functools.partial(context_gain, {report["function"]: report})
        return found
    drawn = _BY_COMMAND.get(report.get("command", ""), ())
    return {name: functools.partial(draw, report) for name, draw in drawn}


def save_all(report: dict, folder: str | os.PathLike) -> list[pathlib.Path]:
    """Saves every picture of a JSON object; returns the files. See picture_style.save()."""
    paths = []
    for name, picture in pictures_of(report).items():
        paths += save(picture, folder, name)
    return paths
