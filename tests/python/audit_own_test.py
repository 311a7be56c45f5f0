"""flamia.audit: the library's own attention against its promises."""

import flamia
import pytest

SMALL = dict(tokens=96, context=512, head_dim=64)


def leak(report, tensor="o"):
    (one,) = [f for f in report.findings if f.probe == "causal_leak" and f.tensor == tensor]
    return one


def test_default_safety_leaks_inside_blocks_as_promised():
    report = flamia.audit("cpu", "mxfp8", "default", **SMALL)
    assert report.passed, str(report)
    assert leak(report).outcome == "promised"
    assert 0 < leak(report).reach < 32
    assert report.data["promise"]["shared_tokens"] == 32


def test_exact_safety_leaks_nothing():
    report = flamia.audit(path="mxfp8", safety="exact", probes="causal_leak", **SMALL)
    assert report.passed, str(report)
    assert leak(report).outcome == "passed"
    assert leak(report, "dq").outcome == "passed"


def test_options_reach_the_library():
    options = dict(SMALL, probes="context", gradients=False, context=2048)
    promoted = flamia.audit(accumulate="hw", promote="tile", **options)
    alone = flamia.audit(accumulate="hw", promote="none", **options)
    assert [one.keys for one in promoted.context] == [one.keys for one in alone.context]
    assert alone.context[-1].rel_l2 > promoted.context[-1].rel_l2


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            dict(path="fp8"),
            ValueError,
            "audit: path must be bf16, mxfp8, nvfp4 or all4bit; got fp8",
        ),
        (dict(colour="red"), TypeError, "audit: unknown option colour"),
        (dict(backend="hopper"), NotImplementedError, "backend must be cpu or auto"),
        (dict(tokens=1.5), TypeError, "audit: tokens must be an integer; got 1.5"),
    ],
)
def test_bad_options_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        flamia.audit(**{**SMALL, **options})


def test_result_does_not_depend_on_threads():
    options = dict(SMALL, probes="causal_leak", name="own")
    one, two = (flamia.audit(threads=n, **options).data for n in (1, 2))
    assert one["findings"][0]["change"] == two["findings"][0]["change"]
    assert one["leak_maps"] == two["leak_maps"]
