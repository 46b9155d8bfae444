"""The scripts that test_truths.py tries, honest ones and liars, in the groups that train together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOGETHER = 8
"""Scripts that train at the same time."""


@dataclass(frozen=True)
class Script:
    """A training, and what it does with its checkpoint."""

    library: str
    does: str = "honest"
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)
    verdict: str = ""
    """That of an honest one which began again, if it is not `recovered`; of a liar, if what it forgets is no
    part of a state (docs/recovery.md)."""

    def __str__(self) -> str:
        more = "".join(f", {name} {value}" for name, value in self.more.items())
        return f"{self.library}: {self.does}{more}"


TWO: dict[str, Any] = {"ranks": 2}
OFTEN = (
    Script("torch", more=TWO), Script("xgboost"), Script("torch", "claims"),
    Script("torch", "opens and forgets"), Script("torch", "rank 1 claims", TWO),
    Script("by itself"), Script("normalized"), Script("shards", "loads the wrong shard"),
)  # fmt: skip
"""Those that every run of the tests tries."""

HONEST = (
    Script("torch"), Script("torch", more={**TWO, "tells": False}),
    Script("torch", more={**TWO, "shares": True}), Script("torch", more={"every": 2}),
    Script("torch", more={"named": True}), Script("torch", more={"seeded": False}),
    Script("ddp"), Script("ddp", more=TWO), Script("ddp", more={**TWO, "every": 2}),
    Script("ddp", more={**TWO, "named": True}), Script("elastic", more=TWO),
    Script("fsdp", more=TWO), Script("data"), Script("data", more=TWO),
    Script("lightning"), Script("lightning", more=TWO), Script("xgboost", more={"every": 2}),
    Script("lightgbm"), Script("transformers"), Script("tune"), Script("pbt"),
)  # fmt: skip
LIARS = (
    *(Script("torch", does) for does in (
        "begins anew", "goes on from a local file", "asks and claims",
        "opens and begins anew", "loads weights and begins anew", "loads an older one",
        "loads an older one and claims", "does epochs again", "claims a neighbour's memory",
    )),
    *(Script("torch", f"rank 1 {does}", TWO) for does in (
        "begins anew", "opens and forgets", "loads an older one and claims",
    )),
    Script("torch", "opens and forgets", {"seeded": False}),
    Script("ddp", "claims", TWO), Script("lightning", "opens and forgets"), Script("lightning", "claims"),
    Script("xgboost", "opens and forgets"),
    Script("lightgbm", "opens and forgets"), Script("lightgbm", "claims"),
    Script("transformers", "opens and forgets"), Script("transformers", "begins anew"),
    Script("tune", "claims"), Script("pbt", "opens and forgets"),
)  # fmt: skip
WAYS = (
    *(Script(name) for name in (
        "first steps", "asynchronous", "own upload", "shards", "metadata", "all reported",
        "several reports", "only loss", "broadcast", "best kept", "shared folder", "own file system",
        "callback", "validation", "elastic folder", "preemption",
    )),
    Script("steps", more={"every": 5}),
)  # fmt: skip
"""Each way of ray.train.report and of a Checkpoint (scripts/truths_reports.py)."""

MODELS = (
    *(Script(name) for name in (
        "sharded", "flat", "saved meanwhile", "mixed", "averaged", "scheduled", "frozen",
        "adversarial", "stops early",
    )),
    Script("averaged", more={"own": True}), Script("averaged", more={"inside": True}),
    Script("stops early", more={"plans": True}, verdict="not-verified"),
)  # fmt: skip
"""Each way of training with PyTorch (scripts/truths_models.py)."""

CALLBACKS = (
    Script("lightning callback"), Script("lightning reports"),
    Script("lightning alone", verdict="not-verified"), Script("asha"),
    Script("xgboost callback", more={"ranks": 1, "every": 2}),
    Script("xgboost callback", more={"ranks": 2, "every": 2}), Script("lightgbm callback", more={"every": 2}),
    Script("numpy", verdict="resumed"), Script("scikit-learn", verdict="resumed"),
)  # fmt: skip
"""Libraries' own callbacks, and trainings without PyTorch (scripts/truths_callbacks.py)."""

TWINS = (
    Script("asynchronous", "loads an older one"), Script("by itself", "reads an older one"),
    Script("shards", "restores on rank 0 alone"),
    Script("metadata", "begins anew and claims"), Script("all reported", "loads the best"),
    Script("several reports", "opens and forgets"), Script("only loss", "begins anew"),
    Script("steps", "skips steps", {"every": 5}), Script("broadcast", "restores on rank 0 alone"),
    Script("sharded", "initializes again"), Script("mixed", "takes a new scaler", verdict="recovered"),
    Script("averaged", "begins its mean anew"),
    Script("averaged", "begins its mean anew", {"own": True}),
    Script("averaged", "begins its mean anew", {"inside": True}),
    Script("scheduled", "forgets the optimizer's state"), Script("normalized", "begins its means anew"),
    Script("frozen", "makes another frozen part"), Script("adversarial", "begins with a new discriminator"),
    Script("lightning callback", "initializes again"), Script("lightning reports", "loads the weights alone"),
    Script("xgboost callback", "loads an older one", {"ranks": 1, "every": 2}),
    Script("lightgbm callback", "loads an older one", {"every": 2}),
    Script("xgboost callback", "begins anew", {"ranks": 1, "every": 2}), Script("numpy", "claims"),
)  # fmt: skip
"""Liars that do nearly the same as an honest script of these three."""

ALL = (*OFTEN, *HONEST, *LIARS, *WAYS, *MODELS, *CALLBACKS, *TWINS)
GROUPS = (OFTEN, *(ALL[n : n + TOGETHER] for n in range(len(OFTEN), len(ALL), TOGETHER)))
