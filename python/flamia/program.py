"""Finds and runs the C++ program flamia.

Used by: pcast.py, report.py, __main__.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence

from flamia._search import search

EXIT_DONE, EXIT_CHECK_FAILED, EXIT_BAD_USAGE, EXIT_FAILURE = 0, 1, 2, 3


def find_program() -> pathlib.Path:
    """The file of the program. Raises FileNotFoundError, which lists what was searched."""
    return search("flamia", "FLAMIA_PROGRAM", "program")


def run_program(arguments: Sequence[str], *, json_file: bool = True) -> dict | None:
    """Runs `flamia ARGUMENTS --json FILE` and returns the parsed JSON; None with json_file=False.

    A failed check (exit code 1) is no error: the JSON says so in "passed". Raises ValueError for
    bad usage or input, RuntimeError for a failure while running; both with the program's words.
    """
    with tempfile.TemporaryDirectory(prefix="flamia-") as folder:
        command = [os.fspath(find_program()), *map(str, arguments)]
        output = pathlib.Path(folder) / "report.json"
        if json_file:
            command += ["--json", os.fspath(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (EXIT_DONE, EXIT_CHECK_FAILED):
            kind = ValueError if done.returncode == EXIT_BAD_USAGE else RuntimeError
            raise kind(done.stderr.strip() or f"flamia ended with code {done.returncode}")
        return json.loads(output.read_text(encoding="utf-8")) if json_file else None
