"""Python side of flamia: audits of attention functions, P-Cast reports, and their pictures.

Importing this package loads neither the library nor numpy, torch or matplotlib: names are resolved
when they are first used.
"""

from __future__ import annotations

import importlib

_HOMES = {
    "__version__": "_version",
    "audit": "audits",
    "audit_causal": "audits",
    "AuditFinding": "audit_report",
    "AuditPromise": "audit_report",
    "AuditReport": "audit_report",
    "AuditFailure": "audit_report",
    "LeakMap": "audit_report",
    "ContextPoint": "audit_report",
    "pcast_report": "pcast",
    "run_program": "program",
    "find_program": "program",
    "find_library": "_native",
    "pictures": None,
    "report": None,
}

__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'flamia' has no attribute {name!r}")
    home = _HOMES[name]
    if home is None:
        return importlib.import_module(f"flamia.{name}")
    value = getattr(importlib.import_module(f"flamia.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
