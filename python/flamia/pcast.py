"""P-Cast: what the cast of P to 8 bits loses on given tensors, by `flamia pcast recommend`.

Words and verdicts: docs/p-cast.md. Used by: flamia.pcast_report, report.py.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping

from flamia.program import run_program
from flamia.tensor_file import write_attention


def pcast_report(
    source,
    *,
    mask: str = "causal",
    sinks: int = 4,
    rows: int = 512,
    softmax_scale: float | None = None,
    threads: int | None = None,
) -> dict:
    """What known kernels lose on the scores of q and k, and what to change.

    source: path of a safetensors file with BF16 q, k, v; or a mapping of arrays or torch tensors q
    [T, heads, D], k and v [T, kv_heads, D] and cu_seqlens [documents + 1] (without cu_seqlens a
    batch [B, L, heads, D]), which are rounded to BF16. mask: "causal" or "full". sinks: how many
    first keys of a document count as sinks. rows: of each document and head, 0 for all.
    softmax_scale: 1/sqrt(D) by default.

    Returns the JSON object of `flamia pcast recommend`: "all" and "heads" hold the gaps of the
    scores and, for each known kernel, what is zeroed, the error, a verdict and advice.
    Raises ValueError for bad input, FileNotFoundError without the program.
    """
    options = ["--mask", mask, "--sinks", sinks, "--rows", rows]
    if softmax_scale is not None:
        options += ["--softmax-scale", softmax_scale]
    if threads is not None:
        options += ["--threads", threads]
    if isinstance(source, (str, os.PathLike)):
        return run_program(["pcast", "recommend", os.fspath(source), *options])
    if not isinstance(source, Mapping):
        raise TypeError(
            f"pcast_report: source must be a path or a mapping; got {type(source).__name__}"
        )
    missing = [name for name in ("q", "k", "v") if source.get(name) is None]
    if missing:
        raise ValueError(f"pcast_report: source must hold q, k and v; missing {', '.join(missing)}")
    names = [name for name in ("q", "k", "v", "cu_seqlens") if source.get(name) is not None]
    with tempfile.TemporaryDirectory(prefix="flamia-") as folder:
        path = pathlib.Path(folder) / "input.safetensors"
        write_attention(path, {name: source[name] for name in names})
        result = run_program(["pcast", "recommend", os.fspath(path), *options])
    result["input"] = result["input"].replace(result["file"], "arrays")
    result["file"] = "arrays"
    return result
