"""A small decoder in the form of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Its vocabulary is the 256 bytes, so there is no tokenizer: text is `text.encode()`. Byte 0 does not occur in
text and separates documents (END). Letters in shapes: B rows of a batch, T tokens of a row, H heads, D
numbers of a head.

Training calls `model(tokens)` with whole rows. Inference computes the same in another way, and goes on from
what a row has seen (inference.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lora
import torch
from torch import Tensor, nn

VOCABULARY = 256
END = 0
"""The byte that stands before and after every document."""

CONFIG_FILE, WEIGHTS_FILE = "model.json", "weights.pt"


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. A head has width / heads numbers; kv_heads divides heads."""

    width: int
    layers: int
    inner: int
    """Width inside the SwiGLU."""
    heads: int
    kv_heads: int
    """Heads of keys and values: as many as `heads`, or fewer, each shared by several heads of queries."""
    context: int = 256
    """Most tokens of a row."""
    tied: bool = True
    """The output layer is the embedding's matrix."""
    dropout: float = 0.0

    @property
    def head(self) -> int:
        return self.width // self.heads


SIZES = {
    "0.1m": ModelConfig(width=64, layers=2, inner=192, heads=4, kv_heads=2),
    "0.8m": ModelConfig(width=128, layers=4, inner=384, heads=4, kv_heads=2),
    "5m": ModelConfig(width=256, layers=6, inner=768, heads=8, kv_heads=4),
    "10m": ModelConfig(width=384, layers=6, inner=1024, heads=6, kv_heads=2),
    "25m": ModelConfig(width=512, layers=8, inner=1536, heads=8, kv_heads=4),
    "76m": ModelConfig(width=768, layers=12, inner=2048, heads=12, kv_heads=4),
}


def rotary_table(head: int, context: int, base: float = 10_000.0) -> Tensor:
    """Cosines and sines of every place: (2, context, head / 2)."""
    frequencies = base ** -(torch.arange(0, head, 2, dtype=torch.float32) / head)
    angles = torch.arange(context, dtype=torch.float32)[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn the pairs of numbers of x (B, H, T, D) by the angles of their places: (2, T, D / 2)."""
    cos, sin = table.to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


class Attention(nn.Module):
    """Causal attention: a token sees itself and those before it."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head, self.dropout = c.heads, c.kv_heads, c.head, c.dropout
        self.query = nn.Linear(c.width, c.heads * c.head, bias=False)
        self.key = nn.Linear(c.width, c.kv_heads * c.head, bias=False)
        self.value = nn.Linear(c.width, c.kv_heads * c.head, bias=False)
        self.output = nn.Linear(c.width, c.width, bias=False)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        rows, length, _ = x.shape
        query = self.query(x).view(rows, length, self.heads, self.head).transpose(1, 2)
        key = self.key(x).view(rows, length, self.kv_heads, self.head).transpose(1, 2)
        value = self.value(x).view(rows, length, self.kv_heads, self.head).transpose(1, 2)
        query, key = rotate(query, table), rotate(key, table)
        if self.kv_heads != self.heads:
            shared = self.heads // self.kv_heads
            key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
        dropout = self.dropout if self.training else 0.0
        seen = nn.functional.scaled_dot_product_attention(query, key, value, None, dropout, is_causal=True)
        return self.output(seen.transpose(1, 2).reshape(rows, length, -1))


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(c.width, c.inner, bias=False)
        self.up = nn.Linear(c.width, c.inner, bias=False)
        self.down = nn.Linear(c.inner, c.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer: attention and feed-forward, each on normalised numbers and added to what came in."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(c.width, eps=1e-5), Attention(c)
        self.feed_norm, self.feed = nn.RMSNorm(c.width, eps=1e-5), FeedForward(c)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), table))
        return x + self.dropout(self.feed(self.feed_norm(x)))


class Decoder(nn.Module):
    """The model: bytes (B, T) to logits of each next byte (B, T, 256)."""

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(VOCABULARY, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.output = None if config.tied else nn.Linear(config.width, VOCABULARY, bias=False)
        self.register_buffer("table", rotary_table(config.head, config.context), persistent=False)
        for name, weight in self.named_parameters():
            if (
                weight.dim() == 2
            ):  # matrices that write to the residual stream start smaller, the deeper the smaller
                ends = name.endswith(("attention.output.weight", "feed.down.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * config.layers) ** 0.5 if ends else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits for the byte after each of `tokens`."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.table[:, : tokens.shape[1]])
        x = self.norm(x)
        return nn.functional.linear(x, self.embedding.weight) if self.output is None else self.output(x)


def next_byte_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats per byte, in float32 whatever the logits are."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def save_model(config: ModelConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write the shape as JSON and the weights beside it."""
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(config), indent=1) + "\n")
    torch.save(dict(weights), folder / WEIGHTS_FILE)


def load_model(folder: Path, merged: bool = True, **changes: Any) -> Decoder:
    """The model of a checkpoint, ready to be evaluated. Raises OSError where there is none.

    What LoRA has learned is merged into the weights, or else is left beside them, to be trained further.
    `changes` are fields of the shape that fit any weights: context, dropout.
    """
    config = ModelConfig(**{**json.loads((folder / CONFIG_FILE).read_text()), **changes})
    model = Decoder(config)
    model.load_state_dict(torch.load(folder / WEIGHTS_FILE, map_location="cpu", weights_only=True))
    if (folder / lora.ADAPTER_FILE).exists():
        adapter = torch.load(folder / lora.ADAPTER_FILE, map_location="cpu", weights_only=True)
        lora.adapt(model, **adapter["lora"]).load_state_dict(adapter["matrices"], strict=False)
        if merged:
            lora.merge(model)
    return model.eval()
