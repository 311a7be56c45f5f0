"""What an audit found: the JSON object of the library as Python objects, and as a printed table.

Used by: audits.py, __main__.py. The fields are those of docs/audit.md.
"""

from __future__ import annotations

import dataclasses
import json as json_module
import math
import textwrap

_TABLE_WIDTH = 100


class AuditFailure(AssertionError):
    """A probe failed. `report` is the AuditReport."""

    def __init__(self, report: AuditReport):
        super().__init__(str(report))
        self.report = report


@dataclasses.dataclass(frozen=True)
class AuditPromise:
    """What a function is allowed to do. The default, nothing, is what exact attention does.

    shared_tokens: earlier rows may change inside aligned blocks of this many tokens.
    dq_rounding: earlier rows of dQ may change by the rounding of FP16 sums.
    deterministic: two runs are bitwise equal.
    packing_invariant: a document's bits do not depend on what it is packed with.
    """

    shared_tokens: int = 0
    dq_rounding: bool = False
    deterministic: bool = True
    packing_invariant: bool = True


@dataclasses.dataclass(frozen=True)
class AuditFinding:
    """One verdict. `outcome` is "passed", "promised", "failed" or "not tested".

    change: size of the largest change or error, infinite if values became non-finite; its norm is
    in the protocol. reach: largest distance, in tokens, between cause and change; 0: none.
    """

    probe: str
    tensor: str
    outcome: str
    change: float
    reach: int
    words: str
    cause: str
    reproduce: str
    figures: dict[str, float]


@dataclasses.dataclass(frozen=True)
class LeakMap:
    """Largest change of every row for every perturbed token.

    tokens: the perturbed tokens. change: numpy float64 [len(tokens), rows]; infinite where values
    became non-finite.
    """

    tensor: str
    tokens: list[int]
    rows: int
    change: object


@dataclasses.dataclass(frozen=True)
class ContextPoint:
    """One length of the long-context probe: gain is <O, exact O> / <exact O, exact O>."""

    keys: int
    gain: float
    rel_l2: float


def _number(value, missing: float = math.inf) -> float:
    return missing if value is None else float(value)


class AuditReport:
    """The result of an audit. `passed` is false if any probe failed, or none could be tested."""

    def __init__(self, data: dict):
        """data: the JSON object of the library, kept as it is in `data`."""
        self.data = data
        self.name: str = data["function"]
        self.passed: bool = data["passed"]
        self.calls: int = data["calls"]
        self.seed: int = data["seed"]
        self.protocol: list[str] = list(data["protocol"])
        self.findings = [
            AuditFinding(
                probe=one["probe"],
                tensor=one["tensor"],
                outcome=one["outcome"],
                change=_number(one["change"]),
                reach=one["reach"],
                words=one["words"],
                cause=one["cause"],
                reproduce=one["reproduce"],
                figures={name: _number(value) for name, value in one["figures"].items()},
            )
            for one in data["findings"]
        ]
        self.context = [
            ContextPoint(one["keys"], _number(one["gain"], math.nan), _number(one["rel_l2"]))
            for one in data["context"]
        ]

    @property
    def leak_maps(self) -> list[LeakMap]:
        """Leak maps with numpy arrays."""
        import numpy as np

        maps = []
        for one in self.data["leak_maps"]:
            rows = [[_number(value) for value in row] for row in one["change"]]
            change = np.array(rows, dtype=np.float64).reshape(len(one["tokens"]), one["rows"])
            maps.append(LeakMap(one["tensor"], list(one["tokens"]), one["rows"], change))
        return maps

    @property
    def failures(self) -> list[AuditFinding]:
        """The findings that failed."""
        return [one for one in self.findings if one.outcome == "failed"]

    def to_json(self, indent: int | None = 2) -> str:
        """The JSON text of the report, as `flamia audit --json` writes it."""
        return json_module.dumps(self.data, indent=indent, ensure_ascii=False)

    def raise_for_failure(self) -> AuditReport:
        """Raises AuditFailure with the printed report unless the audit passed; returns itself."""
        if not self.passed:
            raise AuditFailure(self)
        return self

    def summary(self) -> str:
        """One line: the verdict and how many findings have which outcome."""
        counts = {}
        for one in self.findings:
            counts[one.outcome] = counts.get(one.outcome, 0) + 1
        parts = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        return f"{'passed' if self.passed else 'FAILED'}: {self.name}: {parts or 'no findings'}"

    def __repr__(self) -> str:
        return f"<AuditReport {self.summary()}>"

    def __str__(self) -> str:
        """The findings as a table; for each failure its cause and the line that repeats it."""
        data = self.data
        gradients = "with" if data["gradients"] else "without"
        lines = [
            f"audit of {self.name}: {data['tokens']} tokens, {data['heads']} heads, "
            f"{data['kv_heads']} key heads, head_dim {data['head_dim']}, {data['mask']} mask, "
            f"{gradients} gradients, seed {self.seed}, {self.calls} calls",
            f"promise: {data['promise']['words']}",
            "",
            f"{'probe':<20} {'tensor':<6} {'outcome':<10} {'change':>8} {'reach':>6}  finding",
        ]
        indent = " " * 56
        for one in self.findings:
            outcome = "FAILED" if one.outcome == "failed" else one.outcome
            tested = one.outcome != "not tested"
            change = f"{one.change:8.1e}" if tested and one.change else " " * 8
            reach = f"{one.reach:6d}" if tested and one.reach else " " * 6
            words = textwrap.wrap(one.words, _TABLE_WIDTH - len(indent)) or [""]
            head = f"{one.probe:<20} {one.tensor:<6} {outcome:<10} {change} {reach}  {words[0]}"
            lines.append(head.rstrip())
            lines += [indent + line for line in words[1:]]
        for one in self.failures:
            lines += ["", f"FAILED {one.probe}{' ' + one.tensor if one.tensor else ''}"]
            if one.cause:
                lines += textwrap.wrap(
                    f"likely cause: {one.cause}",
                    _TABLE_WIDTH,
                    initial_indent="  ",
                    subsequent_indent="    ",
                )
            if one.reproduce:
                lines.append(f"  reproduce: {one.reproduce}")
        return "\n".join([*lines, "", self.summary()])
