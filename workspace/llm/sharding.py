"""A model on several ranks: whole on each (DDP), or in parts (FSDP2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def parallel(model: nn.Module, how: str, ranks: int, device: torch.device) -> tuple[nn.Module, nn.Module]:
    """The model that computes, and the module with the parameters; the same one but under DDP.

    `ddp`: every rank has all of it, and the gradients are averaged. `fsdp`: every rank keeps a part of each
    matrix and of its optimizer's state, and a block's matrices are put together only while it computes.
    """
    model.to(device)
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        return model, model
    if ranks == 1:
        return model, model
    return nn.parallel.DistributedDataParallel(model, [device] if device.type == "cuda" else None), model


def gathered(value: Any) -> Any:
    """`value` with the parts of each tensor put together: all ranks have to call it, each gets all."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {key: gathered(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(gathered(entry) for entry in value)
    return value


def shard_state(optimizer: torch.optim.Optimizer) -> None:
    """Cut a loaded optimizer's state as its parameters are cut; nothing to do where these are whole."""
    for parameter, state in optimizer.state.items():
        if isinstance(parameter, DTensor):
            for name, entry in state.items():
                if isinstance(entry, Tensor) and entry.shape == parameter.shape:
                    state[name] = distribute_tensor(entry, parameter.device_mesh, parameter.placements)
