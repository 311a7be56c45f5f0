"""The HTML report: complete, escaped, without a request; from samples and from real data."""

import functools
import html.parser
import re

import flamia.report as report
import pytest
import sample_reports

VOID = {"meta", "br", "img", "wbr", "link", "input", "hr"}


class Checker(html.parser.HTMLParser):
    """Checks that elements are closed in order, and collects what tests look at."""

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data.strip())


def sample_data():
    return report.ReportData(
        version="0.1.0",
        audits=[sample_reports.audit(), sample_reports.audit("clean", passed=True)],
        context={
            "promote tile": sample_reports.audit(),
            "promote none": sample_reports.audit(drift=0.01),
        },
        dp=sample_reports.pcast("dp"),
        commands=["flamia pcast dp"],
    )


@functools.cache
def sample_page():
    return report.page(sample_data())


def parsed(text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def assert_no_request(text):
    """Nothing but data: and fragments is referred to, and no script exists."""
    checker = parsed(text)
    assert re.findall(r"https?:|//[a-z]", re.sub(r"data:image/png;base64,[^\"]*", "", text)) == []
    for tag, name, value in checker.attributes:
        assert tag != "script" and not name.startswith("on")
        if name in ("src", "href", "xlink:href", "action", "data", "poster"):
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value[:60])
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.strip("'\"").startswith(("#", "data:"))
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_page_is_well_formed_and_asks_for_nothing():
    text = sample_page()
    assert_no_request(text)
    checker = parsed(text)
    assert checker.headings[:2] == ["flamia report", "Summary"]
    labels = [
        value for tag, name, value in checker.attributes if (tag, name) == ("svg", "aria-label")
    ]
    figures = text.count("<figure>")
    assert len(labels) == 2 * figures > 0
    assert all(len(label) > 60 for label in labels)


def test_page_escapes_what_findings_say_and_uses_words_for_outcomes():
    text = sample_page()
    assert "token 127 &lt;changes&gt; every earlier row &amp; more" in text
    assert "<changes>" not in text
    for word in ("passed", "promised", "FAILED", "not tested"):
        assert f">{word}</span>" in text
    assert "∞" in text
    words = " ".join(parsed(text).text)
    assert "spikes: factor 2^20 on one token" in words
    assert "flamia audit --probe causal_leak" in re.sub(r"\s+", " ", words)


def test_ids_are_unique():
    ids = re.findall(r'\bid="([^"]*)"', sample_page())
    assert len(ids) == len(set(ids))


def test_every_reference_inside_the_page_exists():
    text = sample_page()
    ids = set(re.findall(r'\bid="([^"]*)"', text))
    used = re.findall(r'href="#([^"]*)"', text) + re.findall(r"url\(#([^)]*)\)", text)
    assert used
    assert set(used) <= ids


def test_quick_report_of_real_data(tmp_path):
    said = []
    data = report.collect(sample_reports.DATA, quick=True, progress=said.append)
    assert [one["passed"] for one in data.audits] == [True, True]
    assert len(said) == len(data.commands) == 8
    path = report.write_report(tmp_path / "report.html", data)
    text = path.read_text(encoding="utf-8")
    assert_no_request(text)
    assert str(sample_reports.DATA.parent) not in text
    assert [name.name for name in tmp_path.iterdir()] == ["report.html"]
    assert "Known kernels on trained_attention.safetensors" in text


def test_parts_that_are_absent_leave_no_section():
    text = report.page(report.ReportData(version="0.1.0"))
    assert_no_request(text)
    assert "<figure>" not in text
    assert "P-Cast" not in re.sub(r"<header>.*?</header>", "", text, flags=re.DOTALL)


def test_output_in_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        report.write_report(tmp_path / "missing" / "report.html", report.ReportData("0.1.0"))
