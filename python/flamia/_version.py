"""The version of the package: that of the CMake project, which is the only place it is written.

Used by: setuptools when it builds the package, the check of the library's version.
"""

from __future__ import annotations

import pathlib
import re


def _version() -> str:
    project = pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt"
    if project.is_file():  # the source tree
        found = re.search(r"project\(flamia VERSION ([0-9.]+)", project.read_text(encoding="utf-8"))
        if found:
            return found.group(1)
    import importlib.metadata  # an installed package; slow to import

    return importlib.metadata.version("flamia")


__version__ = _version()
