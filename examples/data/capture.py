#!/usr/bin/env python3
"""Makes trained_attention.safetensors: q, k, v and dO of one layer of a small trained model.

Three steps: `corpus` builds the text (Debian, network), `train` trains on a GPU, captures every
layer, measures every head and writes files, `select` cuts two heads out of a captured layer.
Needs: Python 3.11, numpy, torch, safetensors. See README.md in this folder for the provenance.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import lzma
import time
from pathlib import Path
from typing import Callable

import corpus
import measures
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformer import Capture, Shape, Transformer, attend

SEED = 20
ROWS = 8
SHORTEST, LONGEST = 64, 4096  # bytes of a training document
CAPTURED_TOKENS = (1051, 61, 387, 118, 262, 91)  # tokens wanted of each captured document
LEARNING_RATE, WEIGHT_DECAY, CLIP = 4e-4, 0.1, 1.0
WARMUP_STEPS, TIMED_FROM, TIMED_TO = 150, 20, 60
KEPT_LAYERS = 3  # layers written whole, most demanding first

Model = Callable[..., Tensor]


def on_device(batch: corpus.Batch, device: str, padded: int) -> dict[str, Tensor]:
    """The batch's tensors; starts padded with empty documents so that no shape ever changes."""
    starts = np.full(padded + 1, batch.starts[-1], dtype=np.int32)
    starts[: len(batch.starts)] = batch.starts
    arrays = {"tokens": batch.tokens, "targets": batch.targets, "positions": batch.positions}
    tensors = {name: torch.from_numpy(x).to(device) for name, x in arrays.items()}
    return tensors | {"starts": torch.from_numpy(starts).to(device)}


class Trainer:
    """Trains the model for a number of steps that fits in the given minutes."""

    def __init__(self, shape: Shape, device: str, rows: int, compiled: bool) -> None:
        torch.manual_seed(SEED)
        self.device, self.rows, self.shape = device, rows, shape
        self.model = Transformer(shape).to(device)
        self.step_model: Model = torch.compile(self.model) if compiled else self.model
        self.compiled = compiled
        decayed = [p for p in self.model.parameters() if p.dim() == 2]
        plain = [p for p in self.model.parameters() if p.dim() != 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": WEIGHT_DECAY},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=LEARNING_RATE,
            betas=(0.9, 0.95),
            fused=device == "cuda",
        )

    def padded_documents(self) -> int:
        return self.rows * (self.shape.row_tokens // SHORTEST + 1)

    def loss(
        self, model: Model, batch: corpus.Batch, captures: list[Capture] | None = None
    ) -> Tensor:
        """Mean loss of the batch in nats a byte; a captures list is filled, one item a layer."""
        tensors = on_device(batch, self.device, max(self.padded_documents(), len(batch.starts)))
        with torch.autocast(self.device, dtype=torch.bfloat16):
            return model(**tensors, captures=captures)

    def _step(self, batch: corpus.Batch, rate: float) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.loss(self.step_model, batch)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _first_step(self, batch: corpus.Batch) -> Tensor:
        """Compilation happens here; if it fails, plain execution takes over."""
        try:
            return self._step(batch, 0.0)
        except Exception as error:
            if not self.compiled:
                raise
            print(f"no compilation ({type(error).__name__}): plain execution", flush=True)
            self.step_model, self.compiled = self.model, False
            self.optimizer.zero_grad(set_to_none=True)
            return self._step(batch, 0.0)

    def train(self, source: corpus.Documents, steps: int, minutes: float) -> dict[str, float]:
        """Runs the schedule; steps are cut once, after the first timed ones, to fit minutes."""
        begin = time.monotonic()
        recent: list[float] = []
        timed = 0.0
        step = 0
        while step < steps:
            batch = corpus.pack([], source, self.rows, self.shape.row_tokens)
            remaining = (steps - step) / steps
            # Linear warm-up, constant for the first third, then linear to a twentieth.
            rate = LEARNING_RATE * min(1.0, step / WARMUP_STEPS, 0.05 + 1.425 * remaining)
            loss = self._first_step(batch) if step == 0 else self._step(batch, rate)
            if step in (TIMED_FROM, TIMED_TO):
                loss.item()  # waits for the device
                now = time.monotonic()
                if step == TIMED_TO:
                    seconds = (now - timed) / (TIMED_TO - TIMED_FROM)
                    left = 60 * minutes - (now - begin)
                    steps = min(steps, step + max(1, int(0.97 * left / seconds)))
                    print(f"{1000 * seconds:.1f} ms a step, {steps} steps", flush=True)
                timed = now
            if step % 100 == 0 or step == steps - 1:
                recent = (recent + [loss.item()])[-5:]
                elapsed = time.monotonic() - begin
                print(f"step {step} loss {recent[-1]:.4f} after {elapsed:.0f} s", flush=True)
            step += 1
        return {
            "steps": step,
            "last_losses_mean": sum(recent) / len(recent),
            "seconds": time.monotonic() - begin,
        }


def held_out_loss(trainer: Trainer, source: corpus.Documents, batches: int) -> float:
    """Mean loss over packed held-out documents, nats per byte."""
    with torch.no_grad():
        packed = [
            corpus.pack([], source, trainer.rows, trainer.shape.row_tokens) for _ in range(batches)
        ]
        return sum(trainer.loss(trainer.model, batch).item() for batch in packed) / batches


def measured_dq(layer: dict[str, Tensor], starts: list[int]) -> Tensor:
    """dQ of this device's own BF16 attention backward: [tokens, heads, head_dim]."""
    q, k, v = (layer[name].clone().requires_grad_() for name in ("q", "k", "v"))
    bounds = torch.tensor(starts, dtype=torch.int32, device=q.device)
    longest = max(e - b for b, e in zip(starts, starts[1:]))
    return torch.autograd.grad(attend(q, k, v, bounds, longest), q, layer["do"])[0]


def layer_figures(layer: dict[str, Tensor], starts: list[int]) -> list[measures.Numbers]:
    """measures.head of every head, with the device's own BF16 dQ beside it."""
    dq = measured_dq(layer, starts)
    figures: list[measures.Numbers] = []
    for index in range(layer["q"].shape[1]):
        q, k, v, do = (layer[name][:, index] for name in ("q", "k", "v", "do"))
        measured = measures.dq_row_cosine(dq[:, index], q, k, v, do, starts)
        figures.append(measures.head(q, k, v, do, starts) | measured)
    return figures


def write_layer(path: Path, layer: dict[str, Tensor], starts: list[int], about: str) -> None:
    """Writes q, k, v, do and cu_seqlens, complete or not at all."""
    tensors = {name: x.cpu().contiguous() for name, x in layer.items()}
    tensors["cu_seqlens"] = torch.tensor(starts, dtype=torch.int32)
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={"about": about})
    partial.chmod(0o644)
    partial.replace(path)


def capture(
    trainer: Trainer, first: list[bytes], source: corpus.Documents
) -> tuple[list[dict[str, Tensor]], list[int]]:
    """Every layer's tensors over the documents in first, in a full training batch."""
    batch = corpus.pack(first, source, trainer.rows, trainer.shape.row_tokens)
    captures: list[Capture] = []
    torch.autograd.backward(trainer.loss(trainer.model, batch, captures))
    starts = [int(x) for x in batch.starts[: len(first) + 1]]
    layers: list[dict[str, Tensor]] = []
    for seen in captures:
        assert seen.o.grad is not None
        tensors = {"q": seen.q, "k": seen.k, "v": seen.v, "do": seen.o.grad}
        layers.append({name: x[: starts[-1]].contiguous() for name, x in tensors.items()})
        assert all(x.dtype == torch.bfloat16 for x in layers[-1].values())
    return layers, starts


def print_table(figures: list[list[measures.Numbers]]) -> None:
    """One line a head, the figures that matter for the choice."""
    columns = {
        "sink": "sink_mass",
        "top>.99": "rows_with_top_above_0.99",
        "spread": "score_spread_mean_nats",
        "s std": "score_std_nats",
        "V m/s": "v_mean_over_std",
        "K max": "k_largest_over_mean",
        "K chan": "k_channel_over_mean",
        "flush": "ds_flushed_32x32",
        "dQ D": "dq_row_cosine_delta_from_bf16_o",
        "dQ bf16": "dq_row_cosine_measured_bf16",
        "<.9": "dq_rows_below_0.9_measured_bf16",
    }
    print("layer head " + " ".join(f"{name:>8}" for name in columns) + "   dO max")
    for number, layer in enumerate(figures):
        for index, x in enumerate(layer):
            cells = " ".join(f"{x[key]:8.4f}" for key in columns.values())
            print(f"{number:5} {index:4} {cells} {x['do_max']:8.1e}", flush=True)


def run_train(arguments: argparse.Namespace) -> None:
    """Trains, captures, measures, writes the chosen file, whole layers and stats.json."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = Shape(**json.loads(arguments.shape))
    text = lzma.decompress(arguments.corpus.read_bytes())
    training, held_out = corpus.split_entries(text)
    trainer = Trainer(shape, device, arguments.rows, arguments.compile)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(f"{device}, {parameters} parameters, {len(text)} bytes of text", flush=True)

    documents = corpus.Documents(training, SEED, SHORTEST, LONGEST)
    result = trainer.train(documents, arguments.steps, arguments.minutes)
    unseen = corpus.Documents(held_out, SEED + 1, SHORTEST, LONGEST)
    result["held_out_loss"] = held_out_loss(trainer, unseen, arguments.evaluations)
    print(f"held-out loss {result['held_out_loss']:.4f} nats a byte", flush=True)

    shown = corpus.Documents(held_out, SEED + 2, SHORTEST, LONGEST)
    parts = len(arguments.captured)
    first = [shown.nearest(wanted, i, parts) for i, wanted in enumerate(arguments.captured)]
    layers, starts = capture(trainer, first, shown)
    figures = [layer_figures(layer, starts) for layer in layers]
    print_table(figures)
    layer, heads = measures.choose(figures)
    print(f"chosen: layer {layer}, heads {heads}", flush=True)

    for number in measures.layers_by_demand(figures)[:KEPT_LAYERS]:
        path = arguments.out / f"layer_{number}.safetensors"
        write_layer(path, layers[number], starts, f"layer {number}, all heads")
    select(arguments.out / f"layer_{layer}.safetensors", heads, arguments.out / arguments.name)
    facts = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "shape": dataclasses.asdict(shape),
        "parameters": parameters,
        "rows": arguments.rows,
        "compiled": trainer.compiled,
        "corpus_sha256": hashlib.sha256(text).hexdigest(),
        "training": result,
        "cu_seqlens": starts,
        "documents": [corpus.headword(document) for document in first],
        "layer": layer,
        "heads": heads,
        "figures": figures,
    }
    (arguments.out / "stats.json").write_text(json.dumps(facts, indent=1) + "\n")


def select(whole: Path, heads: list[int], out: Path) -> None:
    """Writes the given heads of a whole-layer file as a file of its own."""
    tensors = load_file(whole)
    starts = tensors.pop("cu_seqlens").tolist()
    cut = {name: x[:, heads] for name, x in tensors.items()}
    about = f"{whole.stem.replace('_', ' ')}, heads {', '.join(map(str, heads))}"
    write_layer(out, cut, starts, about)
    print(f"{out.name}: {out.stat().st_size} bytes, {starts[-1]} tokens", flush=True)


def numbers(text: str) -> list[int]:
    """Comma-separated whole numbers."""
    return [int(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    text = steps.add_parser("corpus", help="build the text from a Debian package")
    text.add_argument("--out", type=Path, required=True)
    train = steps.add_parser("train", help="train, capture, measure, write")
    train.add_argument("--corpus", type=Path, required=True)
    train.add_argument("--out", type=Path, required=True, help="folder for the results")
    train.add_argument("--name", default="trained_attention.safetensors")
    train.add_argument("--steps", type=int, default=3600)
    train.add_argument("--minutes", type=float, default=4.5, help="training is cut to fit")
    train.add_argument("--rows", type=int, default=ROWS, help="rows of packed documents a step")
    train.add_argument("--captured", type=numbers, default=list(CAPTURED_TOKENS))
    train.add_argument("--evaluations", type=int, default=8, help="held-out batches")
    train.add_argument("--shape", default="{}", help="JSON, fields of Shape")
    train.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    chosen = steps.add_parser("select", help="cut heads out of a whole-layer file")
    chosen.add_argument("--layer", type=Path, required=True)
    chosen.add_argument("--heads", type=numbers, required=True)
    chosen.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.step == "corpus":
        print(json.dumps(corpus.build(arguments.out), indent=1))
    elif arguments.step == "train":
        run_train(arguments)
    else:
        select(arguments.layer, arguments.heads, arguments.out)


if __name__ == "__main__":
    main()
