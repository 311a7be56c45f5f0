"""Prints one table from the JSON reports of `flamia attend`, a line for each path."""

import json
import sys


def cosine(report: dict, name: str) -> str:
    figures = report["outputs"].get(name)
    return "-" if figures is None or figures["cosine"] is None else f"{figures['cosine']:.5f}"


def line(report: dict) -> list[str]:
    flushed = report["ds_flushed_fraction"]
    tflops = report["tflops"]["total"]
    row_cosine = report["outputs"]["dq"]["row_cosine"]
    leak = report["leak"] or {}
    verdict = {True: "passed", False: "FAILED"}.get(leak.get("passed"), "not tested")
    return [
        report["path"],
        *(cosine(report, name) for name in ("o", "dq", "dk", "dv")),
        f"{row_cosine:.4f}",
        f"{report['lse_max_abs']:.1e}",
        f"{100 * flushed:.2f} %",
        verdict,
        f"{report['ms']['total']:.0f}",
        f"{1000 * tflops:.1f}",
    ]


def main() -> None:
    header = ["path", "O", "dQ", "dK", "dV", "dQ rows", "LSE max", "dS flushed", "leak", "ms"]
    rows = [[*header, "GFLOP/s"]]
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            rows.append(line(json.load(file)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print("cosines against exact attention in FP64:")
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


if __name__ == "__main__":
    main()
