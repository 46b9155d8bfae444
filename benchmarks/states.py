"""The cost of the recorder's look at a state, beside that of saving a checkpoint; and what a step pays."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.compare import Row
from benchmarks.measure import say, timed
from lab.host.files import ROOT

WIDTHS = {"0.1m": (96, 11), "1m": (288, 12), "7m": (768, 12), "25m": (1448, 12), "76m": (2528, 12)}
"""Millions of parameters -> width and number of the layers of a network with about as many."""

BATCH, STEPS = 32, 20
"""Rows of a batch; steps of a turn with the recorder, and of one without it."""


def run(runs: int) -> list[Row]:
    """Measure networks of several sizes with Adam, in turn with what is compared. In milliseconds."""
    sys.path.insert(0, str(ROOT / "lab" / "probe"))
    rows: list[Row] = []
    for size, (width, layers) in WIDTHS.items():
        rounds = [tuple(1000 * seconds for seconds in one) for one in _rounds(runs, width, layers)]
        look, save, step, plain = zip(*rounds, strict=True)
        rows += [
            Row(f"look at the state, {size}", look, "torch.save", save, _ratios(look, save), "ms"),
            Row(f"a step, {size}", step, "without the recorder", plain, _ratios(step, plain), "ms"),
        ]
        say(f"{size}: a look takes {rows[-2].median:.2f} ms, a step {rows[-1].median:.2f} ms")
    return rows


def _ratios(ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(peer / mine for mine, peer in zip(ours, theirs, strict=True))


def _rounds(runs: int, width: int, layers: int) -> list[tuple[float, float, float, float]]:
    """Return the seconds of a look, of `torch.save`, and of a step with and without the recorder."""
    import torch

    from raylab_ledger.chain import Chain

    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    adam, batch = torch.optim.Adam(model.parameters()), torch.ones(BATCH, width)
    chain = Chain(lambda event, **fields: None)
    state = {"model": model, "optimizer": adam}

    def steps() -> None:
        for _ in range(STEPS):
            model.zero_grad()
            model(batch).square().mean().backward()
            adam.step()

    def turn() -> tuple[float, float, float, float]:
        hooks = adam.register_step_pre_hook(chain.before_step), adam.register_step_post_hook(chain.after_step)
        step = timed(steps) / STEPS
        look = timed(lambda: chain.hand_over({}, checkpoint=True))
        for hook in hooks:
            hook.remove()
        plain = timed(steps) / STEPS
        with tempfile.TemporaryDirectory() as folder:
            states = {name: part.state_dict() for name, part in state.items()}
            save = timed(lambda: torch.save(states, Path(folder) / "state.pt"))
        return look, save, step, plain

    turn()  # until the first report of an attempt a rank looks at its steps, too
    return [turn() for _ in range(runs)]
