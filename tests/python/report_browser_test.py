"""The HTML report in headless Chromium: it renders, fits 800 pixels, can be read in both colour
schemes, and asks the network for nothing. The network is blocked in any case."""

import base64
import json
import pathlib
import re
import shutil
import subprocess

import flamia.report as report
import pytest
import sample_reports
from matplotlib.image import imread

# Without these Chromium itself asks for updates of its own parts.
QUIET = [
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",  # root may not use it
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=3000",
    "--hide-scrollbars",
]
DARK = "--blink-settings=preferredColorScheme=0"
LIGHT = "--blink-settings=preferredColorScheme=1"

# Added to a copy of the page: what the browser computed, as JSON in the document.
MEASURE = """
<script>
addEventListener("load", () => {
  const channel = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const rgba = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) =>
    0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const background = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const texts = [], wide = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (e.tagName === "SCRIPT" || !e.getClientRects().length) continue;
    const box = e.getBoundingClientRect();
    if (!e.closest("svg") && box.right > innerWidth + 0.5) wide.push(e.tagName);
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own) continue;
    const style = getComputedStyle(e);
    const color = rgba(e.closest("svg") ? style.fill : style.color);
    const a = luminance(color), b = luminance(background(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    texts.push([ratio, e.tagName, e.textContent.trim().slice(0, 40)]);
    if (e.closest("svg")) {
      const frame = e.closest("svg").getBoundingClientRect();
      if (box.right > frame.right + 1 || box.left < frame.left - 1) wide.push(e.textContent);
    }
  }
  texts.sort((one, other) => one[0] - other[0]);
  const figures =
    [...document.querySelectorAll("figure svg")].filter(e => e.getClientRects().length);
  const result = {
    scheme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    width: innerWidth, scrollWidth: document.documentElement.scrollWidth, wide,
    headings: [...document.querySelectorAll("h1, h2, h3")].map(e => e.textContent),
    figures: figures.length, themes: [...new Set(figures.map(e => e.parentElement.className))],
    texts: texts.length, worst: texts.slice(0, 5),
  };
  const element = document.createElement("pre");
  element.id = "measured";
  element.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(result))));
  document.body.append(element);
});
</script>
"""


def browse(folder, *arguments):
    """Runs Chromium with a profile that is thrown away; returns its standard output."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "Chromium must be installed; run scripts/setup"
    profile = folder / "profile"
    try:
        done = subprocess.run(
            [program, *QUIET, f"--user-data-dir={profile}", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    return done.stdout


def measured(page, folder, *arguments):
    copy = folder / "measured.html"
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy.write_text(text.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    dom = browse(folder, "--window-size=800,1000", *arguments, "--dump-dom", copy.as_uri())
    encoded = re.search(r'<pre id="measured">([^<]+)</pre>', dom)
    assert encoded, f"the page did not render: {dom[:500]!r}"
    return json.loads(base64.b64decode(encoded.group(1)))


def requests(net_log):
    """Addresses other than files and data that pages asked for, by a net log of Chromium.

    What Chromium asks for itself has no page's origin as its initiator, and is left out.
    """
    log = json.loads(pathlib.Path(net_log).read_text(encoding="utf-8"))
    start = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    found = set()
    for event in log["events"]:
        parameters = event.get("params", {})
        initiator = parameters.get("initiator", "not an origin")
        if event["type"] != start or initiator == "not an origin":
            continue
        if not parameters["url"].startswith(("file:", "data:", "chrome:", "about:")):
            found.add(parameters["url"])
    return sorted(found)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    data = report.ReportData(
        version="0.1.0",
        audits=[sample_reports.audit()],
        context={"promote tile": sample_reports.audit(drift=0.01)},
        dp=sample_reports.pcast("dp"),
        table1=sample_reports.pcast("table1", "--seeds", "2"),
        sweep=sample_reports.pcast("sweep", "--seeds", "2"),
        recommend=sample_reports.pcast("recommend", str(sample_reports.DATA)),
        commands=["flamia audit --backend cpu --path mxfp8 --safety default --tokens 512"],
    )
    data.recommend["file"] = "trained_attention.safetensors"
    return report.write_report(folder / "report.html", data)


@pytest.mark.parametrize(("scheme", "flag"), [("light", LIGHT), ("dark", DARK)])
def test_page_fits_800_pixels_and_can_be_read(page, tmp_path, scheme, flag):
    result = measured(page, tmp_path, flag)
    assert result["scheme"] == scheme
    assert result["width"] == 800
    assert result["scrollWidth"] <= 800, result["wide"]
    assert result["wide"] == []
    assert result["headings"][:2] == ["flamia report", "Summary"]
    assert "Protocol" in result["headings"]
    assert any(one.startswith("P-Cast") for one in result["headings"])
    assert result["themes"] == [scheme]
    assert result["figures"] == 11
    assert result["texts"] > 300
    assert result["worst"][0][0] >= 4.5, result["worst"]


@pytest.mark.parametrize(("scheme", "flag"), [("light", LIGHT), ("dark", DARK)])
def test_page_is_drawn_and_requests_nothing(page, tmp_path, scheme, flag):
    picture, log = tmp_path / "page.png", tmp_path / "net.json"
    browse(
        tmp_path,
        flag,
        "--window-size=800,2400",
        f"--screenshot={picture}",
        f"--log-net-log={log}",
        page.as_uri(),
    )
    pixels = imread(picture)[..., :3]
    assert pixels.shape == (2400, 800, 3)
    assert (pixels[2, 2].mean() > 0.9) == (scheme == "light")
    for part in range(0, 2400, 600):  # no part of the page is empty
        assert pixels[part : part + 600].std() > 0.02
    assert requests(log) == []


def test_a_request_would_be_seen(tmp_path):
    page = tmp_path / "asks.html"
    page.write_text('<!DOCTYPE html><img src="http://flamia.invalid/x.png">')
    log = tmp_path / "net.json"
    browse(tmp_path, f"--log-net-log={log}", "--dump-dom", page.as_uri())
    assert requests(log) == ["http://flamia.invalid/x.png"]
