"""Pictures: every JSON object gives its figures in both themes, with labels, units and alt text."""

import xml.etree.ElementTree as ElementTree

import flamia.pictures as pictures
import pytest
import sample_reports
from flamia.picture_style import THEMES, scientific, svg_text

REPORTS = {
    "dp": lambda: sample_reports.pcast("dp"),
    "table1": lambda: sample_reports.pcast("table1", "--seeds", "2"),
    "sweep": lambda: sample_reports.pcast("sweep", "--seeds", "2"),
    "recommend": lambda: sample_reports.pcast("recommend", str(sample_reports.DATA)),
    "audit": sample_reports.audit,
    "clean audit": lambda: sample_reports.audit(passed=True),
}
EXPECTED = {
    "dp": {"dp_sawtooth"},
    "table1": {"zeroed_fraction"},
    "sweep": {"mse_against_sink", "mse_against_keys", "zeroed_fraction_sweep"},
    "recommend": {"kernel_errors", "score_gaps"},
    "audit": {"leak_map_o", "leak_map_dq", "context_error", "context_gain"},
    "clean audit": {"leak_map_o", "leak_map_dq", "context_error", "context_gain"},
}


def luminance(color):
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", REPORTS)
def test_pictures_have_axis_titles_alt_text_and_valid_svg(name):
    found = pictures.pictures_of(REPORTS[name]())
    assert set(found) == EXPECTED[name]
    for theme in THEMES:
        for draw in found.values():
            figure = draw(theme=theme)
            assert len(pictures.alt_text(figure)) > 60
            for axes in figure.axes:
                titled = axes.get_xlabel() or figure.get_supxlabel() or axes.get_ylabel()
                assert titled
            if theme == "dark":
                continue
            root = ElementTree.fromstring(svg_text(figure, "x"))
            assert root.get("role") == "img"
            assert root.get("aria-label") == pictures.alt_text(figure)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_labels_can_be_read_on_their_background(theme):
    for color in (theme.ink, theme.soft, *theme.colors):
        assert contrast(color, theme.paper) >= 4.5, color
    for color in (theme.ink, *theme.colors):
        assert contrast(color, theme.grid) >= 3, color


def test_ids_do_not_collide_on_a_page():
    draw = pictures.pictures_of(sample_reports.audit())["leak_map_o"]
    ids = []
    for n, theme in enumerate(THEMES):
        root = ElementTree.fromstring(svg_text(draw(theme=theme), f"f{n}"))
        ids += [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_save_all_writes_both_themes_in_both_formats(tmp_path):
    paths = pictures.save_all(sample_reports.pcast("dp"), tmp_path / "new" / "folder")
    endings = {"png", "svg", "dark.png", "dark.svg", "txt"}
    assert {path.name for path in paths} == {f"dp_sawtooth.{ending}" for ending in endings}
    assert all(path.stat().st_size > 100 for path in paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG")


def test_same_json_gives_the_same_svg():
    report = sample_reports.pcast("dp")
    first, second = (svg_text(pictures.dp_sawtooth(report), "x") for _ in range(2))
    assert first == second


def test_unknown_reports_and_tensors_are_refused_in_words():
    assert pictures.pictures_of({"command": "pcast predict"}) == {}
    with pytest.raises(ValueError, match="leak_map: tensor must be one of o, dq; got dk"):
        pictures.leak_map(sample_reports.audit(), "dk")
    with pytest.raises(ValueError, match="pictures: theme must be light or dark; got pink"):
        pictures.leak_map(sample_reports.audit(), "o", theme="pink")


def test_one_point_and_no_point_of_context():
    report = sample_reports.audit()
    report["context"] = report["context"][:1]
    assert pictures.context_error({"one": report}).axes
    report["context"] = []
    assert "context_error" not in pictures.pictures_of(report)
    with pytest.raises(ValueError, match="an audit must have context points"):
        pictures.context_error({"none": report})


def test_infinite_context_errors_are_left_out():
    report = sample_reports.audit()
    report["context"][-1].update(gain=None, rel_l2=None)
    assert pictures.context_error({"fn": report}).axes
    assert pictures.context_gain({"fn": report}).axes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.4e-5, "1.4·10⁻⁵"),
        (1e-5, "10⁻⁵"),
        (0.25, "0.25"),
        (12.0, "12"),
        (1e6, "10⁶"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_in_words(value, text):
    assert scientific(value) == text
