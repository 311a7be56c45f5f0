"""Lists the source files of the repository and removes comments: shared by the check scripts."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "tools", "bench", "examples", "tests", "python")
CODE_SUFFIXES = (".h", ".cc", ".c", ".cu", ".cuh", ".def", ".inc")

_TOKENS = re.compile(
    r"""(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])|//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""",
    re.DOTALL,
)


def files(suffixes=CODE_SUFFIXES, folders=FOLDERS):
    """Paths relative to the root, with forward slashes, in order."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path.relative_to(ROOT).as_posix()


def read(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text, keep_strings):
    """The text with comments (and strings, unless kept) blanked; line numbers stay."""

    def replace(match):
        token = match.group()
        if token == "'" or (keep_strings and token[0] != "/"):  # a digit separator, or a string
            return token
        return _blank(token)

    return _TOKENS.sub(replace, text)
