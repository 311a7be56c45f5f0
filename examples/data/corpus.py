"""Builds the training text from a Debian package and packs documents into rows.

The text is the Debian package dict-gcide, cut down to the entries that come from Webster's
Revised Unabridged Dictionary of 1913 alone, whose text is in the public domain.
Used by: capture.py. This file knows nothing about the model or about PyTorch.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

PACKAGE = "dict-gcide"
DICTIONARY = "usr/share/dictd/gcide.dict.dz"
DOCUMENT_START = 0  # a byte that the text never contains: first token of a document, and its end

_SOURCE = b"[1913 Webster]"
_NEXT_HEADWORD = re.compile(rb"(\[1913 Webster\])[ \t]+\S.*\Z")
_BRACKETED = re.compile(rb"\[\s*([^][]*?)\s*\]", re.S)
_OTHER_SOURCE = re.compile(
    rb"PJC|WordNet|Suppl|Webster.+\+|Century Dict|RDH|RHUD|MW10|MI11|imac|\A(AS|GG)\Z", re.S
)

_HELD_OUT_RUN = 64  # entries in a row that are held out together
_HELD_OUT_EVERY = 100  # one such run in this many

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Batch:
    """Rows of packed documents as one flat sequence.

    tokens, targets, positions: [rows * row_tokens]; starts: [documents + 1], ascending, from 0.
    A row never shares a document with the next one, so starts contains every row's first token.
    """

    tokens: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]


def _entries_of_1913(text: bytes) -> list[bytes]:
    """Entries, in dictionary order, that carry no other source mark than [1913 Webster]."""
    kept: list[bytes] = []
    for raw in re.split(rb"\n\n+(?=\S)", text):
        entry = _NEXT_HEADWORD.sub(rb"\1", raw.strip(b"\n").rstrip())
        if not entry.endswith(_SOURCE) or not entry.isascii() or b"\0" in entry:
            continue
        if any(_OTHER_SOURCE.search(mark) for mark in _BRACKETED.findall(entry)):
            continue
        kept.append(entry + b"\n")
    return kept


def build(out: Path) -> dict[str, str | int]:
    """Downloads the package, writes the entries, zero-separated, to an xz file; returns facts."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, check=True)
        (package,) = Path(folder).glob("*.deb")
        version = subprocess.run(
            ["dpkg-deb", "-f", str(package), "Version"], check=True, capture_output=True, text=True
        ).stdout.strip()
        subprocess.run(["dpkg", "-x", str(package), "unpacked"], cwd=folder, check=True)
        text = gzip.decompress((Path(folder) / "unpacked" / DICTIONARY).read_bytes())
    entries = _entries_of_1913(text)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    partial.write_bytes(lzma.compress(b"\0".join(entries), preset=9))
    partial.replace(out)
    return {
        "package": PACKAGE,
        "version": version,
        "package_text_bytes": len(text),
        "kept_entries": len(entries),
        "kept_text_bytes": sum(map(len, entries)),
        "file_bytes": out.stat().st_size,
    }


def split_entries(text: bytes) -> tuple[list[bytes], list[bytes]]:
    """(training entries, held-out entries), both in dictionary order."""
    training: list[bytes] = []
    held_out: list[bytes] = []
    for index, entry in enumerate(text.split(b"\0")):
        in_held_out = (index // _HELD_OUT_RUN) % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1
        (held_out if in_held_out else training).append(entry)
    return training, held_out


def headword(document: bytes) -> str:
    """First word of a document, for listings."""
    return document.split(b"\\", 1)[0].decode("ascii").strip()


class Documents:
    """Endless supply of documents: runs of consecutive entries with log-uniform lengths."""

    def __init__(self, entries: list[bytes], seed: int, shortest: int, longest: int) -> None:
        self._entries = entries
        self._random = np.random.default_rng(seed)
        self._range = (float(np.log(shortest)), float(np.log(longest)))

    def draw(self) -> bytes:
        """Whole entries from a random place until a random length is reached."""
        wanted = int(np.exp(self._random.uniform(*self._range)))
        return self.run(int(self._random.integers(len(self._entries))), wanted)

    def run(self, first: int, wanted: int) -> bytes:
        """Entries from number first on until at least wanted bytes are there."""
        parts: list[bytes] = []
        total = 0
        while total < wanted:
            entry = self._entries[first % len(self._entries)]
            parts.append(entry)
            total += len(entry) + 1
            first += 1
        return b"\n".join(parts)

    def nearest(self, wanted: int, part: int, parts: int, tries: int = 4000) -> bytes:
        """The best of many runs of whole entries: tokens near wanted, no multiple of 32.

        Runs start in the given part of the entries, so that those of different parts differ.
        """
        best = b""
        low, high = (len(self._entries) * p // parts for p in (part, part + 1))
        for _ in range(tries):
            run = self.run(int(self._random.integers(low, high)), int(0.8 * wanted))
            closer = abs(len(run) + 1 - wanted) < abs(len(best) + 1 - wanted)
            if closer and (len(run) + 1) % 32 != 0:
                best = run
        return best


def pack(first: list[bytes], source: Documents, rows: int, row_tokens: int) -> Batch:
    """Fills rows with documents, those in first before drawn ones; the last of a row is cut."""
    tokens = np.empty(rows * row_tokens, dtype=np.int64)
    targets = np.empty_like(tokens)
    positions = np.empty_like(tokens)
    starts = [0]
    waiting = list(first)
    for row in range(rows):
        at, end = row * row_tokens, (row + 1) * row_tokens
        while at < end:
            document: Bytes = np.frombuffer(
                waiting.pop(0) if waiting else source.draw(), dtype=np.uint8
            )
            count = min(len(document) + 1, end - at)
            tokens[at] = DOCUMENT_START
            tokens[at + 1 : at + count] = document[: count - 1]
            targets[at : at + count - 1] = document[: count - 1]
            targets[at + count - 1] = (
                document[count - 1] if count <= len(document) else DOCUMENT_START
            )
            positions[at : at + count] = np.arange(count)
            at += count
            starts.append(at)
    return Batch(tokens, targets, positions, np.asarray(starts, dtype=np.int32))
