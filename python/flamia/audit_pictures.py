"""Pictures of audits: leak maps, and accuracy against the length of the context.

Each function takes JSON objects of audits. Used by: pictures.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from flamia.picture_style import (
    DASHES,
    MARKERS,
    Theme,
    label_ends,
    log_ticks,
    new_axes,
    number_ticks,
    scientific,
    styled,
)

TITLES = {"o": "O", "lse": "LSE", "dq": "dQ", "dk": "dK", "dv": "dV"}
_LEAST_CHANGE, _LARGEST_CHANGE = 1e-8, 10.0


def leak_tensors(report: dict) -> list[str]:
    """Tensors of the leak maps of an audit, in their order."""
    return [one["tensor"] for one in report["leak_maps"]]


def _finding(report: dict, tensor: str) -> dict | None:
    for one in report["findings"]:
        if one["probe"] == "causal_leak" and one["tensor"] == tensor:
            return one
    return None


@styled
def leak_map(report: dict, tensor: str, *, theme: Theme) -> Figure:
    """Which rows change when one token does: perturbed token against row, logarithmic colours.

    Rows that do not change at all have no colour; those that may change are grey. Infinite changes
    have the colour of the largest.
    Raises ValueError if the audit has no map of the tensor.
    """
    import numpy as np

    found = [one for one in report["leak_maps"] if one["tensor"] == tensor]
    if not found:
        raise ValueError(
            f"leak_map: tensor must be one of {', '.join(leak_tensors(report))}; got {tensor}"
        )
    tokens, rows = found[0]["tokens"], found[0]["rows"]
    change = np.array(
        [[math.inf if value is None else value for value in row] for row in found[0]["change"]]
    ).reshape(len(tokens), rows)
    title = TITLES.get(tensor, tensor)
    finding = _finding(report, tensor)
    row_index = np.arange(rows)[None, :]
    forbidden = row_index < np.array(tokens)[:, None]
    if tensor in ("dk", "dv"):
        forbidden = row_index > np.array(tokens)[:, None]
    touched = int(((change > 0) & forbidden).any(axis=1).sum())
    side = "later" if tensor in ("dk", "dv") else "earlier"
    verdict = finding["outcome"] if finding else "no verdict"
    found_words = f" {finding['words']}." if finding else ""
    alt = (
        f"Leak map of {title} for {report['function']}, {verdict}: {len(tokens)} perturbed tokens "
        f"against {rows} rows. For {touched} of the tokens some {side} row changes, where none may."
        + found_words
    )
    height = min(3.0 + 0.012 * len(tokens), 4.6)
    figure, (axes,) = new_axes(theme, f"Leak map of {title}: {verdict}", alt, height=height)
    seen = forbidden & (change > 0)
    shown = np.ma.masked_where(~seen, np.clip(change, _LEAST_CHANGE, _LARGEST_CHANGE))
    columns, lines = np.arange(rows + 1) - 0.5, np.arange(len(tokens) + 1) - 0.5
    axes.pcolormesh(  # what may change
        columns,
        lines,
        np.ma.masked_where(forbidden, np.ones_like(change)),
        cmap=ListedColormap([theme.grid]),
        rasterized=True,
    )
    mesh = axes.pcolormesh(
        columns,
        lines,
        shown,
        cmap=matplotlib.colormaps[theme.map_colors],
        norm=LogNorm(_LEAST_CHANGE, _LARGEST_CHANGE),
        rasterized=True,
    )
    # The border between what may change and what may not.
    border = np.repeat(np.array(tokens) - (0.5 if side == "earlier" else -0.5), 2)
    axes.plot(border, np.repeat(lines, 2)[1:-1], color=theme.ink, linewidth=1.3)
    axes.set_xlim(-0.5, rows - 0.5)
    axes.set_ylim(len(tokens) - 0.5, -0.5)
    axes.grid(False)
    step = max(1, math.ceil(len(tokens) / 12))
    axes.set_yticks(range(0, len(tokens), step), [str(token) for token in tokens[::step]])
    axes.set_xlabel(f"row of {title}, tokens")
    axes.set_ylabel("perturbed token")
    places = {
        "may change": (0.98, 0.95, "right", "top"),
        "must stay": (0.02, 0.05, "left", "bottom"),
    }
    if side == "later":
        places = {"must stay": places["may change"], "may change": places["must stay"]}
    for words, (x, y, across, along) in places.items():
        if words == "must stay":
            words = f"{side} rows must stay" + ("" if touched else ", and do: no bit changes")
        axes.text(
            x,
            y,
            words,
            transform=axes.transAxes,
            ha=across,
            va=along,
            color=theme.ink,
            fontsize=8.5,
            bbox={"facecolor": theme.paper, "edgecolor": "none", "alpha": 0.85, "pad": 2},
        )
    bar = figure.colorbar(mesh, ax=axes, pad=0.015, fraction=0.045)
    bar.outline.set_visible(False)
    decades = [10.0**n for n in range(-8, 2, 2)]
    bar.ax.yaxis.set_major_locator(FixedLocator(decades))
    bar.ax.yaxis.set_minor_locator(FixedLocator([]))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    bar.ax.tick_params(colors=theme.soft, labelcolor=theme.ink, length=3)
    bar.set_label("relative change (none: no colour)", color=theme.ink, fontsize=8.5)
    return figure


def _power(value: float) -> str:
    exponent = round(math.log10(value))
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "1", 1: "10"}.get(exponent, f"10{raised}")


def _context_lines(audits: Mapping[str, dict], field: str) -> dict[str, tuple[list, list]]:
    lines = {}
    for name, report in audits.items():
        points = [one for one in report["context"] if one[field] is not None]
        if points:
            lines[name] = ([one["keys"] for one in points], [one[field] for one in points])
    if not lines:
        raise ValueError(
            f"context pictures: an audit must have context points; got none of {field}"
        )
    return lines


def _draw_context(axes, theme: Theme, lines) -> None:
    for n, (keys, values) in enumerate(lines.values()):
        axes.plot(
            keys,
            values,
            color=theme.colors[n % 5],
            linestyle=DASHES[n % 5],
            marker=MARKERS[n % 5],
            clip_on=False,
        )
    every = sorted({key for keys, _ in lines.values() for key in keys})
    axes.set_xscale("log", base=2)
    if len(every) > 1:
        axes.set_xlim(every[0], every[-1])
    axes.set_xticks(every)
    number_ticks(axes.xaxis)
    axes.set_xlabel("keys of the context")


def _label_context(axes, theme: Theme, lines) -> None:
    label_ends(
        axes,
        [
            (values[-1], name, theme.colors[n % 5])
            for n, (name, (_, values)) in enumerate(lines.items())
        ],
    )


@styled
def context_error(audits: Mapping[str, dict], *, theme: Theme) -> Figure:
    """Relative error of O against the number of keys. audits: JSON objects by the name to show."""
    lines = _context_lines(audits, "rel_l2")
    alt = "Relative error of O against the length of the context: " + "; ".join(
        f"{name} {scientific(values[0])} at {keys[0]} keys, {scientific(values[-1])} at {keys[-1]}"
        for name, (keys, values) in lines.items()
    )
    figure, (axes,) = new_axes(theme, "Error against the length of the context", alt, height=3.2)
    _draw_context(axes, theme, lines)
    positive = [value for _, values in lines.values() for value in values if value > 0]
    if positive:
        axes.set_yscale("log")
        low, high = min(positive), max(positive)
        if high / low < 10:
            axes.set_ylim(low / 2.5, high * 2.5)
        log_ticks(axes.yaxis)
    axes.set_ylabel("relative error of O (L2)")
    _label_context(axes, theme, lines)
    return figure


@styled
def context_gain(audits: Mapping[str, dict], *, theme: Theme) -> Figure:
    """Gain of O, <O, exact O> / <exact O, exact O>, against the number of keys; 1 is right."""
    lines = _context_lines(audits, "gain")
    alt = "Gain of O against the length of the context, where 1 is right: " + "; ".join(
        f"{name} {values[0]:.4f} at {keys[0]} keys, {values[-1]:.4f} at {keys[-1]}"
        for name, (keys, values) in lines.items()
    )
    figure, (axes,) = new_axes(theme, "Gain against the length of the context", alt, height=3.0)
    _draw_context(axes, theme, lines)
    axes.axhline(1, color=theme.soft, linewidth=0.8)
    every = [value for _, values in lines.values() for value in values] + [1.0]
    margin = max(0.15 * (max(every) - min(every)), 1e-3)
    axes.set_ylim(min(every) - margin, max(every) + margin)
    axes.set_ylabel("gain of O (1: none is lost)")
    _label_context(axes, theme, lines)
    return figure
