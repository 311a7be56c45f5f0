"""Times the attention forward of PyTorch's FlashAttention (packed) and cuDNN (batched) backends.

Prints JSON rows in the form of flamia_bench_forward, for the same workloads and regimes. Needs a GPU
and PyTorch. Usage: peers.py [--only NAMES] [--json F]
"""

import argparse
import json
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS = 16
DIM = 128
MIXED = [344, 198, 668, 245, 170, 684, 5856, 3593, 3102, 324, 1200]
W9 = [1386, 766, 1425, 303, 3790, 3955, 1949, 251, 1122, 503, 364, 6769, 8120, 155, 4605, 1581, 629,
      419, 2132, 860, 2230, 2018, 224, 3136, 7656, 7252, 1650, 155, 131]
WORKLOADS = {
    "W1": ([4096] * 4, 16), "W2": ([4096] * 16, 16), "W3": ([1024] * 16, 16),
    "W4": ([1024] * 64, 16), "W5": ([8192] + [256] * 32, 16), "W6": ([8192] + [256] * 224, 16),
    "W7": (MIXED, 16), "W8": (MIXED, 4), "W9": (W9, 16), "D1": ([32768], 16),
    "D2": ([16384] * 2, 16), "D3": ([8192] * 4, 16),
}


def milliseconds(launches, call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / launches


def measured(sustained, call):
    one = milliseconds(2, call)
    rounds = []
    for _ in range(3):
        if sustained:
            milliseconds(max(1, int(50 / one)), call)
        else:
            time.sleep(0.15)
            milliseconds(2, call)
        rounds.append(milliseconds(max(3, int((80 if sustained else 20) / one)), call))
    return sorted(rounds)[1]


def flash_varlen(lengths, kv_heads, causal):
    tokens = sum(lengths)
    cu = torch.tensor([0] + lengths, device="cuda").cumsum(0).to(torch.int32)
    q = torch.randn(tokens, HEADS, DIM, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(tokens, kv_heads, DIM, device="cuda", dtype=torch.bfloat16)
            for _ in range(2))
    longest = max(lengths)
    return lambda: torch.ops.aten._flash_attention_forward(
        q, k, v, cu, cu, longest, longest, 0.0, causal, False)


def cudnn_dense(lengths, kv_heads, causal):
    if len(set(lengths)) > 1 or kv_heads != HEADS:
        return None
    shape = (len(lengths), HEADS, lengths[0], DIM)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = []
    for mask in ("causal", "full"):
        for name, (lengths, kv_heads) in WORKLOADS.items():
            if (arguments.only and name not in arguments.only) or (mask == "full" and name[0] == "D"):
                continue
            pairs = sum(n * (n + 1) / 2 if mask == "causal" else n * n for n in lengths)
            flops = 4 * DIM * HEADS * pairs
            for impl, make in (("torch_cudnn_bf16_dense", cudnn_dense),
                               ("torch_fa2_bf16_varlen", flash_varlen)):
                call = make(lengths, kv_heads, mask == "causal")
                if call is None:
                    continue
                for regime in ("burst", "sustained"):
                    ms = measured(regime == "sustained", call)
                    rows.append({"workload": name, "mask": mask, "pass": "forward", "impl": impl,
                                 "regime": regime, "head_dim": DIM, "ms": round(ms, 4),
                                 "tflops": round(flops / ms * 1e-9)})
                    print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=0)


if __name__ == "__main__":
    main()
