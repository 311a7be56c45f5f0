"""The C function that calls an audited Python function: arrays both ways, gradients, exceptions.

Used by: audits.py. What the function receives and returns: audits.audit_causal().
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
from collections.abc import Callable, Mapping

from flamia import _native
from flamia.arrays import is_array, is_torch, to_float32, widen

_OUTPUT_BITS = {
    "o": _native.AUDIT_O,
    "lse": _native.AUDIT_LSE,
    "dq": _native.AUDIT_DQ,
    "dk": _native.AUDIT_DK,
    "dv": _native.AUDIT_DV,
}
_TITLES = {"o": "O", "lse": "LSE", "dq": "dQ", "dk": "dK", "dv": "dV"}
_KEYWORDS = ("d_o", "causal", "softmax_scale")


class AuditedFunction:
    """The C function that the library calls: converts arrays both ways and holds exceptions."""

    def __init__(self, fn: Callable, adapter):
        self._fn = fn
        self._adapter = adapter
        self._accepted = _accepted_keywords(fn)
        self.failure: Exception | None = None  # of the last call
        self.call = ""  # the last call in words
        self._calls = 0
        self.stopped: BaseException | None = None  # ends the audit

    def __call__(self, user, pointer) -> int:
        call = pointer.contents
        try:
            if self.stopped is not None:
                call.message = b"stopped"
                return 1
            self.failure = None
            self._calls += 1
            outputs = self._run(call)
            _write_outputs(call, outputs)
            return 0
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit):  # it must not end the program with code 0
                error = RuntimeError(f"the function called sys.exit({error.code})")
                error.from_audited_function = True
            self.failure = error
            if _is_foreign(error):
                error.from_audited_function = True
            text = f"{type(error).__name__}: {error}".encode(errors="replace")[:511]
            call.message = text.decode(errors="ignore").encode()
            return 1
        except BaseException as error:  # KeyboardInterrupt
            self.stopped = error
            call.message = b"stopped"
            return 1

    def _run(self, call) -> dict:
        query = (call.tokens, call.heads, call.head_dim)
        key = (call.tokens, call.kv_heads, call.head_dim)
        inputs = [
            _bits(call.q, query),
            _bits(call.k, key),
            _bits(call.v, key),
        ]
        lengths = _copied(call.cu_seqlens, (call.documents + 1,), ctypes.c_int32)
        shown = lengths.tolist() if len(lengths) <= 12 else f"{len(lengths) - 1} documents"
        self.call = f"call {self._calls} of the audit: {call.tokens} tokens, cu_seqlens {shown}"
        d_o = _bits(call.d_o, query) if call.d_o else None
        extra = {"causal": bool(call.causal), "softmax_scale": float(call.softmax_scale)}
        extra = {name: value for name, value in extra.items() if name in self._accepted}
        return self._adapter(self._fn, inputs, lengths, d_o, extra, "d_o" in self._accepted)


def _is_foreign(error: Exception) -> bool:
    """Whether the innermost frame lies outside this package: in the audited function."""
    trace, innermost = error.__traceback__, ""
    while trace is not None:
        innermost, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return not innermost.startswith(os.path.dirname(__file__))


def _copied(address: int, shape: tuple, kind):
    import numpy as np

    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return np.zeros(shape, dtype=np.dtype(kind))
    return np.ctypeslib.as_array((kind * count).from_address(address)).reshape(shape).copy()


def _bits(address: int, shape: tuple):
    return _copied(address, shape, ctypes.c_uint16)


def _accepted_keywords(fn: Callable) -> frozenset:
    """Which of d_o, causal and softmax_scale the signature names."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return frozenset()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(
        name for name in _KEYWORDS if name in parameters and parameters[name].kind in by_name
    )


def make_adapter(array: str | None, device):
    if array is None:
        array = "torch" if "torch" in sys.modules else "numpy"
    if array == "numpy":
        if device is not None:
            raise ValueError(f"audit_causal: device must be None with numpy arrays; got {device}")
        return _call_with_numpy
    if array == "torch":
        return _TorchAdapter(device)
    raise ValueError(f"audit_causal: array must be numpy or torch; got {array}")


def _call_with_numpy(fn, inputs, lengths, d_o, extra, takes_d_o) -> dict:
    if takes_d_o:
        extra["d_o"] = None if d_o is None else widen(d_o)
    import numpy as np

    with np.errstate(all="ignore"):  # some inputs are odd on purpose
        return _named(fn(*(widen(bits) for bits in inputs), lengths, **extra))


class _TorchAdapter:
    """Calls the function with torch tensors, and takes gradients by autograd where it must."""

    def __init__(self, device):
        import torch

        self._torch = torch
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def _tensor(self, bits):
        torch = self._torch
        signed = torch.from_numpy(bits.view("int16"))  # as many torch versions know it
        return signed.view(torch.bfloat16).to(self._device)

    def __call__(self, fn, inputs, lengths, d_o, extra, takes_d_o) -> dict:
        torch = self._torch
        cu_seqlens = torch.from_numpy(lengths).to(self._device)
        tensors = [self._tensor(bits) for bits in inputs]
        gradient = None if d_o is None else self._tensor(d_o)
        if takes_d_o:
            return _named(fn(*tensors, cu_seqlens, **extra, d_o=gradient))
        if gradient is None:
            return _named(fn(*tensors, cu_seqlens, **extra))
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [tensor.clone().requires_grad_(True) for tensor in tensors]
            # Copies of the leaves, because a leaf must not be written to.
            outputs = _named(fn(*(leaf.clone() for leaf in leaves), cu_seqlens, **extra))
            o = outputs.get("o")
            if not is_torch(o) or not o.requires_grad or o.shape != gradient.shape:
                return outputs
            taken = torch.autograd.grad(
                o, leaves, gradient.to(device=o.device, dtype=o.dtype), allow_unused=True
            )
        for name, value in zip(("dq", "dk", "dv"), taken):
            if outputs.get(name) is None:
                outputs[name] = value
        return outputs


def _named(result) -> dict:
    """What fn returned as a dict with keys of o, lse, dq, dk, dv; absent ones: None or missing."""
    if isinstance(result, Mapping):
        unknown = [str(key) for key in result if key not in _OUTPUT_BITS]
        if unknown or result.get("o") is None:
            raise ValueError(
                "audit_causal: fn must return a mapping with o and perhaps lse, dq, dk, dv; "
                f"got {', '.join(map(str, result)) or 'nothing'}"
            )
        return dict(result)
    if isinstance(result, tuple) and len(result) == 2:
        return {"o": result[0], "lse": result[1]}
    if is_array(result):
        return {"o": result}
    got = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
    raise TypeError(
        "audit_causal: fn must return O, (O, LSE) or a mapping with o, lse, dq, dk, dv; got " + got
    )


def _write_outputs(call, outputs: dict) -> None:
    query = (call.tokens, call.heads, call.head_dim)
    key = (call.tokens, call.kv_heads, call.head_dim)
    shapes = {"o": query, "lse": (call.heads, call.tokens), "dq": query, "dk": key, "dv": key}
    given = 0
    for name, bit in _OUTPUT_BITS.items():
        value = outputs.get(name)
        if value is None:
            continue
        title = _TITLES[name]
        array = to_float32(value, f"audit_causal: fn's {title}")
        if array.shape != shapes[name]:
            raise ValueError(
                f"audit_causal: fn must return {title} of shape {shapes[name]}; got {array.shape}"
            )
        address = getattr(call, name)
        if not address:
            continue  # gradients that nobody asked for
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
        given |= bit
    call.given = given
