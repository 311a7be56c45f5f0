"""Lists sources without a test twin: src/x/y.h or .cc should have tests/x/y_test.cc. Never fails."""

import pathlib
import sys

import source_files


def main() -> int:
    sources = set()
    for name in source_files.files(suffixes=(".h", ".cc", ".cuh"), folders=("src", "tools")):
        path = pathlib.PurePosixPath(name).with_suffix("")
        sources.add(path.as_posix())
    missing = []
    for name in sorted(sources):
        twin = "tests/" + name.removeprefix("src/") + "_test.cc"
        if not (source_files.ROOT / twin).exists():
            missing.append(name)
    print(f"{len(sources) - len(missing)} of {len(sources)} sources have a test twin")
    if missing:
        print("without: " + " ".join(missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
