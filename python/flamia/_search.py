"""Where the library and the program lie: a variable, beside the package, or a build.

Used by: _native.py, program.py.
"""

from __future__ import annotations

import os
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent


def search(name: str, variable: str, what: str) -> pathlib.Path:
    """The first existing file of: $variable, the package folder, build/*/ of the source tree.

    build/release comes first, then the newest build. Raises FileNotFoundError that lists what was
    searched and what to do.
    """
    given = os.environ.get(variable)
    if given:
        path = pathlib.Path(given)
        if path.is_file():
            return path.resolve()
        raise FileNotFoundError(f"{variable} must name the {what}; got {given}, which is no file")
    searched = [PACKAGE / name, PACKAGE / "lib" / name, PACKAGE / "bin" / name]
    tree = PACKAGE.parents[1]
    if (tree / "CMakeLists.txt").is_file():
        builds = sorted(tree.glob(f"build/*/{name}"), key=lambda path: -path.stat().st_mtime)
        release = tree / "build" / "release" / name
        searched += [release, *(path for path in builds if path != release)]
        if len(builds) == 0:
            searched.append(tree / "build" / "*" / name)
    for path in searched:
        if path.is_file():
            return path.resolve()
    listed = "\n".join(f"  {path}" for path in searched)
    raise FileNotFoundError(
        f"the {what} {name} was not found. Searched:\n"
        f"  ${variable} (not set)\n{listed}\n"
        f"Build it with `make build` in the source tree, or set {variable} to its path."
    )
