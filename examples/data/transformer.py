"""A small causal byte-level Transformer with document-local attention over packed rows.

RMSNorm, rotary positions that restart with every document, gated feed-forward, no biases.
Used by: capture.py. Attention runs per document, through a variable-length kernel where one
exists and a loop over documents elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # older PyTorch: the loop over documents does the same, more slowly
    varlen_attn = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Shape:
    """Size of the model. Attention has width / head_dim heads, keys and values as many."""

    width: int = 1024
    layers: int = 6
    head_dim: int = 128
    hidden: int = 2816
    vocabulary: int = 256
    row_tokens: int = 4096
    rotary_base: float = 10000.0

    @property
    def heads(self) -> int:
        return self.width // self.head_dim


@dataclass(frozen=True)
class Capture:
    """What one attention layer saw: [tokens, heads, head_dim] each, o with its gradient."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Causal attention inside each document, scale 1 / sqrt(head_dim).

    q, k, v: [tokens, heads, head_dim]; starts: [documents + 1] int32 on the same device.
    Empty documents may pad starts at its end.
    """
    if q.is_cuda and varlen_attn is not None:
        # Window (-1, 0) is the causal mask.
        packed = varlen_attn(q, k, v, starts, starts, longest, longest, window_size=(-1, 0))
        assert isinstance(packed, Tensor)
        return packed
    pieces: list[Tensor] = []
    bounds = starts.tolist()
    for begin, end in zip(bounds, bounds[1:]):
        if begin < end:
            rows = [x[begin:end].transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
            out = F.scaled_dot_product_attention(rows[0], rows[1], rows[2], is_causal=True)
            pieces.append(out.squeeze(0).transpose(0, 1))
    return torch.cat(pieces)


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions in FP32, rounded to BF16 once. x: [tokens, heads, head_dim]."""
    low, high = x.float().chunk(2, dim=-1)
    turned = torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)
    return turned.to(torch.bfloat16)


class Block(nn.Module):
    """One layer: attention, then a gated feed-forward, each added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.head_dim = shape.heads, shape.head_dim
        self.attention_norm = nn.RMSNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.attention_out = nn.Linear(shape.width, shape.width, bias=False)
        self.feed_norm = nn.RMSNorm(shape.width)
        self.gate_up = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(
        self,
        x: Tensor,
        cosine: Tensor,
        sine: Tensor,
        starts: Tensor,
        longest: int,
        captures: list[Capture] | None,
    ) -> Tensor:
        projected = self.qkv(self.attention_norm(x))
        q, k, v = projected.view(-1, 3, self.heads, self.head_dim).unbind(1)
        q, k = _rotate(q, cosine, sine), _rotate(k, cosine, sine)
        v = v.to(torch.bfloat16).contiguous()
        o = attend(q, k, v, starts, longest)
        if captures is not None:
            o.retain_grad()
            captures.append(Capture(q.detach(), k.detach(), v.detach(), o))
        x = x + self.attention_out(o.reshape(x.shape))
        gate, up = self.gate_up(self.feed_norm(x)).chunk(2, dim=-1)
        fed: Tensor = self.down(F.silu(gate) * up)
        return x + fed


class Transformer(nn.Module):
    """Mean next-byte cross-entropy of packed documents."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        rate = shape.rotary_base ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
        )
        angle = torch.outer(torch.arange(shape.row_tokens, dtype=torch.float64), rate)
        self.register_buffer("cosine", angle.cos().float(), persistent=False)
        self.register_buffer("sine", angle.sin().float(), persistent=False)
        residual_std = 0.02 / (2 * shape.layers) ** 0.5
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                to_residual = name.endswith(("attention_out.weight", "down.weight"))
                nn.init.normal_(weight, std=residual_std if to_residual else 0.02)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor,
        positions: Tensor,
        starts: Tensor,
        captures: list[Capture] | None = None,
    ) -> Tensor:
        cosine = self.cosine[positions].unsqueeze(1)
        sine = self.sine[positions].unsqueeze(1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cosine, sine, starts, self.shape.row_tokens, captures)
        return F.cross_entropy(self.head(self.norm(x)).float(), targets)
