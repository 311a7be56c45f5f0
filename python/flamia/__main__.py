"""python -m flamia: audits of Python functions, pictures, the HTML report; the rest is C++.

Exit codes are those of the program: 0 done, 1 a check failed, 2 bad usage or input, 3 a failure.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback

from flamia.program import EXIT_BAD_USAGE, EXIT_CHECK_FAILED, EXIT_DONE, EXIT_FAILURE, find_program

_USAGE = """usage: python -m flamia COMMAND [ARGUMENTS]

  audit MODULE:FUNCTION [OPTIONS]   audits a Python function; FILE.py:FUNCTION works, too
  audit [OPTIONS] [--plot DIR]      audits the library's own attention, as `flamia audit`
  pcast SUBCOMMAND ... [--plot DIR] as `flamia pcast`, and saves its pictures
  report --output FILE.html         one page: audits, accumulation, P-Cast
  info                              versions of the package, the library and the program

Other commands go to the C++ program flamia: attend, quantize, explain, bench.
audit MODULE:FUNCTION --help and report --help list options."""

_TARGET = re.compile(r"^(?P<module>[^:\s-][^:]*):(?P<path>[A-Za-z_][\w.]*)$")


def _take_option(arguments: list[str], name: str) -> tuple[list[str], str | None]:
    """The arguments without an option, and its value: `--plot DIR` or `--plot=DIR`."""
    rest, value, words = [], None, iter(arguments)
    for word in words:
        if word == name:
            value = next(words, None)
            if value is None:
                raise ValueError(f"{name} must be followed by a value; got nothing")
        elif word.startswith(name + "="):
            value = word.partition("=")[2]
        else:
            rest.append(word)
    return rest, value


def _value_of(arguments: list[str], name: str) -> str | None:
    return _take_option(arguments, name)[1]


def _run(arguments: list[str]) -> int:
    """Runs the program on our terminal; returns its exit code."""
    return subprocess.run([os.fspath(find_program()), *arguments], check=False).returncode


def _run_with_pictures(arguments: list[str]) -> int:
    """Runs the program and, with --plot DIR, draws what it wrote to --json."""
    arguments, folder = _take_option(arguments, "--plot")
    if folder is None:
        return _run(arguments)
    from flamia import pictures  # before the work: matplotlib may be missing

    _check_folder(folder)
    with tempfile.TemporaryDirectory(prefix="flamia-") as scratch:
        output = _value_of(arguments, "--json")
        if output is None:
            output = os.path.join(scratch, "report.json")
            arguments = [*arguments, "--json", output]
        code = _run(arguments)
        if code in (EXIT_DONE, EXIT_CHECK_FAILED) and os.path.exists(output):
            report = json.loads(pathlib.Path(output).read_text(encoding="utf-8"))
            _say_saved(pictures.save_all(report, folder), folder)
    return code


def _check_folder(folder: str) -> None:
    """Refuses, before any work, a --plot that cannot be a folder. Raises ValueError."""
    if not folder:
        raise ValueError("--plot must name a folder; got nothing")
    place = pathlib.Path(folder)
    if place.exists() and not place.is_dir():
        raise ValueError(f"--plot must name a folder; got the file {folder}")
    existing = next(parent for parent in [place, *place.absolute().parents] if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ValueError(f"--plot must name a folder that can be written; got {folder}")


def _loaded_audit(path: str) -> dict:
    """The report of an audit from its JSON file. Raises ValueError."""
    try:
        one = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"report: --audit must name a JSON file; got {path} ({error})") from error
    if not isinstance(one, dict) or one.get("kind") != "audit":
        raise ValueError(f"report: --audit must name the JSON file of an audit; got {path}")
    return one


def _say_saved(paths: list[pathlib.Path], folder: str) -> None:
    names = sorted({path.name.split(".")[0] for path in paths})
    if names:
        print(f"pictures in {folder}: {', '.join(names)}", file=sys.stderr)
    else:
        print(f"no pictures for this command; {folder} was not written", file=sys.stderr)


def _imported(module_name: str):
    """The module of a name, or of a file that ends with .py."""
    if not module_name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(module_name)
    name = pathlib.Path(module_name).stem
    spec = importlib.util.spec_from_file_location(name, module_name)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    sys.path.insert(0, os.path.dirname(os.path.abspath(module_name)))
    spec.loader.exec_module(module)
    return module


def _function_of(target: str):
    """The function that MODULE:FUNCTION or FILE.py:FUNCTION names. Raises ValueError."""
    found = _TARGET.match(target)
    if found.group("module").endswith(".py") and not os.path.isfile(found.group("module")):
        raise ValueError(f"audit: the file of {target} must exist; got none")
    module_name, path = found.group("module"), found.group("path")
    try:
        module = _imported(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise ValueError(f"audit: no module named {error.name} for {target}") from error
    except Exception as error:  # of the module's own code: its traceback helps
        error.from_audited_function = True
        raise
    value = module
    for part in path.split("."):
        if not hasattr(value, part):
            raise ValueError(f"audit: {module_name} must define {path}; got no {part}")
        value = getattr(value, part)
    return value


def _audit_function(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m flamia audit",
        description="Audits fn(q, k, v, cu_seqlens) -> O, (O, LSE) or a mapping: docs/audit.md. "
        "Exit code 1 if a probe fails.",
    )
    parser.add_argument("function", help="MODULE:FUNCTION or FILE.py:FUNCTION")
    for name, default, words in (
        ("--tokens", 512, "rows of the packed calls"),
        ("--heads", 2, "query heads"),
        ("--kv-heads", 1, "key and value heads"),
        ("--head-dim", 128, "head channels"),
        ("--context", 4096, "keys of the longest context"),
        ("--seed", 0, "seed of the random inputs"),
    ):
        parser.add_argument(name, type=int, default=default, help=f"{words} (default {default})")
    parser.add_argument(
        "--probe", metavar="NAMES", help="probes, separated by commas (default all)"
    )
    parser.add_argument("--mask", choices=("causal", "full"), default="causal")
    parser.add_argument("--forward-only", action="store_true", help="no gradients")
    parser.add_argument("--at", type=int, metavar="TOKEN", help="causal probes: this token only")
    parser.add_argument("--operand", help="causal probes: q, k, v, d_o or all")
    parser.add_argument("--factor", type=float, help="causal probes: this factor only")
    parser.add_argument(
        "--array", choices=("numpy", "torch"), help="arrays that the function takes"
    )
    parser.add_argument("--device", help="torch device of the tensors")
    parser.add_argument("--input", metavar="FILE", help="safetensors: q, k, v, cu_seqlens, do")
    parser.add_argument("--shared-tokens", type=int, default=0, help="promise: block that may leak")
    parser.add_argument("--dq-rounding", action="store_true", help="promise: dQ may round")
    parser.add_argument("--not-deterministic", action="store_true", help="promise: runs may differ")
    parser.add_argument(
        "--not-packing-invariant", action="store_true", help="promise: bits may depend on packing"
    )
    parser.add_argument("--json", metavar="FILE", help="JSON file for the report")
    parser.add_argument("--plot", metavar="DIR", help="folder for pictures")
    given = parser.parse_args(arguments)
    if given.plot is not None:
        from flamia import pictures

        _check_folder(given.plot)
    from flamia.audit_report import AuditPromise
    from flamia.audits import audit_causal, spelled_command

    repeated = {
        "causal": given.mask == "causal",
        "gradients": not given.forward_only,
        "array": given.array,
        "device": given.device,
    }
    promised = {
        "shared_tokens": given.shared_tokens or None,
        "dq_rounding": given.dq_rounding,
        "not_deterministic": given.not_deterministic,
        "not_packing_invariant": given.not_packing_invariant,
    }
    command = spelled_command(
        f"python -m flamia audit {given.function}", {**repeated, "input": given.input, **promised}
    )
    report = audit_causal(
        _function_of(given.function),
        tokens=given.tokens,
        heads=given.heads,
        kv_heads=given.kv_heads,
        head_dim=given.head_dim,
        context=given.context,
        seed=given.seed,
        probes=given.probe,
        promise=AuditPromise(
            given.shared_tokens,
            given.dq_rounding,
            not given.not_deterministic,
            not given.not_packing_invariant,
        ),
        at=given.at,
        operand=given.operand,
        factor=given.factor,
        name=given.function,
        activations=given.input,
        json=given.json,
        progress=sys.stderr.isatty(),
        reproduce=command,
        **repeated,
    )
    print(report)
    if given.plot is not None:
        _say_saved(pictures.save_all(report.data, given.plot), given.plot)
    return EXIT_DONE if report.passed else EXIT_CHECK_FAILED


def _report(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m flamia report", description="Writes one self-contained HTML page."
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="the page")
    parser.add_argument("--input", metavar="FILE", help="safetensors file for pcast recommend")
    parser.add_argument(
        "--audit", metavar="FILE", action="append", default=[], help="JSON of an audit to include"
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds, shorter contexts")
    given = parser.parse_args(arguments)
    from flamia import report

    folder = pathlib.Path(given.output).resolve().parent
    if not folder.is_dir():
        raise ValueError(f"report: the folder of --output must exist; got {folder}")
    audits = [_loaded_audit(path) for path in given.audit]
    for path in [*given.audit, *([given.input] if given.input else [])]:
        same = os.path.exists(given.output) and os.path.exists(path)
        if same and os.path.samefile(given.output, path):
            raise ValueError(f"report: --output must not be an input; got {given.output}")
    data = report.collect(
        given.input,
        quick=given.quick,
        audits=audits,
        progress=lambda words: print(f"report: {words}", file=sys.stderr, flush=True),
    )
    print(report.write_report(given.output, data))
    return EXIT_DONE


def _info(arguments: list[str]) -> int:
    from flamia import _native
    from flamia._version import __version__

    print(f"{'package':<12}flamia {__version__}, Python {sys.version.split()[0]}")
    for what, find in (("library", _native.find_library), ("program", find_program)):
        try:
            path = find()
            if what == "library":
                _native.load_library()
            print(f"{what:<12}{path}")
        except (OSError, ImportError) as error:
            print(f"{what:<12}{error}")
    for name in ("numpy", "torch", "matplotlib"):
        found = importlib.util.find_spec(name) is not None
        print(f"{name:<12}{_installed_version(name) if found else 'not installed'}")
    try:
        find_program()
    except FileNotFoundError:
        return EXIT_FAILURE
    sys.stdout.flush()
    return _run(["info", *arguments])


def _installed_version(name: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "installed"


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE)
        return EXIT_DONE if arguments else EXIT_BAD_USAGE
    command, rest = arguments[0], arguments[1:]
    if command == "audit" and rest and _TARGET.match(rest[0]):
        return _audit_function(rest)
    if command == "audit" and rest and not rest[0].startswith("-") and rest[0] != "table5":
        raise ValueError(f"audit: a function must be MODULE:FUNCTION; got {rest[0]}")
    if command in ("audit", "pcast"):
        return _run_with_pictures(arguments)
    if command == "report":
        return _report(rest)
    if command == "info":
        return _info(rest)
    return _run(arguments)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name not in ("matplotlib", "numpy", "torch"):
            raise
        hint = {"matplotlib": "pip install flamia[plot]"}.get(
            error.name, f"pip install {error.name}"
        )
        print(f"flamia: {error.name} must be installed for this command; {hint}", file=sys.stderr)
        return EXIT_FAILURE
    except (ValueError, TypeError, NotImplementedError, OSError) as error:
        if getattr(error, "from_audited_function", False):
            traceback.print_exc()
            return EXIT_FAILURE
        print(f"flamia: {error}", file=sys.stderr)
        return EXIT_BAD_USAGE
    except ImportError as error:
        print(f"flamia: {error}", file=sys.stderr)
        return EXIT_FAILURE
    except Exception as error:
        if getattr(error, "from_audited_function", False):
            traceback.print_exc()
            return EXIT_FAILURE
        raise


if __name__ == "__main__":
    sys.exit(main())
