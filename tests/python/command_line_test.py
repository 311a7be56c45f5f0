"""python -m flamia: dispatch, exit codes, pictures, audits of functions by name."""

import json
import os
import pathlib
import subprocess
import sys

import flamia

HERE = pathlib.Path(__file__).resolve().parent
SMALL = ["--tokens", "96", "--context", "512", "--head-dim", "32", "--array", "numpy"]


def run(*arguments, folder=HERE):
    return subprocess.run(
        [sys.executable, "-m", "flamia", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


def test_without_arguments_it_shows_its_usage():
    done = run()
    assert done.returncode == 2
    assert "python -m flamia COMMAND" in done.stdout


def test_info_names_what_is_used():
    done = run("info")
    assert done.returncode == 0
    assert f"flamia {flamia.__version__}" in done.stdout
    assert os.fspath(flamia.find_library()) in done.stdout
    assert os.fspath(flamia.find_program()) in done.stdout


def test_other_commands_are_those_of_the_program():
    done = run("explain", "--docs", "4x128")
    assert done.returncode == 0
    assert "path" in done.stdout
    done = run("explain", "--no-such-option")
    assert done.returncode == 2
    assert done.stderr.startswith("flamia explain:")


def test_pcast_draws_and_keeps_the_exit_code(tmp_path):
    report = tmp_path / "dp.json"
    done = run("pcast", "dp", f"--plot={tmp_path / 'pictures'}", "--json", report)
    assert done.returncode == 0
    assert (tmp_path / "pictures" / "dp_sawtooth.svg").is_file()
    assert json.loads(report.read_text())["passed"] is True
    done = run("pcast", "predict", "--seeds", 0, "--plot", tmp_path / "none")
    assert done.returncode == 0
    assert "no pictures for this command" in done.stderr
    assert not (tmp_path / "none").exists()
    assert run("pcast", "dp", "--plot").returncode == 2


def test_audit_of_the_library_draws(tmp_path):
    done = run(
        "audit", "--tokens", 96, "--head-dim", 64, "--probe", "causal_leak", "--plot", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "leak_map_o.png").is_file()


def test_audit_of_a_function_that_passes(tmp_path):
    report = tmp_path / "audit.json"
    done = run("audit", "attention_functions:exact", *SMALL, "--json", report)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed: attention_functions:exact" in done.stdout
    assert json.loads(report.read_text())["function"] == "attention_functions:exact"


def test_audit_of_a_function_that_fails_repeats_by_its_line(tmp_path):
    target = f"{HERE / 'attention_functions.py'}:per_tensor_fp8"
    probe = ["--probe", "causal_leak", "--plot", tmp_path / "pictures"]
    done = run("audit", target, *SMALL, *probe, folder=tmp_path)
    assert done.returncode == 1
    assert "FAILED causal_leak o" in done.stdout
    assert (tmp_path / "pictures" / "leak_map_o.dark.png").is_file()
    line = next(line for line in done.stdout.splitlines() if "reproduce:" in line)
    words = line.partition("reproduce: ")[2].split()
    assert words[:3] == ["python", "-m", "flamia"]
    again = run(*words[3:], folder=tmp_path)
    assert again.returncode == 1
    assert line in again.stdout


def test_errors_of_the_function_keep_their_traceback():
    done = run("audit", "attention_functions:raises", *SMALL)
    assert done.returncode == 3
    assert "RuntimeError: no kernel for this device" in done.stderr
    assert "in raises" in done.stderr


def test_a_function_that_exits_is_a_failure():
    done = run("audit", "attention_functions:exits", *SMALL)
    assert done.returncode == 3
    assert "sys.exit(0)" in done.stderr


def test_outputs_do_not_replace_their_inputs(tmp_path):
    plain_file = tmp_path / "file"
    plain_file.write_text("keep")
    done = run("audit", "attention_functions:exact", *SMALL, "--plot", plain_file)
    assert done.returncode == 2
    assert plain_file.read_text() == "keep"
    done = run(
        "audit", "attention_functions:exact", *SMALL, "--input", plain_file, "--json", plain_file
    )
    assert done.returncode == 2
    done = run("report", "--quick", "--input", plain_file, "--output", plain_file)
    assert done.returncode == 2
    assert plain_file.read_text() == "keep"


def test_bad_targets_and_options_are_bad_usage():
    for arguments, words in (
        (["audit", "attention_functions:nothing"], "must define nothing"),
        (["audit", "no_such_module:fn"], "no module named no_such_module"),
        (["audit", "missing.py:fn"], "the file of missing.py:fn must exist"),
        (["audit", "attention_functions:exact", "--tokens", "1"], "tokens must be from 96"),
        (["audit", "attention_functions:wrong_shape", *SMALL], "fn must return O of shape"),
        (["report", "--output", "/nonexistent/r.html"], "the folder of --output must exist"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert words in done.stderr
        assert "Traceback" not in done.stderr
