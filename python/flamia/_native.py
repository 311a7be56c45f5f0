"""libflamia.so through ctypes: structs of flamia/c_api.h, loading, status codes as exceptions.

Used by: audits.py, packed_forward.py. Structs follow the header field by field and name no default of their own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib

from flamia._search import search

INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE_ERROR, INTERNAL = 1, 2, 3, 4, 5

DTYPE_BF16, DTYPE_F32, DTYPE_I32 = 1, 3, 4

MASK_FULL, MASK_CAUSAL = 1, 2
PASS_FORWARD = 1
PART_WORK_LIST, PART_QUANTIZE, PART_ATTEND, PART_ALL = 1, 2, 4, 7

AUDIT_O, AUDIT_LSE, AUDIT_DQ, AUDIT_DK, AUDIT_DV = 1, 2, 4, 8, 16

# Spellings of the enums of flamia_options: value 0 is the default, the first spelling is 1.
CHOICES = {
    "path": ("bf16", "mxfp8", "nvfp4", "all4bit"),
    "backend": ("auto", "cpu", "hopper", "blackwell"),
    "emulate": ("hopper", "blackwell"),
    "safety": ("default", "exact"),
    "determinism": ("any", "deterministic"),
    "hadamard": ("auto", "on", "off"),
    "kv_order": ("reverse", "forward"),
    "exponential": ("exact", "polynomial", "schraudolph", "mitchell"),
    "row_sum": ("p_hat", "p"),
    "delta": ("o_residual", "o_bf16"),
    "accumulate": ("exact", "hw", "auto"),
    "promote": ("tile", "none"),
    "score_accumulator": ("f32", "f16"),
    "ds_format": ("e4m3", "e5m2"),
    "grad_products": ("auto", "fp8", "bf16"),
    "dq_accumulate": ("auto", "fp16", "fp32"),
    "dq_scale": ("auto", "document", "causal"),
    "assignment": ("dynamic", "alternating"),
}


class _Struct(ctypes.Structure):
    """A struct whose struct_size is set."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Tensor(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 4),
        ("stride", ctypes.c_int64 * 4),
    ]


class Options(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("path", ctypes.c_int32),
        ("backend", ctypes.c_int32),
        ("emulate", ctypes.c_int32),
        ("mask", ctypes.c_int32),
        ("window_left", ctypes.c_int64),
        ("window_right", ctypes.c_int64),
        ("has_softmax_scale", ctypes.c_int32),
        ("softmax_scale", ctypes.c_float),
        ("has_p_scale", ctypes.c_int32),
        ("p_scale", ctypes.c_float),
        ("has_tau", ctypes.c_int32),
        ("tau", ctypes.c_float),
        ("safety", ctypes.c_int32),
        ("determinism", ctypes.c_int32),
        ("hadamard", ctypes.c_int32),
        ("kv_order", ctypes.c_int32),
        ("exponential", ctypes.c_int32),
        ("row_sum", ctypes.c_int32),
        ("delta", ctypes.c_int32),
        ("accumulate", ctypes.c_int32),
        ("promote", ctypes.c_int32),
        ("score_accumulator", ctypes.c_int32),
        ("ds_format", ctypes.c_int32),
        ("grad_products", ctypes.c_int32),
        ("dq_accumulate", ctypes.c_int32),
        ("dq_scale", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("assignment", ctypes.c_int32),
    ]


class Problem(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("query_tokens", ctypes.c_int64),
        ("key_tokens", ctypes.c_int64),
        ("batch", ctypes.c_int32),
        ("documents", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class ForwardTensors(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("q", ctypes.POINTER(Tensor)),
        ("k", ctypes.POINTER(Tensor)),
        ("v", ctypes.POINTER(Tensor)),
        ("cu_seqlens_q", ctypes.POINTER(Tensor)),
        ("cu_seqlens_k", ctypes.POINTER(Tensor)),
        ("o", ctypes.POINTER(Tensor)),
        ("lse", ctypes.POINTER(Tensor)),
        ("o_residual", ctypes.POINTER(Tensor)),
    ]


class Workspace(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
    ]


class AuditCall(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("tokens", ctypes.c_int64),
        ("heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("documents", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("softmax_scale", ctypes.c_float),
        ("cu_seqlens", ctypes.c_void_p),
        ("q", ctypes.c_void_p),
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("d_o", ctypes.c_void_p),
        ("o", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("dq", ctypes.c_void_p),
        ("dk", ctypes.c_void_p),
        ("dv", ctypes.c_void_p),
        ("given", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("message", ctypes.c_char * 512),
    ]


class AuditOptions(_Struct):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("reproduce", ctypes.c_char_p),
        ("probes", ctypes.c_char_p),
        ("tokens", ctypes.c_int64),
        ("context", ctypes.c_int64),
        ("heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("full_mask", ctypes.c_int32),
        ("forward_only", ctypes.c_int32),
        ("shared_tokens", ctypes.c_int32),
        ("dq_rounding", ctypes.c_int32),
        ("not_deterministic", ctypes.c_int32),
        ("not_packing_invariant", ctypes.c_int32),
        ("has_at", ctypes.c_int32),
        ("at", ctypes.c_int64),
        ("operand", ctypes.c_char_p),
        ("has_factor", ctypes.c_int32),
        ("factor", ctypes.c_float),
        ("seed", ctypes.c_uint64),
        ("cast_range", ctypes.c_double),
        ("q", ctypes.POINTER(Tensor)),
        ("k", ctypes.POINTER(Tensor)),
        ("v", ctypes.POINTER(Tensor)),
        ("d_o", ctypes.POINTER(Tensor)),
        ("cu_seqlens", ctypes.POINTER(Tensor)),
    ]


AuditFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(AuditCall))
AuditText = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


def find_library() -> pathlib.Path:
    """The file of the library. Raises FileNotFoundError, which lists what was searched."""
    return search("libflamia.so", "FLAMIA_LIBRARY", "library")


@functools.cache
def _load(path: str) -> ctypes.CDLL:
    from flamia._version import __version__

    try:
        library = ctypes.CDLL(path)
        library.flamia_version.restype = ctypes.c_char_p
        library.flamia_last_error.restype = ctypes.c_char_p
        version = library.flamia_version().decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} cannot be loaded as libflamia: {error}") from error
    if version != __version__:
        raise ImportError(
            f"{path} must be version {__version__}, as this Python package; got {version} "
            "(rebuild it with `make build`, or set FLAMIA_LIBRARY to another one)"
        )
    if not hasattr(library, "flamia_audit"):
        raise ImportError(f"{path} has no flamia_audit: it is older than this Python package")
    library.flamia_audit.restype = ctypes.c_int32
    library.flamia_audit.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(Options),
        ctypes.POINTER(AuditOptions),
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int32),
    ]
    library.flamia_workspace_size.restype = ctypes.c_int32
    library.flamia_workspace_size.argtypes = [
        ctypes.POINTER(Problem),
        ctypes.POINTER(Options),
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_size_t),
    ]
    library.flamia_attention_forward_parts.restype = ctypes.c_int32
    library.flamia_attention_forward_parts.argtypes = [
        ctypes.POINTER(Problem),
        ctypes.POINTER(Options),
        ctypes.POINTER(ForwardTensors),
        ctypes.POINTER(Workspace),
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    return library


def load_library() -> ctypes.CDLL:
    """The library with its functions declared. Loaded once for each file.

    Raises FileNotFoundError if there is none, ImportError if it is damaged or another version.
    """
    return _load(os.fspath(find_library()))


def error_of(status: int, message: str) -> Exception:
    """The exception of a status code, with the library's sentence."""
    kinds = {
        INVALID_ARGUMENT: ValueError,
        UNSUPPORTED: NotImplementedError,
        OUT_OF_MEMORY: MemoryError,
    }
    return kinds.get(status, RuntimeError)(message)
