"""Attention functions to audit, in numpy: exact, and with one fault each. Used by: tests."""

import itertools

import ml_dtypes
import numpy as np


def attention(q, k, v, cu_seqlens, causal=True, softmax_scale=None):
    """Exact attention in float64: O [T, heads, D] and LSE [heads, T], both float32."""
    tokens, heads, head_dim = q.shape
    scale = softmax_scale or head_dim**-0.5
    group = heads // k.shape[1]
    o = np.zeros(q.shape)
    lse = np.full((heads, tokens), -np.inf)
    for begin, end in itertools.pairwise(cu_seqlens.tolist()):
        if begin == end:
            continue
        later = np.triu(np.ones((end - begin, end - begin), dtype=bool), 1)
        for head in range(heads):
            rows = slice(begin, end)
            keys = k[rows, head // group].astype(np.float64)
            s = scale * (q[rows, head].astype(np.float64) @ keys.T)
            if causal:
                s[later] = -np.inf
            top = s.max(axis=1, keepdims=True)
            p = np.exp(s - top)
            total = p.sum(axis=1, keepdims=True)
            o[rows, head] = (p / total) @ v[rows, head // group].astype(np.float64)
            lse[head, rows] = (np.log(total) + top)[:, 0]
    return o.astype(np.float32), lse.astype(np.float32)


def exact(q, k, v, cu_seqlens, *, causal, softmax_scale):
    return attention(q, k, v, cu_seqlens, causal, softmax_scale)


def _per_tensor_fp8(x):
    """x in E4M3 with one scale for the whole tensor, as "current scaling" does."""
    largest = np.abs(x[np.isfinite(x)]).max(initial=0.0) or 1.0
    scale = np.float32(448.0 / largest)
    with np.errstate(all="ignore"):
        return (x * scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) / scale


def per_tensor_fp8(q, k, v, cu_seqlens, *, causal):
    return attention(*(_per_tensor_fp8(x) for x in (q, k, v)), cu_seqlens, causal)


def no_mask(q, k, v, cu_seqlens):
    return attention(q, k, v, cu_seqlens, causal=False)


def wrong_shape(q, k, v, cu_seqlens):
    return q[:, 0]


def exits(q, k, v, cu_seqlens):
    """Ends the interpreter as if all were well."""
    raise SystemExit(0)


def raises(q, k, v, cu_seqlens):
    raise RuntimeError("no kernel for this device")


def always_nan(q, k, v, cu_seqlens):
    return np.full_like(q, np.nan)


def writes_inputs(q, k, v, cu_seqlens, *, causal, softmax_scale):
    result = attention(q, k, v, cu_seqlens, causal, softmax_scale)
    for array in (q, k, v, cu_seqlens):
        array[...] = 0
    return result


def random_bits(q, k, v, cu_seqlens, *, causal):
    o, lse = attention(q, k, v, cu_seqlens, causal)
    return o * (1 + np.random.default_rng().normal(0, 1e-3, o.shape)).astype(np.float32), lse


def fails_on_empty(q, k, v, cu_seqlens, *, causal):
    if np.any(np.diff(cu_seqlens) == 0) or len(cu_seqlens) < 2:
        raise IndexError("empty document")
    return attention(q, k, v, cu_seqlens, causal)
