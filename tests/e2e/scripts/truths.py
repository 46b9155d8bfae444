"""Trains a tiny model with one of many libraries, honestly or not, and writes down the truth for no judge.

    python truths.py '{"library": "ddp", "does": "honest", "ranks": 2, "epochs": 14}'

The truth is how many epochs have really been trained into what a rank trains on: a number that is a part of
the model. It goes into a file below $TRUTHS, with the epoch that the rank says it does first; training begins
once $TRUTHS/start is there (truths_notes.py). What `does` can be stands in `begin`. Libraries that the lab
lacks are looked for in the folders of $TRUTHS_LIBRARIES.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
import truths_notes
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.collective import broadcast_from_rank_zero
from truths_frameworks import train_lightning, train_transformers
from truths_notes import EPOCH_SECONDS, TRUTHS, last_said, search, tell


class Model:
    """What a rank trains. A new one knows nothing."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.context = ray.train.get_context()
        self.rank = self.context.get_world_rank()

    def trained(self) -> int:
        """Epochs that are in it."""
        raise NotImplementedError

    def epoch(self) -> None:
        """Train one."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write it, on rank 0; all ranks call it."""
        raise NotImplementedError

    def load(self, folder: Path) -> None:
        """Take what was written."""
        raise NotImplementedError


class TorchModel(Model):
    """A network and its optimizer: `torch` (each rank its own), `ddp`, `fsdp`, `data` (of Ray Data)."""

    def __init__(self, config: dict[str, Any]) -> None:
        import torch

        super().__init__(config)
        self.torch = torch
        torch.manual_seed(0 if config.get("seeded", True) else os.getpid())
        self.net: Any = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.net.register_buffer("epochs", torch.zeros((), dtype=torch.long))
        self.whole = self.net
        if config["library"] == "fsdp":
            from torch.distributed.fsdp import fully_shard

            fully_shard(self.net)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)

    def start(self) -> None:
        """Once the state is there: DDP gives all ranks that of rank 0."""
        if self.config["library"] in ("ddp", "elastic") and self.context.get_world_size() > 1:
            self.whole = self.torch.nn.parallel.DistributedDataParallel(self.net)

    def trained(self) -> int:
        return int(self.net.get_buffer("epochs"))

    def epoch(self) -> None:
        for x in self.batches():
            self.optimizer.zero_grad()
            self.whole(x).square().mean().backward()
            self.optimizer.step()
        self.net.get_buffer("epochs").add_(1)

    def batches(self) -> Any:
        if self.config["library"] == "data":
            shard = ray.train.get_dataset_shard("train")
            columns = [f"x{n}" for n in range(8)]
            for batch in shard.iter_torch_batches(batch_size=8):
                yield self.torch.stack([batch[c].float() for c in columns], dim=1)
            return
        for number in range(4):
            yield self.torch.randn(8, 8, generator=self.torch.Generator().manual_seed(number))

    def state(self) -> Any:
        if self.config["library"] != "fsdp":
            return {"model": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        model, optimizer = get_state_dict(self.net, self.optimizer, options=options)
        return {"model": model, "optimizer": optimizer}

    def save(self, folder: Path) -> None:
        state = self.state()
        if self.rank == 0:
            self.torch.save(state, folder / "state.pt")

    def load(self, folder: Path) -> None:
        state = self.torch.load(folder / "state.pt")
        if self.config["library"] != "fsdp":
            self.net.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            return
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        set_state_dict(
            self.net, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )  # fmt: skip

    def share(self) -> None:
        """Give all ranks the state of rank 0."""
        given = [self.state()]
        self.torch.distributed.broadcast_object_list(given, src=0)
        self.net.load_state_dict(given[0]["model"])
        self.optimizer.load_state_dict(given[0]["optimizer"])


class Boosted(Model):
    """A tree an epoch: `xgboost` or `lightgbm`."""

    def __init__(self, config: dict[str, Any]) -> None:
        import numpy as np

        super().__init__(config)
        random = np.random.default_rng(0)
        self.file = "model.json" if config["library"] == "xgboost" else "model.txt"
        self.x, self.y, self.booster = random.normal(size=(64, 4)), random.normal(size=64), None

    def trained(self) -> int:
        if self.booster is None:
            return 0
        xgboost = self.config["library"] == "xgboost"
        return int(self.booster.num_boosted_rounds() if xgboost else self.booster.num_trees())

    def epoch(self) -> None:
        if self.config["library"] == "xgboost":
            import xgboost

            data = xgboost.DMatrix(self.x, self.y)
            self.booster = xgboost.train(
                {"max_depth": 2}, data, 1, xgb_model=self.booster, verbose_eval=False
            )
        else:
            import lightgbm

            data = lightgbm.Dataset(self.x, self.y)
            options = {"verbose": -1, "min_data_in_leaf": 2}
            self.booster = lightgbm.train(options, data, 1, init_model=self.booster)

    def save(self, folder: Path) -> None:
        if self.rank == 0 and self.booster is not None:
            self.booster.save_model(str(folder / self.file))

    def load(self, folder: Path) -> None:
        if self.config["library"] == "xgboost":
            import xgboost

            self.booster = xgboost.Booster(model_file=str(folder / self.file))
        else:
            import lightgbm

            self.booster = lightgbm.Booster(model_file=str(folder / self.file))


def model_of(config: dict[str, Any]) -> Model:
    """A new model."""
    return Boosted(config) if config["library"] in ("xgboost", "lightgbm") else TorchModel(config)


def begin(model: Model, config: dict[str, Any]) -> int:
    """The epoch to say first; the model then has what the script gives it, by what it `does`."""
    does, rank = config["does"], model.rank
    if does.startswith("rank 1 "):
        does = does.removeprefix("rank 1 ") if rank else "honest"
    if does in ("begins anew", "claims", "goes on from a local file"):
        if does == "goes on from a local file" and (TRUTHS / "own").exists():
            model.load(TRUTHS / "own")
        return 1 if does == "begins anew" else last_said() + 1
    checkpoint = ray.train.get_checkpoint() or config.get("given")
    if does in ("loads an older one", "loads an older one and claims"):
        known = [entry.checkpoint for entry in ray.train.get_all_reported_checkpoints()]
        checkpoint = known[-3] if checkpoint is not None and len(known) > 2 else checkpoint
    if checkpoint is None:
        return 1
    if does in ("asks and claims", "claims a neighbour's memory"):
        return last_said() + 1
    shares = config.get("shares") and isinstance(model, TorchModel)
    first = 1
    if not shares or rank == 0:
        with checkpoint.as_directory() as folder:
            first = json.loads((Path(folder) / "epoch.json").read_text()) + 1
            if does not in ("opens and forgets", "opens and begins anew"):
                model.load(Path(folder))
    if shares:
        model.share()  # type: ignore[attr-defined]
        first = model.trained() + 1
    if does in ("opens and begins anew", "loads weights and begins anew"):
        return 1
    if does == "loads an older one and claims":
        return last_said() + 1
    return max(1, first - 4) if does == "does epochs again" else first


def train_func(config: dict[str, Any]) -> None:
    """Train on one rank."""
    model = model_of(config)
    first = begin(model, config)
    if isinstance(model, TorchModel):
        model.start()
    truths_notes.begin(model.rank, model.trained(), first, elsewhere=(TRUTHS / "own").exists())
    memory = {"resumed_from": "memory of rank 7", "resumed_step": first - 1}
    more = memory if config["does"] == "claims a neighbour's memory" and first > 1 else {}
    epoch = last = first
    while epoch <= last:
        time.sleep(EPOCH_SECONDS)
        model.epoch()
        if epoch == first:  # and not before: one that loads nothing is ahead of the others until then
            last = first + epochs_left(model, config, first) - 1
        metrics = {"epoch": epoch, **more} if config.get("tells", True) or model.rank == 0 else {"rank": 1}
        report(model, config, epoch, metrics)
        if model.rank == 0:
            tell("reported", says=epoch, state=model.trained())
        epoch += 1


def epochs_left(model: Model, config: dict[str, Any], first: int) -> int:
    """Epochs that all ranks do, as many as rank 0 has left: with another number they would wait for ever."""
    mine = config["epochs"] + 1 - first
    return mine if model.context.get_world_size() == 1 else int(broadcast_from_rank_zero(mine))


def report(model: Model, config: dict[str, Any], epoch: int, metrics: dict[str, Any]) -> None:
    """Report, with a checkpoint after every so many epochs."""
    saves = epoch % config.get("every", 1) == 0
    name = {"checkpoint_dir_name": f"checkpoint_epoch_{epoch}"} if config.get("named") else {}
    if config["does"] == "goes on from a local file":
        (TRUTHS / "own").mkdir(exist_ok=True)
        model.save(TRUTHS / "own")
    with tempfile.TemporaryDirectory() as folder:
        if saves:
            model.save(Path(folder))
        if saves and model.rank == 0:
            (Path(folder) / "epoch.json").write_text(json.dumps(epoch))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder), **name)
        else:
            ray.train.report(metrics, **(name if saves else {}))


def fit(config: dict[str, Any], name: str | None = None) -> Any:
    """Train with Ray Train."""
    from ray.train.torch import TorchTrainer
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    library, ranks = config["library"], config.get("ranks", 1)
    function = {"lightning": train_lightning, "transformers": train_transformers}.get(library, train_func)
    data: dict[str, Any] = {}
    if library == "data":
        items = [{f"x{n}": float(row + n) for n in range(8)} for row in range(32)]
        data = {"datasets": {"train": ray.data.from_items(items)}}
    trainer = DataParallelTrainer if library in ("xgboost", "lightgbm") else TorchTrainer
    return trainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=(1, ranks) if library == "elastic" else ranks),
        run_config=RunConfig(
            name=name, storage_path="s3://ray", failure_config=FailureConfig(max_failures=3)
        ),
        **data,
    ).fit()


def tuned(config: dict[str, Any]) -> None:
    """Train in a trial of Ray Tune."""
    from ray import tune

    def trial(options: dict[str, Any]) -> None:
        fit({**config, "library": "ddp"}, f"trial-{options['seed']}-{TRUTHS.parent.name}-{TRUTHS.name}")

    search(trial, {"seed": tune.grid_search([1])})


def population(config: dict[str, Any]) -> None:
    """Train two trials by halves, with Tune's PBT: between them the worse one takes the other's weights."""
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining

    half = config["epochs"] // 2

    def trial(options: dict[str, Any]) -> None:
        given = tune.get_checkpoint()
        for part in range(1 if given else 0, 2):
            epochs = {"epochs": half * (part + 1), "given": given}
            who = f"pbt-{tune.get_context().get_trial_id()}-{part}-{TRUTHS.parent.name}-{TRUTHS.name}"
            given = fit({**config, "library": "ddp", **epochs}, who).checkpoint
            tune.report({"part": part + 1, "score": options["score"]}, checkpoint=given)

    scheduler = PopulationBasedTraining(
        time_attr="part", metric="score", mode="max", perturbation_interval=1, quantile_fraction=0.5,
        hyperparam_mutations={"score": [1, 2]}, synch=True,
    )  # fmt: skip
    search(trial, {"score": tune.grid_search([1, 2])}, scheduler)


def others() -> dict[str, Any]:
    """The scripts of the modules beside this one."""
    import truths_callbacks
    import truths_models
    import truths_reports

    return truths_callbacks.SCRIPTS | truths_models.SCRIPTS | truths_reports.SCRIPTS


if __name__ == "__main__":
    configuration = json.loads(sys.argv[1])
    own = {"tune": tuned, "pbt": population}
    (others() | own).get(configuration["library"], fit)(configuration)
