"""The package: import time, version, structs against the C header, a library that is missing."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

import flamia
import pytest
from flamia import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_import_is_quick_and_loads_nothing_heavy():
    code = (
        "import time; start = time.perf_counter(); import flamia; "
        "seconds = time.perf_counter() - start; import sys; "
        "print(seconds, *{'numpy', 'torch', 'matplotlib', 'ctypes'} & set(sys.modules))"
    )
    results = [run_python(code).split() for _ in range(3)]
    assert all(len(result) == 1 for result in results), results
    assert min(float(result[0]) for result in results) < 0.15


def test_every_public_name_resolves():
    for name in flamia.__all__:
        assert getattr(flamia, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        flamia.nothing


def test_version_is_that_of_cmake_and_of_the_library():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(r"project\(flamia VERSION (\S+)", text).group(1) == flamia.__version__
    assert _native.load_library().flamia_version().decode() == flamia.__version__


def test_structs_lie_as_in_the_c_header(tmp_path):
    structs = {
        "flamia_tensor": _native.Tensor,
        "flamia_options": _native.Options,
        "flamia_problem": _native.Problem,
        "flamia_forward_tensors": _native.ForwardTensors,
        "flamia_workspace": _native.Workspace,
        "flamia_audit_call": _native.AuditCall,
        "flamia_audit_options": _native.AuditOptions,
    }
    lines, expected = [], []
    for name, struct in structs.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(struct))
        for field, _ in struct._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(getattr(struct, field).offset)
    source = tmp_path / "offsets.cc"
    source.write_text(
        '#include <cstddef>\n#include <cstdio>\n#include "flamia/c_api.h"\n'
        f"int main() {{ {' '.join(lines)} }}\n"
    )
    program = tmp_path / "offsets"
    subprocess.run(["g++", f"-I{ROOT / 'include'}", source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == expected


def test_choices_are_those_of_the_program():
    text = (ROOT / "src" / "problem" / "names.cc").read_text(encoding="utf-8")
    tables = re.findall(r"constexpr const char\* k(\w+)\[\] = \{([^}]*)\};", text)
    spelled = {name: tuple(re.findall(r'"([^"]*)"', words)) for name, words in tables}
    names = {"backend": "BackendKind", "emulate": "Family"}
    for choice, spellings in _native.CHOICES.items():
        camel = "".join(part.capitalize() for part in choice.split("_"))
        assert spelled[names.get(choice, camel)] == spellings, choice


def test_missing_library_is_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMIA_LIBRARY", str(tmp_path / "libflamia.so"))
    with pytest.raises(FileNotFoundError, match="FLAMIA_LIBRARY must name the library; got"):
        flamia.audit()


def test_search_lists_where_it_looked(tmp_path):
    package = tmp_path / "flamia"
    shutil.copytree(ROOT / "python" / "flamia", package)
    code = (
        "from flamia._search import search\n"
        "try: search('libflamia.so', 'FLAMIA_LIBRARY', 'library')\n"
        "except FileNotFoundError as error: print(error)"
    )
    text = run_python(code, PYTHONPATH=str(tmp_path), FLAMIA_LIBRARY="")
    assert "the library libflamia.so was not found. Searched:" in text
    assert str(package / "libflamia.so") in text
    assert "make build" in text


def test_library_of_another_version_is_refused(tmp_path, monkeypatch):
    source = tmp_path / "other.cc"
    source.write_text(
        'extern "C" const char* flamia_version() { return "9.9.9"; }\n'
        'extern "C" const char* flamia_last_error() { return ""; }\n'
    )
    library = tmp_path / "libflamia.so"
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    monkeypatch.setenv("FLAMIA_LIBRARY", str(library))
    expected = f"must be version {flamia.__version__}, as this Python package; got 9.9.9"
    with pytest.raises(ImportError, match=expected):
        flamia.audit()


def test_status_codes_become_exceptions():
    kinds = {1: ValueError, 2: NotImplementedError, 3: MemoryError, 4: RuntimeError}
    for status, kind in kinds.items():
        error = _native.error_of(status, "words")
        assert type(error) is kind
        assert str(error) == "words"
