"""Fails on source files over 700 lines and lists those over 500."""

import sys

import source_files

LISTED = 500
LIMIT = 700


def main() -> int:
    errors = 0
    for name in source_files.files(suffixes=source_files.CODE_SUFFIXES + (".py",)):
        lines = source_files.read(name).count("\n")
        if lines > LIMIT:
            print(f"{name}: {lines} lines, the limit is {LIMIT}")
            errors += 1
        elif lines > LISTED:
            print(f"{name}: {lines} lines (over {LISTED}: its header must say why)")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
