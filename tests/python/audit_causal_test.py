"""flamia.audit_causal on numpy functions: verdicts, errors, conversions."""

import json

import attention_functions as functions
import flamia
import ml_dtypes
import numpy as np
import pytest

SMALL = dict(tokens=96, context=512, heads=2, kv_heads=1, head_dim=32, array="numpy")


def outcomes(report, probe):
    return {one.tensor: one.outcome for one in report.findings if one.probe == probe}


def test_exact_attention_passes():
    report = flamia.audit_causal(functions.exact, **SMALL)
    assert report.passed, str(report)
    assert not report.failures
    assert outcomes(report, "causal_leak")["o"] == "passed"
    assert outcomes(report, "causal_leak")["dq"] == "not tested"  # it has no gradients
    assert report.raise_for_failure() is report
    assert all(not one.change.any() for one in report.leak_maps)
    assert report.name == "attention_functions.exact"


def test_per_tensor_fp8_leaks_far_back():
    report = flamia.audit_causal(functions.per_tensor_fp8, probes="causal_leak", **SMALL)
    assert not report.passed
    (failed,) = [one for one in report.failures if one.tensor == "o"]
    assert failed.reach >= 90
    assert failed.change > 0.01
    text = str(report)
    assert "FAILED" in text
    call = "flamia.audit_causal(attention_functions.per_tensor_fp8, array='numpy', "
    assert call + "probes='causal_leak', tokens=96" in text
    with pytest.raises(flamia.AuditFailure) as caught:
        report.raise_for_failure()
    assert caught.value.report is report


def test_reproducing_call_finds_the_same_change():
    report = flamia.audit_causal(functions.per_tensor_fp8, probes="causal_leak", **SMALL)
    (first,) = [one for one in report.failures if one.tensor == "o"]
    again = eval(first.reproduce, {"flamia": flamia, "attention_functions": functions})
    (second,) = [one for one in again.failures if one.tensor == "o"]
    assert second.change == first.change
    assert 0 < second.reach <= first.reach
    assert again.calls < report.calls


def test_missing_mask_fails_at_the_largest_distance():
    report = flamia.audit_causal(functions.no_mask, probes="causal_leak", **SMALL)
    assert not report.passed
    assert {one.reach for one in report.failures} == {95}
    assert all(one.change > 1 for one in report.failures)


def test_full_mask_of_exact_attention_passes():
    report = flamia.audit_causal(functions.exact, causal=False, **SMALL)
    assert report.passed, str(report)
    assert report.data["mask"] == "full"


def test_promise_turns_a_leak_inside_blocks_into_promised():
    def leaks_in_blocks(q, k, v, cu_seqlens, *, causal):
        # V is cast with a scale of 32 tokens: earlier rows see the scale of later ones.
        cast = v.copy()
        for begin in range(0, len(v), 32):
            block = cast[begin : begin + 32]
            scale = np.float32(2.0) ** np.ceil(np.log2(np.abs(block).max() / 448 + 1e-30))
            block[...] = (block / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale
        return functions.attention(q, k, cast, cu_seqlens, causal)

    # One document that starts at 0: blocks of the packed tensor are blocks of the document.
    options = dict(SMALL, probes="causal_leak")
    strict = flamia.audit_causal(leaks_in_blocks, **options)
    promised = flamia.audit_causal(
        leaks_in_blocks, promise=flamia.AuditPromise(shared_tokens=32), **options
    )
    assert outcomes(strict, "causal_leak")["o"] == "failed"
    assert outcomes(promised, "causal_leak")["o"] == "promised"
    assert promised.data["promise"]["shared_tokens"] == 32


def test_writing_into_inputs_changes_nothing():
    clean = flamia.audit_causal(functions.exact, name="fn", **SMALL)
    dirty = flamia.audit_causal(functions.writes_inputs, name="fn", **SMALL)
    assert clean.to_json() == dirty.to_json()


def test_nan_output_fails():
    report = flamia.audit_causal(functions.always_nan, **SMALL)
    assert not report.passed
    assert any("NaN" in one.words for one in report.failures)


def test_random_bits_fail_determinism_unless_promised():
    options = dict(SMALL, probes="determinism")
    assert not flamia.audit_causal(functions.random_bits, **options).passed
    promise = flamia.AuditPromise(deterministic=False)
    report = flamia.audit_causal(functions.random_bits, promise=promise, **options)
    assert report.passed
    assert outcomes(report, "determinism")["o"] == "promised"


def test_error_on_ordinary_inputs_is_raised_as_it_is():
    with pytest.raises(RuntimeError) as caught:
        flamia.audit_causal(functions.raises, **SMALL)
    assert str(caught.value) == "no kernel for this device"
    assert caught.traceback[-1].name == "raises"
    notes = getattr(caught.value, "__notes__", ["audit_causal: in call 1 of the audit"])
    assert "audit_causal: in call 1 of the audit" in notes[0]


def test_error_on_odd_inputs_is_a_finding():
    report = flamia.audit_causal(functions.fails_on_empty, **SMALL)
    assert not report.passed
    assert any("IndexError: empty document" in one.words for one in report.failures)


@pytest.mark.parametrize(
    ("fn", "kind", "message"),
    [
        (
            functions.wrong_shape,
            ValueError,
            "audit_causal: fn must return O of shape (96, 2, 32); got (96, 32)",
        ),
        (
            lambda q, k, v, c: (q, q),
            ValueError,
            "audit_causal: fn must return LSE of shape (2, 96); got (96, 2, 32)",
        ),
        (
            lambda q, k, v, c: q.tolist(),
            TypeError,
            "audit_causal: fn must return O, (O, LSE) or a mapping with o, lse, dq, dk, dv; "
            "got list",
        ),
        (
            lambda q, k, v, c: q.astype(np.int32),
            TypeError,
            "audit_causal: fn's O must have dtype float16, bfloat16, float32 or float64; got int32",
        ),
        (
            lambda q, k, v, c: {"out": q},
            ValueError,
            "audit_causal: fn must return a mapping with o and perhaps lse, dq, dk, dv; got out",
        ),
    ],
)
def test_wrong_results_are_explained(fn, kind, message):
    with pytest.raises(kind) as caught:
        flamia.audit_causal(fn, **SMALL)
    assert str(caught.value) == message


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_float_dtype_is_accepted(dtype):
    def cast(q, k, v, cu_seqlens, *, causal):
        return functions.attention(q, k, v, cu_seqlens, causal)[0].astype(dtype)

    report = flamia.audit_causal(cast, probes=["causal_leak"], **SMALL)
    assert outcomes(report, "causal_leak")["o"] == "passed"


def test_inputs_are_bf16_values_in_float32():
    seen = {}

    def looks(q, k, v, cu_seqlens, *, causal, softmax_scale, d_o):
        seen.update(q=q, k=k, v=v, cu_seqlens=cu_seqlens, d_o=d_o)
        seen.update(causal=causal, scale=softmax_scale)
        return {"o": functions.attention(q, k, v, cu_seqlens, causal)[0], "dq": d_o, "lse": None}

    report = flamia.audit_causal(looks, probes="determinism", **SMALL)
    assert seen["q"].shape == seen["d_o"].shape == (96, 2, 32)
    assert seen["k"].shape == seen["v"].shape == (96, 1, 32)
    assert seen["cu_seqlens"].dtype == np.int32
    assert seen["causal"] is True
    assert seen["scale"] == pytest.approx(32**-0.5)
    for name in ("q", "k", "v", "d_o"):
        assert seen[name].dtype == np.float32
        rounded = seen[name].astype(ml_dtypes.bfloat16).astype(np.float32)
        np.testing.assert_array_equal(rounded, seen[name])
    assert outcomes(report, "determinism") != {}


def test_without_gradients_d_o_is_none():
    seen = []

    def looks(q, k, v, cu_seqlens, d_o="unset"):
        seen.append(d_o)
        return functions.attention(q, k, v, cu_seqlens)[0]

    flamia.audit_causal(looks, gradients=False, probes="determinism", **SMALL)
    assert set(map(type, seen)) == {type(None)}


def test_keyboard_interrupt_stops_the_audit():
    calls = []

    def interrupted(q, k, v, cu_seqlens):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return functions.attention(q, k, v, cu_seqlens)[0]

    with pytest.raises(KeyboardInterrupt):
        flamia.audit_causal(interrupted, **SMALL)
    assert len(calls) == 3


def test_progress_names_probes_and_its_errors_surface():
    names = []
    flamia.audit_causal(functions.exact, progress=names.append, **SMALL)
    assert "causal_leak" in names

    def fails(name):
        raise LookupError(name)

    with pytest.raises(LookupError):
        flamia.audit_causal(functions.exact, progress=fails, **SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(tokens=3), "tokens must be from 96"),
        (dict(probes="no_such_probe"), "probe must be one of"),
        (dict(tokens=-1), "audit_causal: tokens must be in"),
        (dict(array="jax"), "audit_causal: array must be numpy or torch; got jax"),
        (dict(device="cuda"), "audit_causal: device must be None with numpy arrays; got cuda"),
        (dict(operand="w"), "operand must be"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        flamia.audit_causal(functions.exact, **{**SMALL, **options})


def test_not_a_function_is_refused():
    with pytest.raises(TypeError, match="audit_causal: fn must be callable; got int"):
        flamia.audit_causal(3)


def test_activations_of_a_file_or_a_mapping_are_used(tmp_path):
    from flamia.tensor_file import write_attention

    random = np.random.default_rng(3)
    tensors = {
        name: random.normal(size=(160, heads, 32)).astype(np.float32)
        for name, heads in (("q", 2), ("k", 1), ("v", 1))
    }
    tensors["cu_seqlens"] = np.array([0, 100, 160])
    path = tmp_path / "activations.safetensors"
    write_attention(path, tensors)
    options = dict(SMALL, probes="causal_leak", name="fn")
    given = flamia.audit_causal(functions.exact, activations=tensors, **options)
    read = flamia.audit_causal(functions.exact, activations=path, **options)
    assert given.passed
    assert given.to_json() == read.to_json()
    with pytest.raises(ValueError, match="audit: activations must hold k; got q"):
        flamia.audit_causal(functions.exact, activations={"q": tensors["q"]}, **options)


def test_json_file_is_the_report(tmp_path):
    path = tmp_path / "audit.json"
    report = flamia.audit_causal(functions.exact, json=path, probes="determinism", **SMALL)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data == report.data
    assert data["kind"] == "audit"
    assert data["function"] == "attention_functions.exact"
