"""Training functions of truths.py for libraries with loops of their own: Lightning, Hugging Face."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import ray.train
from ray.train import Checkpoint
from truths_notes import EPOCH_SECONDS, begin, last_said, tell


def train_lightning(config: dict[str, Any]) -> None:
    """Train a LightningModule on one rank."""
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
            begin(self.rank, int(net.epochs), trainer.current_epoch + 1 + ahead)

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
    """Train with Hugging Face's Trainer, on one rank."""
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
            if does == "opens and forgets":
                model.load_state_dict(untrained)
            begin(0, int(model.epochs), round(state.epoch or 0) + 1)

        def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            time.sleep(EPOCH_SECONDS)
            model.epochs.add_(1)

        def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            tell("reported", says=round(state.epoch), state=int(model.epochs))

    torch.manual_seed(0)
    does, net, folder = config["does"], Net(), tempfile.mkdtemp()
    untrained = {name: value.clone() for name, value in net.state_dict().items()}
    rows = [{"x": torch.randn(8), "labels": torch.zeros(1)} for _ in range(16)]
    arguments = TrainingArguments(
        folder, num_train_epochs=config["epochs"], save_strategy="epoch", logging_strategy="epoch",
        per_device_train_batch_size=8, use_cpu=True, disable_tqdm=True, save_total_limit=2, report_to=[],
    )  # fmt: skip
    trainer = Trainer(net, arguments, train_dataset=rows, callbacks=[RayTrainReportCallback(), Tells()])
    trainer = prepare_trainer(trainer)
    checkpoint = None if does == "begins anew" else ray.train.get_checkpoint()
    if checkpoint is None:
        trainer.train()
        return
    last = Path(folder) / RayTrainReportCallback.CHECKPOINT_NAME
    with checkpoint.as_directory() as given:
        shutil.copytree(Path(given) / RayTrainReportCallback.CHECKPOINT_NAME, last)
    trainer.train(resume_from_checkpoint=str(last))
