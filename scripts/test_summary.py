"""Prints what a ctest run did, from its JUnit file: counts and seconds per test folder."""

import collections
import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: test_summary.py FILE.xml", file=sys.stderr)
        return 2
    try:
        root = ElementTree.parse(sys.argv[1]).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"test_summary: no test results: {error}", file=sys.stderr)
        return 1

    rows = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    failed_names = []
    for case in root.iter("testcase"):
        folder = case.get("name", "?").split("/")[0]
        row = rows[folder]
        status = case.get("status")
        if case.find("skipped") is not None or status in ("notrun", "disabled"):
            row[2] += 1
        elif case.find("failure") is not None or status == "fail":
            row[1] += 1
            failed_names.append(case.get("name"))
        else:
            row[0] += 1
        row[3] += float(case.get("time") or 0)

    print(f"{'folder':<16}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>10}")
    for folder in sorted(rows):
        passed, failed, skipped, seconds = rows[folder]
        print(f"{folder:<16}{passed:>8}{failed:>8}{skipped:>8}{seconds:>10.1f}")
    for name in failed_names:
        print(f"failed: {name}")
    passed, failed, skipped = (sum(row[i] for row in rows.values()) for i in range(3))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
