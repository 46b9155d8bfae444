"""LoRA: a large matrix stays as it is, and a product of two small ones that is added to it is trained.

A matrix of (out, in) numbers gets `down` (rank, in) and `up` (out, rank): rank * (in + out) numbers to train.
`up` begins with zeros, so that the model at first computes what it did.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

ADAPTER_FILE = "adapter.pt"

TARGETS = ("query", "value")
"""Layers of the attention that are adapted by default."""


class LoRA(nn.Module):
    """A linear layer without bias, frozen, plus scale * up(down(x))."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + (x @ self.down.T) @ self.up.T * self.scale

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The layer as one matrix again: as fast as before, and it computes the same."""
        self.base.weight += self.up @ self.down * self.scale
        return self.base


def adapt(model: nn.Module, rank: int, alpha: float, targets: Iterable[str] = TARGETS) -> nn.Module:
    """Freeze the model; add a LoRA to each linear layer called like a target. Raises ValueError for none."""
    wanted = tuple(targets)
    model.requires_grad_(False)
    linears = [(m, name) for m in list(model.modules()) for name, child in m.named_children()
             if name in wanted and isinstance(child, nn.Linear)]  # fmt: skip
    if not linears:
        raise ValueError(f"the model has no linear layer called {' or '.join(wanted)}")
    for module, name in linears:
        setattr(module, name, LoRA(getattr(module, name), rank, alpha))
    return model


def merge(model: nn.Module) -> nn.Module:
    """Put every LoRA of the model into its matrix."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LoRA):
                setattr(module, name, child.merged())
    return model


def trainable(model: nn.Module) -> int:
    """Number of parameters that are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
