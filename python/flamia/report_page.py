"""The frame of the HTML report: head, style for both colour schemes, body.

Used by: report.py. The policy in the head forbids every request and every script.
"""

_STYLE = """
:root { --paper: #ffffff; --ink: #1a1d21; --soft: #5b626b; --line: #d5d9de; --tint: #f4f6f8;
  --good: #0f6b4b; --promised: #0b5aa2; --bad: #b3261e; --none: #5b626b; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #eceff2; --soft: #a4acb5;
  --line: #363c43; --tint: #1d2126; --good: #5fd3a6; --promised: #7fbcf7; --bad: #ff9a91;
  --none: #a4acb5; } }
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 52rem;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1.5rem; }
p { margin: .5rem 0; }
a { color: inherit; text-underline-offset: .15em; }
a:focus-visible { outline: 2px solid var(--promised); outline-offset: 2px; }
.soft, figcaption, caption { color: var(--soft); }
code { font: .85em/1.45 ui-monospace, "Cascadia Mono", Menlo, monospace; overflow-wrap: anywhere; }
code span { display: inline-block; max-width: 100%; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: .875rem;
  line-height: 1.4; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .5rem;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; border-bottom-color: var(--soft); }
th.n, td.n { text-align: right; white-space: nowrap; }
th.n { white-space: normal; }
td code { color: var(--soft); }
ul, ol { padding-left: 1.3rem; margin: .5rem 0; }
li { margin: .2rem 0; overflow-wrap: anywhere; }
.words { list-style: none; padding: 0; font-size: .875rem; color: var(--soft); }
.badge { display: inline-block; font-size: .8rem; line-height: 1.2; font-weight: 600;
  padding: .12rem .4rem; border: 1px solid currentColor; border-radius: .25rem;
  white-space: nowrap; vertical-align: .08em; }
.badge.passed { color: var(--good); } .badge.promised { color: var(--promised); }
.badge.failed { color: var(--paper); background: var(--bad); border-color: var(--bad); }
.badge.not-tested { color: var(--none); font-weight: 400; }
figure { margin: 1.75rem 0; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .875rem; margin-top: .4rem; } figcaption b { color: var(--ink); }
.dark { display: none; }
@media (prefers-color-scheme: dark) { .light { display: none; } .dark { display: block; } }
@media print { body { max-width: none; } figure, tr { break-inside: avoid; } }
"""

# Filled by str.format: version, body.
PAGE = (
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>flamia report</title>
<style>"""
    + _STYLE.replace("{", "{{").replace("}", "}}")
    + """</style>
</head>
<body>
<header><h1>flamia report</h1>
<p class="soft">Audits of low-precision attention, and what the cast of P loses.
Version {version}.</p>
</header>
<main>
{body}
</main>
</body>
</html>
"""
)
