"""Conversions between BF16 bits, numpy arrays and torch tensors; numpy is loaded on first use.

Used by: audits.py, pcast.py. torch is imported only where a caller works with it.
"""

from __future__ import annotations

import sys

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def is_torch(value) -> bool:
    """Whether value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def widen(bits):
    """float32 values of BF16 bits. bits: uint16 of any shape."""
    import numpy as np

    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_bits(value):
    """BF16 bits of an array, rounded to nearest even; NaN stays NaN.

    value: float16, bfloat16, float32 or float64; numpy array, torch tensor, or anything with
    __array__. Returns uint16 of the same shape, C order. Raises TypeError for other types.
    """
    import numpy as np

    array = to_float32(value, "array")
    raw = np.ascontiguousarray(array).view(np.uint32)
    even = (raw >> np.uint32(16)) & np.uint32(1)
    rounded = (raw.astype(np.uint64) + np.uint64(0x7FFF) + even) >> np.uint64(16)
    quiet = (raw >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(array), quiet, rounded.astype(np.uint32)).astype(np.uint16)


def dtype_name(value) -> str:
    """ "bfloat16", "float32", ...: the last part of the name of value.dtype."""
    return str(value.dtype).rsplit(".", 1)[-1]


def is_array(value) -> bool:
    """Whether value has a shape and a dtype, as arrays of numpy, torch, jax and others do."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def to_float32(value, what: str):
    """A float32 numpy array with the values and the shape of an array or tensor.

    Raises TypeError if it is no array, or its dtype is not float16, bfloat16, float32 or float64;
    the message starts with `what`.
    """
    import numpy as np

    if not is_array(value):
        raise TypeError(f"{what} must be an array; got {type(value).__name__}")
    if dtype_name(value) not in _FLOATS:
        raise TypeError(
            f"{what} must have dtype float16, bfloat16, float32 or float64; got {value.dtype}"
        )
    if is_torch(value):
        import torch

        return value.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(np.asarray(value), dtype=np.float32).reshape(value.shape)


def to_int32(value, what: str):
    """An int32 numpy vector. value: one-dimensional array or tensor of integers, or a sequence.

    Raises ValueError if it is none.
    """
    import numpy as np

    array = value.detach().cpu().numpy() if is_torch(value) else np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{what} must be a vector of integers; got {array.dtype} of shape {array.shape}"
        )
    if array.size and (array.min() < 0 or array.max() > 0x7FFFFFFF):
        raise ValueError(f"{what} must lie in [0, 2^31); got {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int32)
