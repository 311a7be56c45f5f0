"""The packed forward through ctypes, on host memory of the CPU backend."""

import numpy as np
import pytest
from flamia import _native, packed_forward
from flamia.arrays import bf16_bits, widen

TOKENS, HEADS, KV_HEADS, DIM = 50, 4, 2, 64


def view_of(array, dtype):
    return packed_forward.dense(array.ctypes.data, dtype, array.shape)


def aligned_bytes(count):
    memory = np.zeros(count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


def exact(q, k, v, cu):
    out = np.zeros_like(q)
    for begin, end in zip(cu, cu[1:]):
        for head in range(HEADS):
            group = head // (HEADS // KV_HEADS)
            scores = q[begin:end, head] @ k[begin:end, group].T / np.sqrt(DIM)
            scores[np.triu_indices(end - begin, 1)] = -np.inf
            p = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-1e9))
            out[begin:end, head] = (p / p.sum(axis=1, keepdims=True)) @ v[begin:end, group]
    return out


@pytest.fixture
def tensors():
    random = np.random.default_rng(3)
    made = {
        name: bf16_bits(random.standard_normal((TOKENS, heads, DIM), np.float32))
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
    }
    made["o"] = np.zeros((TOKENS, HEADS, DIM), np.uint16)
    made["cu_seqlens"] = np.array([0, 17, 17, 50], np.int32)
    made["lse"] = np.zeros((HEADS, TOKENS), np.float32)
    return made


@pytest.fixture
def views(tensors):
    dtypes = {"cu_seqlens": _native.DTYPE_I32, "lse": _native.DTYPE_F32}
    return {
        name: view_of(array, dtypes.get(name, _native.DTYPE_BF16))
        for name, array in tensors.items()
    }


def test_attends_as_numpy_does(tensors, views):
    call = packed_forward.PackedForward(views, True, backend="cpu", path="bf16")
    memory = aligned_bytes(call.workspace_bytes)
    call.run(memory.ctypes.data)
    q, k, v = (widen(tensors[name]).astype(np.float64) for name in "qkv")
    wanted = exact(q, k, v, tensors["cu_seqlens"].tolist())
    np.testing.assert_allclose(widen(tensors["o"]), wanted, atol=0.03)
    assert np.isfinite(tensors["lse"]).all()


def test_refusals_are_exceptions(views):
    call = packed_forward.PackedForward(views, True, backend="cpu")
    memory = aligned_bytes(call.workspace_bytes)
    with pytest.raises(NotImplementedError, match="parts must be 7 for the cpu backend"):
        call.run(memory.ctypes.data, parts=_native.PART_ATTEND)
    with pytest.raises(ValueError, match="parts must be between 1 and 7; got 8"):
        call.run(memory.ctypes.data, parts=8)
    views["k"] = packed_forward.View(8, _native.DTYPE_BF16, (TOKENS, 3, DIM), (1, 1, 1))
    with pytest.raises(ValueError, match="kv_heads"):
        packed_forward.PackedForward(views, True, backend="cpu")
