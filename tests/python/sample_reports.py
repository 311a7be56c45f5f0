"""JSON objects for tests of pictures and pages: a made-up audit, and real P-Cast figures.

Used by: pictures_test.py, report_test.py, report_browser_test.py.
"""

import copy
import functools
import pathlib

import flamia

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples/data/trained_attention.safetensors"


def _finding(probe, tensor, outcome, change=0.0, reach=0, words="nothing found", cause=""):
    return {
        "probe": probe,
        "tensor": tensor,
        "outcome": outcome,
        "change": change,
        "reach": reach,
        "words": words,
        "cause": cause,
        "reproduce": f"flamia audit --probe {probe} --tokens 128 --seed 0",
        "figures": {},
    }


def audit(name="package.module.attention_with_one_scale_per_tensor", passed=False, drift=0.0):
    """An audit with every outcome, an infinite change, and leak maps of O and dQ."""
    tokens, rows = [1, 31, 32, 33, 64, 100, 127], 128

    def change(token, row):
        if row >= token or passed:
            return 0.0
        return None if row == 0 else 1e-7 * (row + 1) ** 3

    maps = [
        {
            "tensor": tensor,
            "tokens": tokens,
            "rows": rows,
            "change": [[change(token, row) for row in range(rows)] for token in tokens],
        }
        for tensor in ("o", "dq")
    ]
    outcome = "passed" if passed else "failed"
    words = "v times 2^20 at token 127 <changes> every earlier row & more"
    findings = [
        _finding("accuracy", "o", "passed"),
        _finding("causal_leak", "o", outcome, None, 127, words, "one scale for the tensor"),
        _finding("causal_leak", "dq", "promised", 2.5e-6, 31, "earlier rows of its block change"),
        _finding("consistency", "", "not tested", words="the function has no gradients"),
    ]
    context = [
        {"keys": keys, "gain": 1 - drift * keys / 1000, "rel_l2": 1e-3 * (1 + drift * keys)}
        for keys in (512, 1024, 2048, 4096)
    ]
    return {
        "flamia": flamia.__version__,
        "kind": "audit",
        "function": name,
        "seed": 0,
        "tokens": 128,
        "context_keys": 4096,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 64,
        "mask": "causal",
        "gradients": True,
        "promise": {
            "shared_tokens": 0,
            "dq_rounding": False,
            "deterministic": True,
            "packing_invariant": True,
            "words": "no earlier row changes",
        },
        "protocol": ["inputs: N(0, 1) in BF16 from seed 0", "spikes: factor 2^20 on one token"],
        "calls": 77,
        "passed": passed,
        "findings": findings,
        "leak_maps": maps,
        "context": context,
    }


@functools.cache
def _pcast(*words):
    return flamia.run_program(["pcast", *words])


def pcast(*words):
    """The JSON object of `flamia pcast WORDS`."""
    return copy.deepcopy(_pcast(*words))
