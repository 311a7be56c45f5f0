"""Audits PyTorch's attention behind three FP8 casts: one scale per tensor, per token, and none.

One scale per tensor lets the largest entry of a later token round every earlier one: the audit
finds the change, how far back it reaches, and draws it. One scale per token and head leaks nothing.

Run:  PYTHONPATH=python python examples/05_audit_sdpa.py [--device cuda] [--plot DIR]
or    PYTHONPATH=python python -m flamia audit examples/05_audit_sdpa.py:per_tensor --plot DIR
"""

import argparse
import sys

try:
    import torch
    import torch.nn.functional as functional
except ModuleNotFoundError:
    sys.exit("05_audit_sdpa.py: PyTorch must be installed; see https://pytorch.org")

import flamia

LARGEST_E4M3 = torch.finfo(torch.float8_e4m3fn).max


class CastToFp8(torch.autograd.Function):
    """x through E4M3 and back; the gradient passes as it is. x and scale broadcast."""

    @staticmethod
    def forward(context, x, largest):
        scale = LARGEST_E4M3 / largest.float().clamp(min=1e-30)
        scaled = (x.float() * scale).clamp(-LARGEST_E4M3, LARGEST_E4M3)
        return (scaled.to(torch.float8_e4m3fn).float() / scale).to(x.dtype)

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def attention(q, k, v, cu_seqlens, causal, scale):
    """O [T, heads, D] of packed documents; rows that belong to none are zero."""
    o = torch.zeros_like(q)
    bounds = cu_seqlens.tolist()
    for begin, end in zip(bounds, bounds[1:]):
        if begin == end:
            continue
        part = functional.scaled_dot_product_attention(
            *(x[begin:end].transpose(0, 1).unsqueeze(0) for x in (q, k, v)),
            is_causal=causal,
            scale=scale,
            enable_gqa=True,
        )
        o[begin:end] = part.squeeze(0).transpose(0, 1)
    return o


def bf16(q, k, v, cu_seqlens, *, causal, softmax_scale):
    """No cast at all."""
    return attention(q, k, v, cu_seqlens, causal, softmax_scale)


def per_tensor(q, k, v, cu_seqlens, *, causal, softmax_scale):
    """One scale for all of q, one for k, one for v: "current scaling"."""
    q, k, v = (CastToFp8.apply(x, x.abs().max()) for x in (q, k, v))
    return attention(q, k, v, cu_seqlens, causal, softmax_scale)


def per_token(q, k, v, cu_seqlens, *, causal, softmax_scale):
    """One scale for each token and head."""
    q, k, v = (CastToFp8.apply(x, x.abs().amax(-1, keepdim=True)) for x in (q, k, v))
    return attention(q, k, v, cu_seqlens, causal, softmax_scale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--plot", metavar="DIR", help="folder for the leak maps (needs matplotlib)")
    given = parser.parse_args()
    passed = {}
    for function in (bf16, per_tensor, per_token):
        report = flamia.audit_causal(
            function,
            tokens=given.tokens,
            head_dim=64,
            array="torch",
            device=given.device,
            probes=["causal_leak", "document_leak"],
        )
        print(f"{report}\n")
        passed[function.__name__] = report.passed
        if given.plot is not None:
            flamia.pictures.save_all(report.data, f"{given.plot}/{function.__name__}")
    expected = {"bf16": True, "per_tensor": False, "per_token": True}
    if passed != expected:
        print(f"05_audit_sdpa.py: expected {expected}; got {passed}", file=sys.stderr)
    return 0 if passed == expected else 1


if __name__ == "__main__":
    sys.exit(main())
