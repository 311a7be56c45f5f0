"""How pictures look: colours of both themes, frames, direct labels, and files in PNG and SVG.

Used by: pictures.py, audit_pictures.py, report.py. Colours keep apart under every common colour
blindness and have a contrast of at least 4.5 to their background, as labels wear them; shapes and
dashes repeat what colour says.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import math
import os
import pathlib
import re

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


@dataclasses.dataclass(frozen=True)
class Theme:
    name: str
    paper: str
    ink: str
    soft: str  # frames, ticks, secondary labels
    grid: str
    colors: tuple[str, ...]  # blue, vermilion, green, purple, brown
    map_colors: str  # of a sequential map whose largest value is the most visible


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1a1d21",
    soft="#5b626b",
    grid="#e3e6ea",
    colors=("#0b62b0", "#b8480b", "#0f7a55", "#94398a", "#7a5c00"),
    map_colors="cividis_r",
)
DARK = Theme(
    name="dark",
    paper="#14171a",
    ink="#eceff2",
    soft="#a4acb5",
    grid="#2d3238",
    colors=("#6db3f8", "#f59a62", "#4fcfa0", "#e295d6", "#d8b64c"),
    map_colors="cividis",
)
THEMES = {"light": LIGHT, "dark": DARK}
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v")

WIDTH = 7.0  # inches of a picture that fills its column

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "flamia",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.2,
    "legend.frameon": False,
    "axes.unicode_minus": True,
    "path.simplify": True,
}


def theme_of(theme: str | Theme) -> Theme:
    """The theme of a name. Raises ValueError for others than light and dark."""
    if isinstance(theme, Theme):
        return theme
    if theme not in THEMES:
        raise ValueError(f"pictures: theme must be light or dark; got {theme}")
    return THEMES[theme]


def styled(draw):
    """Makes a picture of draw(report, theme, ...): the style is set while it draws."""

    @functools.wraps(draw)
    def picture(report, *args, theme: str | Theme = "light", **kwargs) -> Figure:
        with matplotlib.rc_context(_SETTINGS):
            return draw(report, *args, theme=theme_of(theme), **kwargs)

    return picture


def new_axes(
    theme: Theme, title: str, alt: str, *, height: float = 3.5, columns: int = 1, **kwargs
):
    """A figure with axes in a row: (figure, [axes]). alt: what a reader who cannot see it needs."""
    figure = Figure(figsize=(WIDTH, height), facecolor=theme.paper, layout="constrained")
    figure.flamia_title = title
    figure.flamia_alt = alt
    axes = figure.subplots(1, columns, squeeze=False, **kwargs)[0]
    for one in axes:
        one.set_facecolor(theme.paper)
        one.grid(axis="y", color=theme.grid, linewidth=0.7)
        one.tick_params(which="both", colors=theme.soft, labelcolor=theme.ink, width=0.8, length=3)
        one.tick_params(which="minor", length=0)
        one.xaxis.label.set_color(theme.ink)
        one.yaxis.label.set_color(theme.ink)
        one.title.set_color(theme.ink)
        for spine in one.spines.values():
            spine.set_color(theme.soft)
    return figure, list(axes)


def alt_text(figure: Figure) -> str:
    """The words that stand for the picture."""
    return figure.flamia_alt


def title_of(figure: Figure) -> str:
    return figure.flamia_title


def number_ticks(axis) -> None:
    """Plain numbers on a logarithmic axis of counts: 512, 1024, 16384, 128k."""

    def text(value, _):
        return f"{value / 1024:g}k" if value >= 1 << 15 else f"{value:g}"

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def log_ticks(axis) -> None:
    """Labels 1, 2 and 5 of every decade of a logarithmic axis, or the decades if there are many."""
    low, high = sorted(axis.get_view_interval())
    few = math.log10(high / low) < 2
    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: scientific(value)))
    axis.set_minor_formatter(NullFormatter())


def scientific(value: float) -> str:
    """1.4e-5 as 1.4·10⁻⁵, 1e-5 as 10⁻⁵; plain from 0.01 to 999."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "∞"
    if 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    exponent = math.floor(math.log10(abs(value)))
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    digits = f"{value / 10.0**exponent:.2g}"
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"


def label_ends(axes, entries, *, gap: float = 0.075, offset: float = 0.012) -> None:
    """Writes labels right of the last points of lines, moved apart where they would overlap.

    entries: (y in data units, text, color). gap: least distance, as a fraction of the axes' height.
    Call it when the limits and the scale are final.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    x0 = axes.get_xlim()[1]
    placed = sorted(
        ([float(to_axes.transform((x0, y))[1]), text, color] for y, text, color in entries),
        key=lambda entry: entry[0],
    )
    for _ in range(200):
        moved = False
        for low, high in zip(placed, placed[1:]):
            lack = gap - (high[0] - low[0])
            if lack > 1e-4:
                low[0] -= lack / 2
                high[0] += lack / 2
                moved = True
        if placed:
            placed[0][0] = max(placed[0][0], 0.01)
            placed[-1][0] = min(placed[-1][0], 0.99)
        if not moved:
            break
    for y, text, color in placed:
        axes.text(
            1 + offset, y, text, color=color, transform=axes.transAxes, va="center", fontsize=8.5
        )


def svg_text(figure: Figure, prefix: str) -> str:
    """The figure as an <svg> element for a page: no prolog, unique ids, its alt text as label.

    prefix: of the ids, unique on the page.
    """
    buffer = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\sxmlns(:\w+)?=\"[^\"]*\"", "", text)
    text = re.sub(r"\sxlink:href=", " href=", text)
    text = re.sub(r"\bid=\"", f'id="{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r"href=\"#", f'href="#{prefix}-', text)
    text = re.sub(r"(?<=font: )([^'\";]*)'DejaVu Sans'[^;\"]*", r"\1system-ui, sans-serif", text)
    text = re.sub(
        r"font-family: '?DejaVu Sans'?[^;\"]*", "font-family: system-ui, sans-serif", text
    )
    label = _escaped(alt_text(figure))
    size = re.search(r"viewBox=\"[^\"]*\"", text).group()
    head_end = text.index(">")
    return f'<svg {size} role="img" aria-label="{label}" version="1.1">' + text[head_end + 1 :]


def _escaped(text: str) -> str:
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(plain, entity)
    return text


def save(picture, folder: str | os.PathLike, name: str) -> list[pathlib.Path]:
    """Writes NAME.png, NAME.svg, NAME.dark.png, NAME.dark.svg and NAME.txt, the alt text.

    picture: a function of a theme that returns a Figure. Creates the folder. Returns the paths.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for theme, ending in (("light", ""), ("dark", ".dark")):
        figure = picture(theme=theme)
        for kind in ("png", "svg"):
            path = folder / f"{name}{ending}.{kind}"
            metadata = {"Title": title_of(figure), "Description": alt_text(figure)}
            if kind == "svg":
                metadata["Date"] = None
            with matplotlib.rc_context(_SETTINGS):
                figure.savefig(path, format=kind, dpi=160, metadata=metadata)
            paths.append(path)
    alt = folder / f"{name}.txt"
    alt.write_text(alt_text(figure) + "\n", encoding="utf-8")
    return [*paths, alt]
