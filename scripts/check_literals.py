"""Checks that numbers with a meaning in the formats stand only in src/numerics and in tests.

Comments and strings do not count: they are documentation.
"""

import re
import sys

import source_files

_END = r"(?:\.0*)?(?:[fFlLuU]*)(?![\w.])"
_START = r"(?<![\w.])"
LITERALS = {
    "largest E4M3 value": re.compile(_START + "448" + _END),
    "largest E5M2 value": re.compile(_START + "57344" + _END),
    "largest FP16 value": re.compile(_START + "65504" + _END),
    "log2(e)": re.compile(_START + r"1\.442[67]\d*"),
    "ln(2)": re.compile(_START + r"0?\.6931\d*"),
    "float-to-integer magic": re.compile(_START + "12582912" + _END),
    "Schraudolph factor": re.compile(_START + r"1210220[0-9]" + _END),
    "exponential or rounding constant": re.compile(
        _START + r"0x(?:3db504f3|4b400000|4b000000|3fb8aa3b|3f317218)[uUlL]*\b", re.IGNORECASE
    ),
}


def main() -> int:
    errors = 0
    for name in source_files.files(folders=("include", "src", "tools", "bench", "examples")):
        if name.startswith("src/numerics/"):
            continue
        # Separators between digits are removed, so that 57'344 is found too.
        text = source_files.without_comments(source_files.read(name), keep_strings=False)
        text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "", text)
        for what, pattern in LITERALS.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                print(f"{name}:{line}: {match.group()} ({what}) must be named in src/numerics")
                errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
