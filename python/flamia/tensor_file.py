"""Reads and writes safetensors files: the few dtypes that attention tensors have.

Used by: pcast.py, audits.py. A file is 8 bytes of length, a JSON header, and the data.
"""

from __future__ import annotations

import json
import os
import pathlib
import struct

from flamia.arrays import bf16_bits, to_int32, widen

_NUMPY_NAMES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
_LARGEST_HEADER = 100_000_000


def read_tensors(path: str | os.PathLike) -> dict:
    """Tensors of a file by name, as numpy arrays; BF16 widens to float32.

    Tensors of other dtypes are left out. Raises OSError, or ValueError for a damaged file.
    """
    import numpy as np

    data = pathlib.Path(path).read_bytes()
    size = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else _LARGEST_HEADER + 1
    if size > min(len(data) - 8, _LARGEST_HEADER):
        raise ValueError(f"{path} must be a safetensors file; its header is damaged")
    try:
        header = json.loads(data[8 : 8 + size])
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            part = memoryview(data)[8 + size + begin : 8 + size + end]
            if entry["dtype"] == "BF16":
                tensors[name] = widen(np.frombuffer(part, "<u2").reshape(entry["shape"]))
            elif entry["dtype"] in _NUMPY_NAMES:
                kind = _NUMPY_NAMES[entry["dtype"]]
                tensors[name] = np.frombuffer(part, kind).reshape(entry["shape"]).copy()
        return tensors
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} must be a safetensors file; {error}") from error


def write_attention(path: str | os.PathLike, tensors: dict) -> None:
    """Writes floating-point tensors as BF16, and names that start with "cu_" as I32.

    tensors: arrays or torch tensors by name. Raises TypeError or ValueError for other arrays.
    """
    parts, header, offset = [], {}, 0
    for name, value in tensors.items():
        if name.startswith("cu_"):
            array, kind = to_int32(value, name), "I32"
        else:
            array, kind = bf16_bits(value), "BF16"
        part = array.tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(part)],
        }
        offset += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
