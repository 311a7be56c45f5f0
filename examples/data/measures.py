"""Measures what makes one head of captured attention hard for low precision.

Everything is computed in FP64 from the BF16 tensors, one document and one head at a time.
Used by: capture.py, to choose the layer and the heads that are shipped. It measures the data and
the formats' limits; the accuracy of flamia's own paths is reported by the flamia program.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

E4M3_MAX = 448.0
E4M3_FLUSH = 2.0**-10  # half of the smallest subnormal: this and less rounds to zero
BLOCK = 32
NEGLIGIBLE_ROW = 1e-11  # of the largest row of dQ in the same document: rounding in FP64
SATURATED = 0.5  # share of rows above 0.99 from which a head shows little but rounding
SINK_ROWS_FROM = 16  # rows this near to a document's start see few keys: no sink to speak of

Numbers = dict[str, float]


@dataclass(frozen=True)
class _DocumentHead:
    """Exact attention of one head over one document: p, ds [rows, keys], o, dq [rows, dim]."""

    scores: Tensor
    p: Tensor
    dp: Tensor
    ds: Tensor
    o: Tensor
    dq: Tensor
    seen: Tensor


def _exact(q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> _DocumentHead:
    """Causal attention and its dQ in FP64. q, k, v, do: [rows, head_dim] FP64."""
    scale = q.shape[1] ** -0.5
    seen = torch.ones(len(q), len(q), dtype=torch.bool, device=q.device).tril()
    scores = q @ k.T * scale
    p = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    o = p @ v
    dp = do @ v.T
    delta = (p * dp).sum(-1, keepdim=True)
    ds = p * (dp - delta)
    return _DocumentHead(scores, p, dp, ds, o, ds @ k * scale, seen)


def _row_cosine(a: Tensor, exact: Tensor) -> Tensor:
    """Cosines of the rows whose exact dQ is more than a rounding error (in FP64).

    The first row of a document (exact dQ zero) and rows of a saturated softmax fall out.
    """
    size = exact.norm(dim=-1)
    counted = size > NEGLIGIBLE_ROW * size.max()
    a, exact, size = a[counted], exact[counted], size[counted]
    cosines: Tensor = (a * exact).sum(-1) / (size * a.norm(dim=-1).clamp_min(1e-300))
    return cosines


def _flushed(ds: Tensor) -> tuple[float, float]:
    """(non-zero entries that 32x32 blocks of E4M3 round to zero, non-zero entries)."""
    ds = ds.float()  # far below any float32 tells nothing about a format
    pad = -len(ds) % BLOCK
    padded = torch.nn.functional.pad(ds.abs(), (0, pad, 0, pad)).double()
    count = padded.shape[0] // BLOCK
    blocks = padded.view(count, BLOCK, count, BLOCK)
    largest = blocks.amax(dim=(1, 3), keepdim=True).clamp_min(1e-300)
    codes = blocks * torch.exp2(-torch.ceil(torch.log2(largest / E4M3_MAX)))
    nonzero = blocks > 0
    return float((nonzero & (codes <= E4M3_FLUSH)).sum()), float(nonzero.sum())


def _bf16_dq(x: _DocumentHead, k: Tensor, v: Tensor, do: Tensor) -> tuple[Tensor, Tensor]:
    """dQ with D from the BF16-rounded O: (all else exact, P and dS in BF16 as well)."""
    scale = k.shape[1] ** -0.5
    delta = (do * x.o.bfloat16().double()).sum(-1, keepdim=True)
    delta_only = (x.p * (x.dp - delta)) @ k * scale
    o = x.p.bfloat16().double() @ v
    delta = (do * o.bfloat16().double()).sum(-1, keepdim=True)
    all_bf16 = (x.p * (x.dp - delta)).bfloat16().double() @ k * scale
    return delta_only, all_bf16


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


def head(q: Tensor, k: Tensor, v: Tensor, do: Tensor, starts: list[int]) -> Numbers:
    """Figures of one head over all documents. q, k, v, do: [tokens, head_dim]."""
    q, k, v, do = (x.double() for x in (q, k, v, do))
    sink, top, spread, deviation, keys = [], [], [], [], []
    delta_cosine, bf16_cosine = [], []
    flushed = nonzero = 0.0
    for begin, end in zip(starts, starts[1:]):
        part = slice(begin, end)
        x = _exact(q[part], k[part], v[part], do[part])
        late = x.p[SINK_ROWS_FROM:]
        sink.append(late[:, 0])
        top.append(late.amax(-1))
        keys.append((-(late * late.clamp_min(1e-300).log()).sum(-1)).exp())
        late_seen, late_scores = x.seen[SINK_ROWS_FROM:], x.scores[SINK_ROWS_FROM:]
        high = late_scores.masked_fill(~late_seen, float("-inf")).amax(-1)
        spread.append(high - late_scores.masked_fill(~late_seen, float("inf")).amin(-1))
        deviation.append(late_scores[late_seen])
        delta_only, all_bf16 = _bf16_dq(x, k[part], v[part], do[part])
        delta_cosine.append(_row_cosine(delta_only, x.dq))
        bf16_cosine.append(_row_cosine(all_bf16, x.dq))
        counts = _flushed(x.ds)
        flushed, nonzero = flushed + counts[0], nonzero + counts[1]
    top_mass, delta_rows = torch.cat(top), torch.cat(delta_cosine)
    return {
        "sink_mass": float(torch.cat(sink).mean()),
        "top_probability": float(top_mass.mean()),
        "rows_with_top_above_0.99": float((top_mass > 0.99).double().mean()),
        "effective_keys_median": float(torch.cat(keys).median()),
        "score_spread_mean_nats": float(torch.cat(spread).mean()),
        "score_spread_max_nats": float(torch.cat(spread).max()),
        "score_std_nats": float(torch.cat(deviation).std()),
        "v_mean_over_std": _rms(v.mean(0)) / _rms(v.std(0)),
        "k_mean_over_std": _rms(k.mean(0)) / _rms(k.std(0)),
        "k_largest_over_mean": float(k.abs().max() / k.abs().mean()),
        "k_channel_over_mean": float(k.abs().mean(0).max() / k.abs().mean()),
        "q_largest_over_mean": float(q.abs().max() / q.abs().mean()),
        "do_max": float(do.abs().max()),
        "do_std": float(do.std()),
        "do_mean_over_std": _rms(do.mean(0)) / _rms(do.std(0)),
        "ds_flushed_32x32": flushed / max(nonzero, 1.0),
        "dq_row_cosine_delta_from_bf16_o": float(delta_rows.mean()),
        "dq_rows_below_0.9_delta_from_bf16_o": float((delta_rows < 0.9).double().mean()),
        "dq_row_cosine_bf16": float(torch.cat(bf16_cosine).mean()),
    }


def dq_row_cosine(
    dq: Tensor, q: Tensor, k: Tensor, v: Tensor, do: Tensor, starts: list[int]
) -> Numbers:
    """How a given dQ of one head points, row by row, against FP64. All [tokens, head_dim]."""
    q, k, v, do, dq = (x.double() for x in (q, k, v, do, dq))
    rows = torch.cat(
        [
            _row_cosine(dq[b:e], _exact(q[b:e], k[b:e], v[b:e], do[b:e]).dq)
            for b, e in zip(starts, starts[1:])
        ]
    )
    return {
        "dq_row_cosine_measured_bf16": float(rows.mean()),
        "dq_rows_below_0.9_measured_bf16": float((rows < 0.9).double().mean()),
    }


def demand(x: Numbers) -> float:
    """How far the per-row dQ cosine falls when D comes from a BF16-rounded O.

    Negative for heads whose softmax is saturated: their dQ is all rounding, which shows nothing.
    """
    if x["rows_with_top_above_0.99"] > SATURATED:
        return -x["rows_with_top_above_0.99"]
    return 1 - x["dq_row_cosine_delta_from_bf16_o"]


def layers_by_demand(figures: list[list[Numbers]]) -> list[int]:
    """Layers, the one with the most demanding head first, from figures[layer][head]."""
    return sorted(range(len(figures)), key=lambda i: -max(demand(x) for x in figures[i]))


def choose(figures: list[list[Numbers]]) -> tuple[int, list[int]]:
    """(layer, its two most demanding heads in ascending order) from figures[layer][head]."""
    layer = layers_by_demand(figures)[0]
    heads = figures[layer]
    order = sorted(range(len(heads)), key=lambda i: -demand(heads[i]))
    return layer, sorted(order[:2])
