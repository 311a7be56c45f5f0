"""A packed forward call on memory that others own, prepared once and run as often as wanted.

Used by: bench/gpu/peers.py, on CUDA tensors of torch. Depends on: the C ABI (_native.py).
"""

from __future__ import annotations

import ctypes
import dataclasses

from flamia import _native


@dataclasses.dataclass(frozen=True)
class View:
    """Where a tensor lies. Strides count elements; dtype is a number of flamia/c_api.h."""

    address: int
    dtype: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def dense(address: int, dtype: int, shape: tuple[int, ...]) -> View:
    """A contiguous view."""
    stride, step = [], 1
    for extent in reversed(shape):
        stride.append(step)
        step *= extent
    return View(address, dtype, tuple(shape), tuple(reversed(stride)))


def torch_view(tensor) -> View:
    """The view of a torch tensor of bfloat16, float32 or int32, which must stay alive."""
    import torch

    dtypes = {
        torch.bfloat16: _native.DTYPE_BF16,
        torch.float32: _native.DTYPE_F32,
        torch.int32: _native.DTYPE_I32,
    }
    if tensor.dtype not in dtypes:
        raise TypeError(f"tensor must be bfloat16, float32 or int32; got {tensor.dtype}")
    return View(
        tensor.data_ptr(), dtypes[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride())
    )


def _tensor(view: View) -> _native.Tensor:
    fill = [0] * (4 - len(view.shape))
    return _native.Tensor(
        data=view.address,
        dtype=view.dtype,
        rank=len(view.shape),
        shape=(ctypes.c_int64 * 4)(*view.shape, *fill),
        stride=(ctypes.c_int64 * 4)(*view.stride, *fill),
    )


class PackedForward:
    """O and LSE of packed self-attention: views of q, k, v, o [tokens, heads, head_dim] BF16,
    cu_seqlens [documents + 1] I32, lse [heads, tokens] F32, and perhaps o_residual.

    choices: spellings as in _native.CHOICES, and tau as a number. Raises what _native.error_of()
    says. The caller lends workspace_bytes of memory to run().
    """

    def __init__(self, views: dict[str, View], causal: bool, **choices):
        self._library = _native.load_library()
        tokens, heads, head_dim = views["q"].shape
        self._problem = _native.Problem(
            query_tokens=tokens,
            key_tokens=views["k"].shape[0],
            documents=views["cu_seqlens"].shape[0] - 1,
            heads=heads,
            kv_heads=views["k"].shape[1],
            head_dim=head_dim,
        )
        self._options = _native.Options(
            mask=_native.MASK_CAUSAL if causal else _native.MASK_FULL
        )
        for key, value in choices.items():
            if key == "tau":
                self._options.has_tau, self._options.tau = 1, value
            else:
                setattr(self._options, key, 1 + _native.CHOICES[key].index(value))
        self._views = {name: _tensor(view) for name, view in views.items()}
        pointers = {name: ctypes.pointer(view) for name, view in self._views.items()}
        pointers["cu_seqlens_q"] = pointers.pop("cu_seqlens")
        self._tensors = _native.ForwardTensors(**pointers)
        size = ctypes.c_size_t()
        self._check(
            self._library.flamia_workspace_size(
                self._problem, self._options, _native.PASS_FORWARD, ctypes.byref(size)
            )
        )
        self.workspace_bytes = size.value

    def run(self, workspace: int, stream: int = 0, parts: int = _native.PART_ALL) -> None:
        """Runs parts (a sum of _native.PART_*). workspace: an address; stream: a cudaStream_t, 0 on
        the CPU backend."""
        lent = _native.Workspace(data=workspace, bytes=self.workspace_bytes)
        self._check(
            self._library.flamia_attention_forward_parts(
                self._problem, self._options, self._tensors, lent, stream, parts, None
            )
        )

    def _check(self, status: int) -> None:
        if status:
            raise _native.error_of(status, self._library.flamia_last_error().decode())
