"""The model for inference: it computes what model.py's Decoder does, and remembers the rows it has seen.

A `Cache` keeps the keys and values of each row, so that new bytes are passed alone, with their places:

    fast = Inference(model)
    cache = fast.new_cache(rows=1, places=256)
    logits = fast(prompt, torch.arange(len(prompt[0]))[None], cache)      # the prompt at once
    logits = fast(next_byte, torch.tensor([[len(prompt[0])]]), cache)     # then byte by byte

These make a step short, and change an answer by no more than rounding:

- what reads the same numbers is one product of matrices: query, key and value; gate and up;
- on a CPU the matrices are packed for oneDNN, which reads them two to three times as fast as `x @ w`;
- a norm's weights are multiplied into the matrix behind it, attention's scale into that of the queries;
- the two numbers that rotary positions turn stand side by side: turning is one product of complex numbers;
- the cache is kept in blocks, in the order in which attention reads it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch
from model import Block, Decoder, ModelConfig, rotary_table
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, silu

BLOCK = 64
"""The cache is kept, and read, in blocks of so many places."""


@dataclass(frozen=True)
class Cache:
    """Keys (blocks, rows, kv_heads, D, BLOCK) and values (blocks, rows, kv_heads, BLOCK, D) of each layer.

    A row is a slot for one text. The first blocks of all slots lie together: attention reads them in one go.
    Each block is multiplied by itself, so that its result does not depend on how many others there are.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def places(self) -> int:
        """Tokens that a slot has room for."""
        return BLOCK * len(self.layers[0][0])

    def rows(self, first: int, last: int) -> Cache:
        """The slots first..last-1, as a view: what is written there is written here."""
        return Cache(tuple((keys[:, first:last], values[:, first:last]) for keys, values in self.layers))

    def until(self, places: int) -> Cache:
        """The blocks with the first places of every slot, as a view: attention reads no others."""
        reach = blocks_of(places)
        return Cache(tuple((keys[:reach], values[:reach]) for keys, values in self.layers))


def blocks_of(places: int) -> int:
    """Blocks that hold so many places."""
    return -(-places // BLOCK)


@dataclass(frozen=True)
class Places:
    """The places of new tokens in a cache, the same for every layer."""

    rows: Tensor
    """(B, 1): the slot of each row."""
    block: Tensor
    """(B, T): the block of each token in its slot."""
    place: Tensor
    """(B, T): its place in the block."""
    angles: Tensor
    """(B, T, 1, D / 2): complex numbers that turn a head by the place of its token."""
    mask: Tensor
    """(B, 1, T, places): 0 where a token may look, else minus infinity."""


class Matrix:
    """Multiplies with a matrix (out, in); on a PC's CPU it is packed as oneDNN reads it fastest."""

    def __init__(self, weight: Tensor) -> None:
        pc = weight.device.type == "cpu" and platform.machine() in ("x86_64", "AMD64")
        self._packed = pc and (
            weight.dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, 16) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """x (..., in) to (..., out)."""
        if not self._packed:
            return linear(x, self._weight)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, None, "none", [], "")
        return output


@dataclass(frozen=True)
class Folded:
    """The matrices (out, in) of a block with its norms and attention's scale multiplied in."""

    read: Tensor
    """Queries, keys and values; the two numbers that a position turns are neighbours in queries and keys."""
    output: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


def folded(block: Block, c: ModelConfig) -> Folded:
    """The matrices of a block as inference multiplies with them."""
    attention, feed = block.attention, block.feed
    query = side_by_side(attention.query.weight, c.head) * c.head**-0.5
    key = side_by_side(attention.key.weight, c.head)
    read = torch.cat([query, key, attention.value.weight]) * block.attention_norm.weight
    gate, up = (layer.weight * block.feed_norm.weight for layer in (feed.gate, feed.up))
    return Folded(read, attention.output.weight, gate, up, feed.down.weight)


def folded_output(model: Decoder) -> Tensor:
    """The matrix to the logits, with the last norm multiplied in."""
    output = model.embedding.weight if model.output is None else model.output.weight
    return output * model.norm.weight


class Layer:
    """A block of the model."""

    def __init__(self, block: Block, c: ModelConfig) -> None:
        self._config = c
        matrices = folded(block, c)
        self._read, self._output = Matrix(matrices.read), Matrix(matrices.output)
        self._gate_up = Matrix(torch.cat([matrices.gate, matrices.up]))
        self._down = Matrix(matrices.down)

    def __call__(self, x: Tensor, places: Places, kept: tuple[Tensor, Tensor]) -> Tensor:
        x = self._output(self._attention(self._read(normal(x)), places, kept)).add_(x)
        gate, up = self._gate_up(normal(x)).chunk(2, dim=-1)
        return self._down(silu(gate).mul_(up)).add_(x)

    def _attention(self, read: Tensor, places: Places, kept: tuple[Tensor, Tensor]) -> Tensor:
        """Write new keys and values into the cache, and attend to all of it.

        N are the blocks of all rows and heads of keys, S the queries that share a head's keys.
        """
        c, (keys, values) = self._config, kept
        rows, length, _ = read.shape
        heads, kv, d, blocks, shared = c.heads, c.kv_heads, c.head, len(keys), c.heads // c.kv_heads
        new = read.float().view(rows, length, heads + 2 * kv, d)
        torch.view_as_complex(new[:, :, :-kv].view(rows, length, -1, d // 2, 2)).mul_(places.angles)
        new = new.to(read.dtype)
        keys[places.block, places.rows, :, :, places.place] = new[:, :, heads:-kv]
        values[places.block, places.rows, :, places.place] = new[:, :, -kv:]

        query = new[:, :, :heads].view(rows, length, kv, shared, d).permute(0, 2, 3, 1, 4)
        query = query.expand(blocks, -1, -1, -1, -1, -1).reshape(-1, shared * length, d)
        # The few rows of queries stand on the left: MKL then reads a small model's cache faster.
        scores = query @ keys.flatten(0, 2)  # (N, S, BLOCK)
        scores = scores.view(blocks, rows, kv, -1, BLOCK).permute(1, 2, 3, 0, 4)
        scores = scores.reshape(rows, heads, length, -1).add_(places.mask)
        weights = scores.softmax(-1).view(rows, kv, -1, blocks, BLOCK).permute(3, 0, 1, 2, 4)
        seen = weights.reshape(-1, shared * length, BLOCK) @ values.flatten(0, 2)  # (N, S, D)
        seen = seen.view(blocks, rows, kv, shared, length, d).sum(0)
        return seen.permute(0, 3, 1, 2, 4).reshape(rows, length, -1)


class Inference:
    """The model: new bytes (B, T) with their places to logits of each next byte (B, T, 256)."""

    @torch.inference_mode()
    def __init__(self, model: Decoder) -> None:
        self.config = model.config
        self._embedding = model.embedding.weight.detach()
        self._angles = angles_of(self.config).to(self.device)
        self._layers = [Layer(block, self.config) for block in model.blocks]
        self._output = Matrix(folded_output(model))

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    @torch.inference_mode()
    def __call__(self, tokens: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Logits for the byte after each of `tokens`; `positions` (B, T) says where in its row each stands.

        Rows may be of different length, and a row may be padded at its end (what it writes there is
        overwritten before it is seen). Raises IndexError for a place outside of the context or the cache.
        """
        x = embedding(tokens, self._embedding)
        rows = torch.arange(len(tokens), device=self.device)[:, None]
        after = torch.arange(cache.places, device=self.device) > positions[:, None, :, None]
        # A place after a token's own may hold what an earlier row left there: it is not looked at.
        mask = torch.zeros(after.shape, dtype=x.dtype, device=self.device).masked_fill_(after, -torch.inf)
        angles = self._angles[positions][:, :, None]
        places = Places(rows, positions // BLOCK, positions % BLOCK, angles, mask)
        for layer, kept in zip(self._layers, cache.layers, strict=True):
            x = layer(x, places, kept)
        return self._output(normal(x))

    @torch.inference_mode()
    def new_cache(self, rows: int, places: int | None = None) -> Cache:
        """An empty cache of `rows` slots, each for at least `places` tokens (default: the context)."""
        c, new = self.config, self._embedding.new_zeros
        slots = (blocks_of(places or c.context), rows, c.kv_heads)
        shapes = (*slots, c.head, BLOCK), (*slots, BLOCK, c.head)
        return Cache(tuple((new(shapes[0]), new(shapes[1])) for _ in range(c.layers)))


def angles_of(c: ModelConfig) -> Tensor:
    """Complex numbers (context, D / 2) that turn a head by its place."""
    return torch.complex(*rotary_table(c.head, c.context))


def normal(x: Tensor) -> Tensor:
    """RMSNorm without weights."""
    return rms_norm(x, x.shape[-1:], eps=1e-5)


def side_by_side(weight: Tensor, head: int) -> Tensor:
    """Order the rows of a matrix so that the numbers i and i + D / 2 of each head are neighbours."""
    return weight.unflatten(0, (-1, 2, head // 2)).transpose(1, 2).flatten(0, 2)
