"""Forward attention beside its peers, launch by launch in one process on one GPU.

flamia (through libflamia.so and python/), PyTorch's cuDNN backend (equal documents), PyTorch's
FlashAttention-2 on packed rows, and cuDNN on packed rows through nvidia-cudnn-frontend. What is not
installed is named and left out. Every implementation is compared with FP64 before it is timed; they
take turns, in a rotating order. Peers compute in BF16.

Needs a GPU and PyTorch:
    FLAMIA_LIBRARY=build/release/libflamia.so PYTHONPATH=python python3 bench/gpu/peers.py --json F
Burst: an idle pause, two launches, then about 20 ms of launches. Sustained: 50 ms of launches that
do not count, then 80 ms. Median of the rounds.
"""

import argparse
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import time

import torch
from flamia import _native, packed_forward

HEADS = 16
MIXED = [344, 198, 668, 245, 170, 684, 5856, 3593, 3102, 324, 1200]
W9 = [1386, 766, 1425, 303, 3790, 3955, 1949, 251, 1122, 503, 364, 6769, 8120, 155, 4605, 1581, 629,
      419, 2132, 860, 2230, 2018, 224, 3136, 7656, 7252, 1650, 155, 131]
WORKLOADS = {
    "W1": ([4096] * 4, 16), "W2": ([4096] * 16, 16), "W3": ([1024] * 16, 16),
    "W4": ([1024] * 64, 16), "W5": ([8192] + [256] * 32, 16), "W6": ([8192] + [256] * 224, 16),
    "W7": (MIXED, 16), "W8": (MIXED, 4), "W9": (W9, 16), "D1": ([32768], 16),
    "D2": ([16384] * 2, 16), "D3": ([8192] * 4, 16),
}
OURS = {
    "forward": _native.PART_ATTEND,
    "quantize": _native.PART_QUANTIZE,
    "quantize+forward": _native.PART_QUANTIZE | _native.PART_ATTEND,
    "call": _native.PART_ALL,
}
LEAST_COSINE = {"bf16": 0.9999, "mxfp8": 0.99, "nvfp4": 0.96}
CHOICES = ("path", "safety", "exponential", "assignment")


class Inputs:
    """q, k, v [tokens, heads, dim] BF16 of one workload, the same for everybody."""

    def __init__(self, lengths, kv_heads, dim, causal):
        self.lengths, self.kv_heads, self.dim, self.causal = lengths, kv_heads, dim, causal
        self.tokens, self.longest = sum(lengths), max(lengths)
        torch.manual_seed(1)
        self.q, self.k, self.v = (
            torch.randn(self.tokens, heads, dim, device="cuda", dtype=torch.bfloat16)
            for heads in (HEADS, kv_heads, kv_heads)
        )
        self.cu = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)

    def flops(self):
        pairs = sum(n * (n + 1) / 2 if self.causal else n * n for n in self.lengths)
        return 4 * self.dim * HEADS * pairs

    def exact(self):
        """(rows, head, O in FP64) of the last rows of the first, longest and last document."""
        starts = self.cu.tolist()
        picked = {0, self.lengths.index(self.longest), len(self.lengths) - 1}
        for number, index in enumerate(sorted(picked)):
            begin, end = starts[index], starts[index + 1]
            first = max(begin, end - 256)
            head = (5 * number + 3) % HEADS
            group = head * self.kv_heads // HEADS
            q = self.q[first:end, head].double()
            k, v = self.k[begin:end, group].double(), self.v[begin:end, group].double()
            scores = q @ k.T / self.dim**0.5
            if self.causal:
                rows = torch.arange(first - begin, end - begin, device="cuda")
                keys = torch.arange(end - begin, device="cuda")
                scores.masked_fill_(keys[None, :] > rows[:, None], float("-inf"))
            yield slice(first, end), head, scores.softmax(-1) @ v


class Flamia:
    """Ours, part by part."""

    def __init__(self, inputs, choices):
        self.path = choices["path"]
        self.name = f"flamia_{self.path}"
        self.o = torch.empty_like(inputs.q)
        self.lse = torch.empty(HEADS, inputs.tokens, device="cuda", dtype=torch.float32)
        tensors = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "cu_seqlens": inputs.cu,
                   "o": self.o, "lse": self.lse}
        views = {name: packed_forward.torch_view(tensor) for name, tensor in tensors.items()}
        self.call = packed_forward.PackedForward(views, inputs.causal, backend="hopper", **choices)
        self.memory = torch.empty(self.call.workspace_bytes, device="cuda", dtype=torch.uint8)
        self.stream = torch.cuda.current_stream().cuda_stream

    def passes(self):
        for name, parts in OURS.items():
            yield name, lambda parts=parts: self.call.run(
                self.memory.data_ptr(), self.stream, parts)

    def result(self):
        self.call.run(self.memory.data_ptr(), self.stream)
        return self.o


class Peer:
    """One pass, `forward`, which returns O [tokens, heads, dim]."""

    path = "bf16"

    def passes(self):
        yield "forward", self.run

    def result(self):
        return self.run()


class TorchFlash(Peer):
    name = "torch_fa2_bf16_varlen"

    def __init__(self, inputs):
        self.inputs = inputs

    def run(self):
        at = self.inputs
        return torch.ops.aten._flash_attention_forward(
            at.q, at.k, at.v, at.cu, at.cu, at.longest, at.longest, 0.0, at.causal, False)[0]


class TorchCudnn(Peer):
    name = "torch_cudnn_bf16_dense"

    def __init__(self, inputs):
        if len(set(inputs.lengths)) > 1:
            raise NotImplementedError("documents of several lengths")
        if inputs.kv_heads != HEADS:
            raise NotImplementedError("fewer key heads")
        shape = (len(inputs.lengths), inputs.longest, HEADS, inputs.dim)
        self.q, self.k, self.v = (
            tensor.view(shape).transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v))
        self.causal, self.tokens = inputs.causal, inputs.tokens

    def run(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                self.q, self.k, self.v, is_causal=self.causal)

    def result(self):
        return self.run().transpose(1, 2).reshape(self.tokens, HEADS, -1)


class CudnnPacked(Peer):
    """cuDNN's graph with ragged offsets: documents lie one behind the other, no padding between."""

    name = "cudnn_bf16_thd"

    def __init__(self, inputs):
        import cudnn

        documents, dim = len(inputs.lengths), inputs.dim
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
        graph = cudnn.pygraph(
            handle=self.handle, io_data_type=cudnn.data_type.BFLOAT16,
            intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT)
        self.o = torch.empty_like(inputs.q)
        lengths = torch.tensor(inputs.lengths, device="cuda", dtype=torch.int32)
        lengths = lengths.view(documents, 1, 1, 1)

        def rows(heads):
            """A tensor of the graph [documents, heads, longest, dim] over packed rows, and the
            element at which each document begins."""
            offsets = (inputs.cu * (heads * dim)).view(documents + 1, 1, 1, 1)
            shape = [documents, heads, inputs.longest, dim]
            stride = [inputs.longest * heads * dim, dim, heads * dim, 1]
            return shape, stride, graph.tensor_like(offsets), offsets

        pack = {}

        def input_rows(name, tensor):
            shape, stride, offset, offsets = rows(tensor.shape[1])
            node = graph.tensor(name=name, dim=shape, stride=stride,
                                data_type=cudnn.data_type.BFLOAT16)
            node.set_ragged_offset(offset)
            pack[node], pack[offset] = tensor, offsets
            return node

        q = input_rows("q", inputs.q)
        k = input_rows("k", inputs.k)
        v = input_rows("v", inputs.v)
        length_q = graph.tensor_like(lengths)
        length_k = graph.tensor_like(lengths)
        pack[length_q] = pack[length_k] = lengths
        o, stats = graph.sdpa(
            name="sdpa", q=q, k=k, v=v, generate_stats=True, attn_scale=dim**-0.5,
            use_causal_mask=inputs.causal, use_padding_mask=True, seq_len_q=length_q,
            seq_len_kv=length_k)
        shape, stride, offset, offsets = rows(HEADS)
        o.set_output(True).set_dim(shape).set_stride(stride)
        o.set_ragged_offset(offset)
        stats.set_output(True).set_data_type(cudnn.data_type.FLOAT)
        pack[o], pack[offset] = self.o, offsets
        pack[stats] = torch.empty(documents, HEADS, inputs.longest, 1, device="cuda")
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.workspace = torch.empty(
            max(graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8)
        self.graph, self.pack = graph, pack

    def run(self):
        self.graph.execute(self.pack, self.workspace, handle=self.handle)
        return self.o


def milliseconds(launches, call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / launches


def timed(sustained, one_ms, call):
    if sustained:
        milliseconds(max(1, int(50 / one_ms)), call)
    else:
        time.sleep(0.15)
        milliseconds(2, call)
    return milliseconds(max(3, int((80 if sustained else 20) / one_ms)), call)


def check(implementation, inputs, exact):
    """Raises ArithmeticError if O is not the attention of the inputs."""
    out = implementation.result()
    if not bool(torch.isfinite(out).all()):
        raise ArithmeticError(f"{implementation.name}: O is not finite")
    for rows, head, wanted in exact:
        got = out[rows, head].double()
        cosine = float((got * wanted).sum() / (got.norm() * wanted.norm()))
        if not cosine >= LEAST_COSINE[implementation.path]:
            raise ArithmeticError(f"{implementation.name}: cosine {cosine} at rows {rows}")


def measure(inputs, implementations, rounds, regimes):
    """{(implementation, pass, regime): times}, taking turns."""
    exact = list(inputs.exact())
    for implementation in implementations:
        check(implementation, inputs, exact)
    jobs = [(one.name, name, call) for one in implementations for name, call in one.passes()]
    once = {(impl, name): max(milliseconds(2, call), 1e-3) for impl, name, call in jobs}
    times = {}
    for regime in regimes:
        for turn in range(rounds):
            shift = turn % len(jobs)
            for impl, name, call in jobs[shift:] + jobs[:shift]:
                ms = timed(regime == "sustained", once[impl, name], call)
                times.setdefault((impl, name, regime), []).append(ms)
    return times


def build(inputs, choices, missing):
    """Those that take these inputs. missing: why others never do, by name."""
    chosen = [Flamia(inputs, choices)]
    for kind in (CudnnPacked, TorchCudnn, TorchFlash):
        if kind.name in missing:
            continue
        try:
            chosen.append(kind(inputs))
        except ImportError as error:
            missing[kind.name] = f"not installed ({error})"
            print(f"{kind.name}: {missing[kind.name]}", flush=True)
        except NotImplementedError as error:
            print(f"{kind.name}: left out: {error}", flush=True)
        except Exception as error:  # of cuDNN's own kinds: a plan that it does not have
            print(f"{kind.name}: left out: {type(error).__name__}: {error}", flush=True)
    return chosen


def commit():
    here = pathlib.Path(__file__).parent
    if shutil.which("git") is None:
        return None
    found = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def driver():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return None
    found = subprocess.run(query, capture_output=True, text=True)
    return found.stdout.split()[0] if found.returncode == 0 and found.stdout.strip() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(WORKLOADS), help="names, separated by commas")
    parser.add_argument("--masks", default="causal,full")
    parser.add_argument("--regimes", default="burst,sustained")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--tau", type=float)
    parser.add_argument("--path", choices=list(LEAST_COSINE), default="mxfp8", help="of ours")
    for name in CHOICES[1:]:
        parser.add_argument(f"--{name}", choices=_native.CHOICES[name], help="of ours")
    parser.add_argument("--commit", default=commit(), help="to name in the file")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        parser.error(f"--only must list {', '.join(WORKLOADS)}; got {', '.join(unknown)}")
    if not torch.cuda.is_available():
        parser.error("a GPU must be there; got none")
    choices = {key: value for key in ("tau", *CHOICES)
               if (value := getattr(arguments, key)) is not None}
    rows, missing = [], {}
    for mask in arguments.masks.split(","):
        for name in names:
            if mask == "full" and name[0] == "D":
                continue
            lengths, kv_heads = WORKLOADS[name]
            inputs = Inputs(lengths, kv_heads, arguments.head_dim, mask == "causal")
            times = measure(inputs, build(inputs, choices, missing), arguments.rounds,
                            arguments.regimes.split(","))
            for (impl, done, regime), samples in times.items():
                ms = sorted(samples)[len(samples) // 2]
                tflops = None if done == "quantize" else round(inputs.flops() / ms * 1e-9, 1)
                rows.append({
                    "workload": name, "mask": mask, "pass": done, "impl": impl, "regime": regime,
                    "head_dim": arguments.head_dim, "ms": round(ms, 5),
                    "least_ms": round(min(samples), 5), "most_ms": round(max(samples), 5),
                    "tflops": tflops})
                print(json.dumps(rows[-1]), flush=True)
    result = {
        "chip": torch.cuda.get_device_name(), "driver": driver(), "cuda": torch.version.cuda,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": arguments.commit, "command": " ".join(["bench/gpu/peers.py", *sys.argv[1:]]),
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "cudnn_frontend": getattr(sys.modules.get("cudnn"), "__version__", None),
        "not_installed": missing, "rows": rows}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
