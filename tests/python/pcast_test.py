"""flamia.pcast_report, running the program, and tensor files."""

import pathlib

import flamia
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from flamia.arrays import bf16_bits
from flamia.tensor_file import read_tensors, write_attention

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples/data/trained_attention.safetensors"


def test_file_and_arrays_give_the_same_report():
    of_file = flamia.pcast_report(DATA)
    of_arrays = flamia.pcast_report(read_tensors(DATA))
    assert of_file["all"] == of_arrays["all"]
    assert of_file["heads"] == of_arrays["heads"]
    assert of_arrays["input"] == "arrays: 6 documents of 61 to 1054 tokens"
    assert of_file["all"]["kernels"][0]["name"] == "FlashAttention-3/4"


def test_options_reach_the_program():
    report = flamia.pcast_report(DATA, mask="full", sinks=2, rows=16)
    assert report["mask"] == "full"
    assert report["sinks"] == 2
    assert report["all"]["rows"] < 16 * 6 * 2 + 1


def test_bad_input_is_refused_with_the_words_of_the_program():
    with pytest.raises(ValueError, match="pcast_report: source must hold q, k and v; missing v"):
        flamia.pcast_report({"q": np.zeros((4, 1, 64)), "k": np.zeros((4, 1, 64))})
    with pytest.raises(ValueError, match="--mask must be causal or full; got window"):
        flamia.pcast_report(DATA, mask="window")
    with pytest.raises(TypeError, match="source must be a path or a mapping; got int"):
        flamia.pcast_report(3)


def test_failed_check_is_no_error():
    report = flamia.run_program(["pcast", "table2", "--seeds", "2"])
    assert report["command"] == "pcast table2"
    assert isinstance(report["passed"], bool)


def test_missing_program_is_explained(monkeypatch):
    monkeypatch.setenv("FLAMIA_PROGRAM", "/nonexistent/flamia")
    with pytest.raises(FileNotFoundError, match="FLAMIA_PROGRAM must name the program"):
        flamia.pcast_report(DATA)


def test_rounding_to_bf16_is_that_of_ml_dtypes():
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    halves = (np.arange(65536, dtype=np.uint32) << 16) | 0x8000  # ties
    values = np.concatenate([bits, halves]).view(np.float32)
    finite = values[~np.isnan(values)]
    expected = finite.astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(bf16_bits(finite), expected)
    nan = bf16_bits(values[np.isnan(values)]).view(ml_dtypes.bfloat16)
    assert np.isnan(nan.astype(np.float32)).all()


def test_tensor_files_are_those_of_safetensors(tmp_path):
    random = np.random.default_rng(1)
    tensors = {name: random.normal(size=(5, 2, 64)).astype(np.float32) for name in ("q", "k", "v")}
    tensors["cu_seqlens"] = np.array([0, 2, 5], dtype=np.int64)
    path = tmp_path / "t.safetensors"
    write_attention(path, tensors)
    read = safetensors.numpy.load_file(path)
    ours = read_tensors(path)
    assert set(read) == set(ours) == set(tensors)
    for name in ("q", "k", "v"):
        rounded = tensors[name].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(read[name], rounded)
        np.testing.assert_array_equal(ours[name], rounded.astype(np.float32))
    np.testing.assert_array_equal(ours["cu_seqlens"], [0, 2, 5])


@pytest.mark.parametrize("damage", [b"", b"\xff" * 16, b"\x02" + b"\0" * 7 + b"[]"])
def test_damaged_tensor_files_are_refused(tmp_path, damage):
    path = tmp_path / "t.safetensors"
    path.write_bytes(damage)
    with pytest.raises(ValueError, match="must be a safetensors file"):
        read_tensors(path)
