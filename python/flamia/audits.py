"""Audits of attention functions: does a later token change earlier rows, do documents mix, do sums
saturate, vanish or drift? The probes are the library's; this file lends it a Python function.

Semantics: flamia/audit.h and docs/audit.md. Used by: flamia.audit_causal, flamia.audit.
"""

from __future__ import annotations

import ctypes
import json as json_module
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from flamia import _native
from flamia.arrays import bf16_bits, to_int32
from flamia.audit_report import AuditPromise, AuditReport
from flamia.audited_function import AuditedFunction, make_adapter
from flamia.tensor_file import read_tensors

_FLOAT_OPTIONS = ("softmax_scale", "p_scale", "tau")


def audit_causal(
    fn: Callable,
    *,
    tokens: int = 512,
    heads: int = 2,
    kv_heads: int = 1,
    head_dim: int = 128,
    causal: bool = True,
    gradients: bool = True,
    seed: int = 0,
    context: int = 4096,
    probes: str | Sequence[str] | None = None,
    promise: AuditPromise | None = None,
    array: str | None = None,
    device=None,
    name: str | None = None,
    at: int | None = None,
    operand: str | None = None,
    factor: float | None = None,
    activations=None,
    json: str | os.PathLike | None = None,
    progress: Callable[[str], None] | bool | None = None,
    reproduce: str | None = None,
) -> AuditReport:
    """Audits fn(q, k, v, cu_seqlens): packed self-attention of any precision.

    The function receives q [T, heads, head_dim], k and v [T, kv_heads, head_dim], and int32
    cu_seqlens [documents + 1]; documents may be empty, and rows past cu_seqlens[-1] belong to
    nobody. T varies between calls. It returns O [T, heads, head_dim], or (O, LSE) with LSE
    [heads, T] in natural logarithms, or a mapping with keys o and perhaps lse, dq, dk, dv;
    float16, bfloat16, float32 or float64. It may write into its inputs.

    If its signature names them, it is also given the keywords `causal` (bool), `softmax_scale`
    (float) and `d_o` (gradient of O, as O; None when no gradients are asked for). A function with
    `d_o` returns its gradients in the mapping; otherwise, with torch, torch.autograd.grad(O,
    (q, k, v), d_o) is taken if O requires a gradient.

    tokens: rows of the packed calls, 96 to 65536. context: keys of the longest context, 512 to
    1048576. causal: audit with a causal mask, else with a full one. gradients: ask for dQ, dK, dV.
    seed: of the random inputs; every figure is a function of it. probes: names to run, all by
    default. promise: what the function is allowed to do, nothing by default.
    array: "numpy" (float32 arrays that hold BF16 values) or "torch" (bfloat16 tensors on
    `device`, by default the GPU if there is one); by default torch if it is imported already.
    at, operand, factor: narrow the causal probes to one token, to one of "q", "k", "v", "d_o",
    "all", and to one factor, as the reproducing line of a finding says.
    activations: inputs of the causal probes instead of random ones: the path of a safetensors file,
    or a mapping with q, k, v, cu_seqlens and perhaps d_o (or do); shapes then come from them.
    json: file for the report. progress: called with the name of each probe, or True to print them.
    reproduce: command that repeats the audit, for the report; by default a call of this function.

    Raises ValueError for arguments out of range; TypeError or ValueError if fn returns something
    else than described; and whatever fn raises on ordinary inputs. What it raises on odd inputs (an
    empty document, a NaN in a neighbour) is a finding.
    """
    if not callable(fn):
        raise TypeError(f"audit_causal: fn must be callable; got {type(fn).__name__}")
    if promise is not None and not isinstance(promise, AuditPromise):
        raise TypeError(
            f"audit_causal: promise must be an AuditPromise; got {type(promise).__name__}"
        )
    _check_json("audit_causal", json, activations)
    library = _native.load_library()
    name = name or _name_of(fn)
    shapes = dict(tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    settings = dict(shapes, context=context, causal=causal, gradients=gradients, seed=seed)
    options = _audit_options("audit_causal", settings, probes, (at, operand, factor))
    options.name = name.encode()
    options.reproduce = None if reproduce is None else reproduce.encode()
    promise = promise or AuditPromise()
    options.shared_tokens = promise.shared_tokens
    options.dq_rounding = promise.dq_rounding
    options.not_deterministic = not promise.deterministic
    options.not_packing_invariant = not promise.packing_invariant
    _set_activations(options, activations)
    caller = AuditedFunction(fn, make_adapter(array, device))
    audit = _Audit(library, "audit_causal", progress, caller)
    data = audit.run(_native.AuditFunction(caller), None, options)
    if reproduce is None:
        common = dict(causal=causal, gradients=gradients, array=array)
        for finding in data["findings"]:
            finding["reproduce"] = _python_call(name, common, finding["reproduce"])
    return _finish(data, json)


def audit(
    backend: str = "cpu",
    path: str = "mxfp8",
    safety: str = "default",
    *,
    tokens: int = 512,
    heads: int = 2,
    kv_heads: int = 1,
    head_dim: int = 128,
    causal: bool = True,
    gradients: bool = True,
    seed: int = 0,
    context: int = 4096,
    probes: str | Sequence[str] | None = None,
    name: str | None = None,
    at: int | None = None,
    operand: str | None = None,
    factor: float | None = None,
    activations=None,
    json: str | os.PathLike | None = None,
    progress: Callable[[str], None] | bool | None = None,
    **options,
) -> AuditReport:
    """Audits the library's own attention against what it promises for these options.

    backend, path, safety and the numeric options are spelled as on the command line, with
    underscores: accumulate="hw", promote="none", p_scale=256, tau=0, threads=2, ... The other
    arguments are those of audit_causal().

    Raises ValueError for values out of range, TypeError for unknown options, NotImplementedError
    for what the backend does not support.
    """
    _check_json("audit", json, activations)
    library = _native.load_library()
    choices = dict(options, backend=backend, path=path, safety=safety)
    own = own_options(choices)
    shapes = dict(tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    settings = dict(shapes, context=context, causal=causal, gradients=gradients, seed=seed)
    record = _audit_options("audit", settings, probes, (at, operand, factor))
    name = name or f"flamia {path}, {safety} safety, {backend}"
    record.name = name.encode()
    common = dict(choices, causal=causal, gradients=gradients)
    record.reproduce = spelled_command("flamia audit", common).encode()
    _set_activations(record, activations)
    data = _Audit(library, "audit", progress, None).run(None, own, record)
    return _finish(data, json)


def own_options(choices: Mapping) -> _native.Options:
    """flamia_options of spelled choices. Raises TypeError or ValueError, which name the choice."""
    own = _native.Options()
    for key, value in choices.items():
        if value is None:
            continue
        if key in _native.CHOICES:
            spellings = _native.CHOICES[key]
            if value not in spellings:
                listed = ", ".join(spellings[:-1]) + " or " + spellings[-1]
                raise ValueError(f"audit: {key} must be {listed}; got {value}")
            setattr(own, key, spellings.index(value) + 1)
        elif key in _FLOAT_OPTIONS:
            setattr(own, key, float(value))
            setattr(own, "has_" + key, 1)
        elif key == "threads":
            own.threads = int(value)
        else:
            known = ", ".join([*_native.CHOICES, *_FLOAT_OPTIONS, "threads"])
            raise TypeError(f"audit: unknown option {key} (the options are {known})")
    return own


def _check_json(function: str, json, activations) -> None:
    """Refuses, before any work, a report that would replace its own input."""
    if json is None or not isinstance(activations, (str, os.PathLike)):
        return
    if os.path.exists(json) and os.path.samefile(json, activations):
        raise ValueError(f"{function}: json must not be the file of the activations; got {json}")


def _finish(data: dict, json) -> AuditReport:
    report = AuditReport(data)
    if json is not None:
        pathlib.Path(json).write_text(report.to_json() + "\n", encoding="utf-8")
    return report


def _audit_options(function: str, settings: dict, probes, narrowed) -> _native.AuditOptions:
    at, operand, factor = narrowed
    for key in ("tokens", "heads", "kv_heads", "head_dim", "context", "seed"):
        value = settings[key]
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{function}: {key} must be an integer; got {value!r}")
        lowest = 0 if key == "seed" else 1
        highest = 2**64 if key == "seed" else 2**31
        if not lowest <= value < highest:
            raise ValueError(f"{function}: {key} must be in [{lowest}, {highest}); got {value}")
    given = probes is not None
    if probes is None:
        probes = ()
    elif isinstance(probes, str):
        probes = (probes,)
    if len(probes) == 0 and given or any(not name.strip() for name in probes):
        raise ValueError(f"{function}: probes must be names; got {probes!r} (None runs all)")
    return _native.AuditOptions(
        probes=",".join(probes).encode() or None,
        tokens=settings["tokens"],
        context=settings["context"],
        heads=settings["heads"],
        kv_heads=settings["kv_heads"],
        head_dim=settings["head_dim"],
        full_mask=not settings["causal"],
        forward_only=not settings["gradients"],
        has_at=at is not None,
        at=0 if at is None else at,
        operand=None if operand is None else operand.encode(),
        has_factor=factor is not None,
        factor=0.0 if factor is None else factor,
        seed=settings["seed"],
    )


def _name_of(fn: Callable) -> str:
    target = fn if hasattr(fn, "__qualname__") else type(fn)
    module = getattr(target, "__module__", None)
    return (
        target.__qualname__ if module in (None, "__main__") else f"{module}.{target.__qualname__}"
    )


_SPELLING = {"exponential": "exp", "softmax_scale": "scale"}
_DEFAULTS = dict(causal=True, gradients=True, determinism="any")


def spelled_command(command: str, values: Mapping) -> str:
    """A command line with those values that are not the defaults. The probes add theirs."""
    words = [command]
    for key, value in values.items():
        if value is None or value is False and key not in _DEFAULTS or _DEFAULTS.get(key) == value:
            continue
        if value is True:
            words.append(f"--{key.replace('_', '-')}")
        elif key == "causal":
            words.append("--mask full")
        elif key == "gradients":
            words.append("--forward-only")
        elif key == "determinism":
            words.append("--deterministic")
        else:
            words.append(f"--{_SPELLING.get(key, key).replace('_', '-')} {value}")
    return " ".join(words)


def _python_call(name: str, common: Mapping, options: str) -> str:
    """The call of audit_causal with a probe's options, "--probe NAME --seed 0 ..."."""
    words = options.split()
    given = [(key, value) for key, value in common.items() if value is not None]
    arguments = [f"{key}={value!r}" for key, value in given if _DEFAULTS.get(key) != value]
    for key, text in zip(words[::2], words[1::2]):
        key = "probes" if key == "--probe" else key.removeprefix("--").replace("-", "_")
        try:
            shown = repr(json_module.loads(text))
        except ValueError:
            shown = f"float({text!r})" if text in ("inf", "-inf", "nan") else repr(text)
        arguments.append(f"{key}={shown}")
    return f"flamia.audit_causal({', '.join([name, *arguments])})"


def _set_activations(options: _native.AuditOptions, activations) -> None:
    """Points the options at activations in BF16, which live as long as the options."""
    if activations is None:
        return
    if isinstance(activations, (str, os.PathLike)):
        activations = read_tensors(activations)
    if not isinstance(activations, Mapping):
        raise TypeError(
            "audit: activations must be a path or a mapping; got " + type(activations).__name__
        )
    given = dict(activations)
    if "d_o" not in given and "do" in given:
        given["d_o"] = given["do"]
    keep = []
    for key in ("q", "k", "v", "d_o", "cu_seqlens"):
        if given.get(key) is None:
            if key == "d_o":
                continue
            raise ValueError(f"audit: activations must hold {key}; got {', '.join(activations)}")
        if key == "cu_seqlens":
            data, dtype = to_int32(given[key], "audit: cu_seqlens"), _native.DTYPE_I32
        else:
            data, dtype = bf16_bits(given[key]), _native.DTYPE_BF16
            if data.ndim != 3:
                raise ValueError(
                    f"audit: activations {key} must have shape [tokens, heads, head_dim]; "
                    f"got {data.shape}"
                )
        tensor = _native.Tensor(data=data.ctypes.data, dtype=dtype, rank=data.ndim)
        for axis, size in enumerate(data.shape):
            tensor.shape[axis] = size
            tensor.stride[axis] = data.strides[axis] // data.itemsize
        setattr(options, key, ctypes.pointer(tensor))
        keep += [data, tensor]
    options.kept = keep


class _Audit:
    """One call of flamia_audit: its callbacks, and what they raised."""

    def __init__(self, library, function: str, progress, caller: AuditedFunction | None):
        self._library = library
        self._function = function
        self._caller = caller
        self._text = b""
        self._stopped: BaseException | None = None
        if progress is True:
            progress = _print_progress
        self._progress = progress or None

    def run(self, function, own, options: _native.AuditOptions) -> dict:
        """The JSON object of the report. function: an AuditFunction, or None to audit `own`."""
        passed = ctypes.c_int32(0)
        report = _native.AuditText(self._take_report)
        progress = _native.AuditText(self._take_progress) if self._progress else None
        result = {}

        def call():
            status = self._library.flamia_audit(
                function and ctypes.cast(function, ctypes.c_void_p),
                own and ctypes.byref(own),
                ctypes.byref(options),
                ctypes.cast(report, ctypes.c_void_p),
                progress and ctypes.cast(progress, ctypes.c_void_p),
                None,
                ctypes.byref(passed),
            )
            result["status"] = status
            result["message"] = (self._library.flamia_last_error() or b"").decode(errors="replace")

        if self._caller is None:
            _run_interruptibly(call)
        else:
            call()
        stopped = self._stopped or (self._caller and self._caller.stopped)
        if stopped is not None:
            raise stopped
        if result["status"] != 0:
            self._raise(result["status"], result["message"])
        return json_module.loads(self._text)

    def _raise(self, status: int, message: str) -> None:
        failure = self._caller.failure if self._caller else None
        if failure is None:
            raise _native.error_of(status, message)
        if hasattr(failure, "add_note"):  # Python 3.11
            failure.add_note(f"{self._function}: in {self._caller.call}")
        raise failure

    def _take_report(self, user, text, length) -> None:
        self._text = ctypes.string_at(text, length)

    def _take_progress(self, user, text, length) -> None:
        if self._stopped is not None:
            return
        try:
            self._progress(ctypes.string_at(text, length).decode(errors="replace"))
        except BaseException as error:  # raised again when the library has returned
            self._stopped = error
            if self._caller is not None:
                self._caller.stopped = error


def _print_progress(probe: str) -> None:
    print(f"audit: {probe}", file=sys.stderr, flush=True)


def _run_interruptibly(call: Callable[[], None]) -> None:
    """Runs a long call of the library so that KeyboardInterrupt is seen at once.

    Signals reach Python code of the main thread only, so the call runs on another one. After an
    interrupt that thread ends with the call, or with the process.
    """
    errors = []

    def guarded():
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]
