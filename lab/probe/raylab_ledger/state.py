"""The live state of a training with PyTorch: of the optimizers that have made a step, and of their modules.

A state has a digest for each tensor, by a key that is the same in every attempt: its name in the outermost
module that holds it, else its place in its optimizer. The modules are found by one look at the heap for each
optimizer, so that it makes no difference how a script builds, wraps or keeps them.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from raylab_ledger.tensors import MOST_TENSORS, digest, digest_of_bytes, halves, local, rounded

WRAPPERS = {"module", "_orig_mod", "_forward_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""Parts of a name that DDP, torch.compile, Lightning's Fabric, FSDP and activation checkpointing put in."""

MOST_OPTIMIZERS = 256

State = dict[str, Any]
"""A state: digests of `tensors` by key, the keys in the `order` of each optimizer, and what else `look`
says."""


def of_type(base: type) -> Iterator[Any]:
    """Yield the objects of a type on the heap. Those from before a fork of a fork server are left out."""
    fitting: dict[type, bool] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in fitting:
            fitting[kind] = issubclass(kind, base)
        if fitting[kind]:
            yield thing


class LiveState:
    """Looks at the state of this process when it is asked to."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = 0.0
        """Spent on digests and on the search for modules, in all."""
        self._optimizers: dict[int, weakref.ref[Any]] = {}  # by number, in the order of their first steps
        self._modules: list[weakref.ref[Any]] = []  # those with parameters of optimizers
        self._aside: list[weakref.ref[Any]] = []  # the others, such as a mean of the weights
        self._counted = 0

    def number_of(self, optimizer: Any) -> int:
        """Return the number of an optimizer, which it gets by the first call; -1 where there are too many."""
        for number, known in self._optimizers.items():
            if known() is optimizer:
                return number
        alive = {number: known for number, known in self._optimizers.items() if known() is not None}
        if len(alive) >= MOST_OPTIMIZERS:
            return -1
        # A script may make another optimizer for each epoch: it has the number of the one that is gone.
        number = next(n for n in range(MOST_OPTIMIZERS) if n not in alive)
        self._optimizers = {**alive, number: weakref.ref(optimizer)}
        self._counted = 0
        return number

    def optimizers(self) -> list[tuple[int, Any]]:
        """The optimizers that there are, by number."""
        alive = ((number, known()) for number, known in sorted(self._optimizers.items()))
        return [(number, optimizer) for number, optimizer in alive if optimizer is not None]

    def tensors(self) -> list[tuple[str, Any]]:
        """The tensors of the state, each with its key."""
        return list(self._keys(dict(self.optimizers())).values())

    def parameters(self, optimizer: Any) -> list[str]:
        """Digests of an optimizer's parameters, in its order."""
        began = self._clock()
        digests = [digest(parameter) for parameter in parameters_of(optimizer)]
        self.seconds += self._clock() - began
        return digests

    def look(self, *, begins: bool = False) -> State:
        """Return the state as an event tells it: see docs/recovery.md.

        `aside` has the modules that no optimizer trains: a mean of the weights, a frozen part.
        `halves` has its values in half precision: rounded to bfloat16, or, where it `begins`, in each that
        holds them without rounding, as where a file has had them in one.
        """
        began = self._clock()
        optimizers = dict(self.optimizers())
        keys = self._keys(optimizers)
        order = {n: [keys[id(p)][0] for p in parameters_of(o)] for n, o in optimizers.items()}
        trained = {key for mine in order.values() for key in mine}
        if len(keys) > MOST_TENSORS:
            return {"why": f"it has more than {MOST_TENSORS} tensors"}
        # All of them: PyTorch does not count what BatchNorm writes into its buffers, nor what `.data` does.
        tensors = {key: digest(t) for key, t in keys.values()}
        fields: State = {
            "tensors": tensors,
            "order": [order.get(n, []) for n in range(max(order, default=-1) + 1)],
            "moments": {str(n): moments(o, keys) for n, o in optimizers.items()},
            "counters": {key: int(t) for key, t in keys.values() if key not in trained and is_counter(t)},
        }
        others = [module for ref in self._aside if (module := ref()) is not None]
        aside = [p for module in others for p in module.parameters() if id(p) not in keys]
        fields["aside"] = {str(n): digest(p) for n, p in enumerate(aside[:MOST_TENSORS])}
        buffers = ((f"aside {n}.{name}", t) for n, m in enumerate(others) for name, t in m.named_buffers())
        fields["counters"] |= {key: int(t) for key, t in buffers if is_counter(t)}
        narrow = halves if begins else rounded
        fields["halves"] = {key: half for key, t in keys.values() if key in trained and (half := narrow(t))}
        fsdp = any(type(ref()).__name__ == "FullyShardedDataParallel" for ref in self._modules)
        if fsdp or any(local(t) is not t for _, t in keys.values()):
            fields["sharded"] = True
        self.seconds += self._clock() - began
        return fields

    def _keys(self, optimizers: dict[int, Any]) -> dict[int, tuple[str, Any]]:
        """Return id of each tensor -> its key and itself: parameters of optimizers, the rest of their
        modules."""
        mine = {n: parameters_of(o) for n, o in optimizers.items()}
        if (count := sum(map(len, mine.values()))) != self._counted:
            tops = outermost([parameter for parameters in mine.values() for parameter in parameters])
            self._modules, self._aside = ([weakref.ref(m) for m in modules] for modules in tops)
            self._counted = count
        keys: dict[int, tuple[str, Any]] = {}
        for number, module in enumerate(m for ref in self._modules if (m := ref()) is not None):
            for kind in (module.named_parameters, module.named_buffers):
                for name, tensor in kind():
                    parts = (part for part in name.split(".") if part not in WRAPPERS)
                    keys.setdefault(id(tensor), (f"{number}.{'.'.join(parts)}", tensor))
        for n, parameters in mine.items():
            for place, parameter in enumerate(parameters):
                keys.setdefault(id(parameter), (f"optimizer {n}.{place}", parameter))
        return keys


def parameters_of(optimizer: Any) -> list[Any]:
    """All parameters of an optimizer, in its order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def outermost(parameters: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the outermost modules on the heap: that hold any of these, in the order of these; and that hold
    others alone."""
    place = {id(parameter): n for n, parameter in reversed(list(enumerate(parameters)))}
    first: dict[int, tuple[int, Any]] = {}
    inner: set[int] = set()
    for module in of_type(sys.modules["torch"].nn.Module):
        with suppress(Exception):  # one that is half made
            if held := [place.get(id(p), len(place)) for p in module.parameters()]:
                first[id(module)] = (min(held), module)
                inner |= {id(child) for child in module.modules() if child is not module}
    tops = sorted((pair for key, pair in first.items() if key not in inner), key=lambda pair: pair[0])
    trained = [module for at, module in tops if at < len(place)]
    return trained, [module for _, module in tops[len(trained) :]]


def moments(optimizer: Any, keys: dict[int, tuple[str, Any]]) -> str:
    """Digest of an optimizer's own state, such as the moments of Adam, by key; empty where it has none."""
    parts: list[str] = []
    for parameter in sorted(parameters_of(optimizer), key=lambda parameter: keys[id(parameter)][0]):
        for name, value in sorted(optimizer.state.get(parameter, {}).items()):
            parts.append(f"{name}={digest(value) if hasattr(value, 'detach') else value}")
    return digest_of_bytes(";".join(parts).encode()) if parts else ""


def is_counter(tensor: Any) -> bool:
    """Tell a count in a buffer, such as BatchNorm's of its batches."""
    return tensor.numel() == 1 and not tensor.is_floating_point() and not tensor.is_complex()
