"""Trains a tiny model with one of many libraries, honestly or not, and writes down the truth for no judge.

    python truths.py '{"library": "ddp", "does": "honest", "ranks": 2, "epochs": 14}'

The truth is how many epochs have really been trained into what a rank trains on: a number that is a part of
the model. It goes into a file below $TRUTHS, with the epoch that the rank says it does first. What `does` can
be stands in `begin`.
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
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig

TRUTHS = Path(os.environ.get("TRUTHS", "/nowhere"))
EPOCH_SECONDS = 0.25


def tell(kind: str, **values: Any) -> None:
    """Write a line of truth."""
    with (TRUTHS / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps({"kind": kind, "at": time.time(), **values}) + "\n")


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
            self.booster.save_model(str(folder / "model.json"))

    def load(self, folder: Path) -> None:
        if self.config["library"] == "xgboost":
            import xgboost

            self.booster = xgboost.Booster(model_file=str(folder / "model.json"))
        else:
            import lightgbm

            self.booster = lightgbm.Booster(model_file=str(folder / "model.json"))


def model_of(config: dict[str, Any]) -> Model:
    """A new model."""
    return Boosted(config) if config["library"] in ("xgboost", "lightgbm") else TorchModel(config)


def last_said() -> int:
    """The last epoch that any rank said it had done, from a file of the script's own."""
    lines = [json.loads(line) for file in TRUTHS.glob("*.jsonl") for line in file.read_text().splitlines()]
    return max((line["says"] for line in lines if line["kind"] == "reported"), default=0)


def begin(model: Model, config: dict[str, Any]) -> int:
    """The epoch to say first; the model then has what the script gives it, by what it `does`."""
    does, rank = config["does"], model.rank
    if does.startswith("rank 1 "):
        does = does.removeprefix("rank 1 ") if rank else "honest"
    if does in ("begins anew", "claims", "goes on from a local file"):
        if does == "goes on from a local file" and (TRUTHS / "own").exists():
            model.load(TRUTHS / "own")
        return 1 if does == "begins anew" else last_said() + 1
    checkpoint = ray.train.get_checkpoint()
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
    tell("began", rank=model.rank, state=model.trained(), says=first)
    memory = {"resumed_from": "memory of rank 7", "resumed_step": first - 1}
    more = memory if config["does"] == "claims a neighbour's memory" and first > 1 else {}
    for epoch in range(first, config["epochs"] + 1):
        time.sleep(EPOCH_SECONDS)
        model.epoch()
        metrics = {"epoch": epoch, **more} if config.get("tells", True) or model.rank == 0 else {"rank": 1}
        report(model, config, epoch, metrics)
        if model.rank == 0:
            tell("reported", says=epoch, state=model.trained())


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


def train_lightning(config: dict[str, Any]) -> None:
    """The same with a LightningModule."""
    import pytorch_lightning as pl
    import torch
    from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)
            self.register_buffer("epochs", torch.zeros((), dtype=torch.long))

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    class Reports(pl.Callback):
        def on_train_start(self, trainer: Any, net: Any) -> None:
            self.rank = ray.train.get_context().get_world_rank()
            tell("began", rank=self.rank, state=int(net.epochs), says=trainer.current_epoch + 1 + ahead)

        def on_train_epoch_end(self, trainer: Any, net: Any) -> None:
            time.sleep(EPOCH_SECONDS)
            net.epochs.add_(1)
            epoch = trainer.current_epoch + 1 + ahead
            with tempfile.TemporaryDirectory() as folder:
                trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))
                checkpoint = Checkpoint.from_directory(folder) if self.rank == 0 else None
                ray.train.report({"epoch": epoch}, checkpoint=checkpoint)
            if self.rank == 0:
                tell("reported", says=epoch, state=int(net.epochs))

    pl.seed_everything(0, verbose=False)
    does, ahead = config["does"], 0
    checkpoint = None if does in ("begins anew", "claims") else ray.train.get_checkpoint()
    if does == "claims":
        ahead = last_said()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 8)), batch_size=8)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=config["epochs"] - ahead, accelerator="cpu", strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()], callbacks=[Reports()], enable_checkpointing=False, **quiet,
        )
    )  # fmt: skip
    if checkpoint is None:
        trainer.fit(Net(), data)
        return
    with checkpoint.as_directory() as folder:
        path = os.path.join(folder, "last.ckpt")
        if does == "opens and forgets":
            ahead = torch.load(path, weights_only=False)["epoch"]
            trainer.fit_loop.max_epochs = config["epochs"] - ahead
            trainer.fit(Net(), data)
        else:
            trainer.fit(Net(), data, ckpt_path=path, weights_only=False)


def train_transformers(config: dict[str, Any]) -> None:
    """The same with Hugging Face's Trainer."""
    import shutil

    import torch
    from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)
            self.register_buffer("epochs", torch.zeros((), dtype=torch.long))

        def forward(self, x: Any, labels: Any = None) -> Any:
            return {"loss": (self.layer(x) - labels).square().mean()}

    class Tells(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            tell("began", rank=0, state=int(model.epochs), says=round(state.epoch or 0) + 1)

        def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            time.sleep(EPOCH_SECONDS)
            model.epochs.add_(1)
            tell("reported", says=round(state.epoch), state=int(model.epochs))

    rows = [{"x": torch.randn(8), "labels": torch.zeros(1)} for _ in range(16)]
    folder = tempfile.mkdtemp()
    arguments = TrainingArguments(
        folder, num_train_epochs=config["epochs"], save_strategy="epoch", logging_strategy="epoch",
        per_device_train_batch_size=8, use_cpu=True, disable_tqdm=True, save_total_limit=2, report_to=[],
    )  # fmt: skip
    trainer = Trainer(Net(), arguments, train_dataset=rows, callbacks=[Tells(), RayTrainReportCallback()])
    trainer = prepare_trainer(trainer)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        trainer.train()
        return
    with checkpoint.as_directory() as given:
        last = Path(folder) / RayTrainReportCallback.CHECKPOINT_NAME
        shutil.copytree(Path(given) / RayTrainReportCallback.CHECKPOINT_NAME, last)
    trainer.train(resume_from_checkpoint=str(last))


def fit(config: dict[str, Any], name: str | None = None) -> None:
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
    trainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=(1, ranks) if library == "elastic" else ranks),
        run_config=RunConfig(
            name=name, storage_path="s3://ray", failure_config=FailureConfig(max_failures=3)
        ),
        **data,
    ).fit()


def main() -> None:
    config = json.loads(sys.argv[1])
    if config["library"] != "tune":
        fit(config)
        return
    from ray import tune

    def trial(options: dict[str, Any]) -> None:
        fit({**config, "library": "ddp"}, f"trial-{options['seed']}-{os.environ.get('RUN', '0')}")

    space = {"seed": tune.grid_search([1])}
    tune.Tuner(tune.with_resources(trial, {"CPU": 0}), param_space=space).fit()


if __name__ == "__main__":
    main()
