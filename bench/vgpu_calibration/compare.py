"""Compares the throughput model of the virtual GPU with times measured on a card.

Two steps, because the card may be on another machine:

  compare.py measure --programs DIR --out measured.json
      runs the programs of DIR on the card: median of event times, results checked
  compare.py predict --programs DIR --vgpu-run FILE --measured measured.json --out result.json
      runs the same programs with few CTAs on the virtual GPU and predicts the full grid

DIR holds scalar, memory and tensor, built in the root of the repository:
  nvcc -cudart shared -O3 -std=c++17 -gencode arch=compute_90a,code=[compute_90a,sm_90a] \\
       -I. -o DIR/scalar bench/vgpu_calibration/scalar.cu
The exit code is 1 if a result is wrong.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = ("scalar", "memory", "tensor")
# Not throughput: what a launch costs, and a chain that waits for its own results.
BEYOND = {"empty", "fma_latency"}


def lines_of(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def card():
    fields = "name,driver_version"
    done = subprocess.run(
        ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
        check=True, stdout=subprocess.PIPE, text=True)
    name, driver = done.stdout.splitlines()[0].split(", ")
    return name, driver


def measure(options):
    rounds = []
    for _ in range(options.rounds):
        found = {}
        for program in PROGRAMS:
            for line in lines_of([str(options.programs / program)]):
                found[line["case"]] = {**line, "program": program}
        rounds.append(found)
    cases = []
    for name, first in rounds[0].items():
        times = [found[name]["median_us"] for found in rounds]
        cases.append({
            **first,
            "median_us": statistics.median(times),
            "low_us": min(found[name]["low_us"] for found in rounds),
            "high_us": max(found[name]["high_us"] for found in rounds),
            "correct": all(found[name]["correct"] for found in rounds),
        })
    name, driver = card()
    result = {
        "chip": name,
        "driver": driver,
        "date": datetime.date.today().isoformat(),
        "command": f"compare.py measure --rounds {options.rounds}",
        "rounds": options.rounds,
        "cases": cases,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(case["correct"] for case in cases) else 1


def count_case(options, program, case):
    """One launch with few CTAs: the line of the program and the statistics."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        command = [str(options.vgpu_run), "--seed", "1", "--stats", str(stats)]
        run = [str(options.programs / program), "--case", case["case"], "--count"]
        line = lines_of(command + run)[0]
        scale = case["ctas"] // line["ctas"]
        if scale * line["ctas"] != case["ctas"]:
            sys.exit(f"{case['case']}: the full grid must be a multiple of {line['ctas']} CTAs")
        lines_of(command + ["--scale", str(scale)] + run)
        return line, json.loads(stats.read_text())["launches"][0]


def predict(options):
    measured = json.loads(options.measured.read_text())
    rows, correct = [], True
    for case in measured["cases"]:
        line, launch = count_case(options, case["program"], case)
        prediction = launch["prediction"]
        error = prediction["microseconds"] / case["median_us"] - 1
        correct = correct and case["correct"] and line["correct"]
        rows.append({
            "case": case["case"],
            "throughput": case["case"] not in BEYOND,
            "ctas": case["ctas"],
            "ctas_counted": line["ctas"],
            "measured_us": case["median_us"],
            "measured_low_us": case["low_us"],
            "measured_high_us": case["high_us"],
            "measured_clock_ghz": case["clock_ghz"],
            "predicted_us": prediction["microseconds"],
            "predicted_clock_ghz": prediction["clock_ghz"],
            "bound": prediction["bounds"][0]["pipe"],
            "error": round(error, 4),
            "correct": case["correct"] and line["correct"],
        })
        print(f"{case['case']:16} measured {case['median_us']:9.1f} us, predicted "
              f"{prediction['microseconds']:9.1f} us, {100 * error:+6.1f} %, "
              f"{prediction['bounds'][0]['pipe']}")
    errors = [abs(row["error"]) for row in rows if row["throughput"]]
    summary = {
        "cases": len(errors),
        "mean_absolute_error": round(statistics.mean(errors), 4),
        "largest_absolute_error": round(max(errors), 4),
    }
    print(f"{len(errors)} throughput cases: mean |error| "
          f"{100 * summary['mean_absolute_error']:.1f} %, largest "
          f"{100 * summary['largest_absolute_error']:.1f} %")
    result = {key: measured[key] for key in ("chip", "driver", "date", "command", "rounds")}
    result |= {"predict_command": "compare.py predict (vgpu-run --seed 1 --stats)", "summary": summary, "rows": rows}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if correct else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("measure", "predict"):
        step = steps.add_parser(name)
        step.add_argument("--programs", type=pathlib.Path, required=True)
        step.add_argument("--out", type=pathlib.Path, required=True)
        if name == "measure":
            step.add_argument("--rounds", type=int, default=5)
        else:
            step.add_argument("--vgpu-run", type=pathlib.Path, required=True)
            step.add_argument("--measured", type=pathlib.Path, required=True)
    options = parser.parse_args()
    return measure(options) if options.step == "measure" else predict(options)


if __name__ == "__main__":
    sys.exit(main())
