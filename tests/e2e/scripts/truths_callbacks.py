"""Scripts of truths.py with a library's callback, or without PyTorch. See truths_reports.py."""

from __future__ import annotations

import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray.train
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from truths_notes import EPOCH_SECONDS, TRUTHS, Notes, begin, last_said, of_this_job, rank, run, search, tell


def lightning(config: dict[str, Any]) -> None:
    """Lightning: Ray's callback reports, or one of the script, or nobody: its own ModelCheckpoint is all."""
    import pytorch_lightning as pl
    import torch
    from ray.train.lightning import (
        RayDDPStrategy,
        RayLightningEnvironment,
        RayTrainReportCallback,
        prepare_trainer,
    )

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

        def training_step(self, batch: Any, index: int) -> Any:
            loss = torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]

    class Tells(pl.Callback):
        """Writes the truth, before the report of an epoch or after it."""

        def __init__(self, *, before: bool) -> None:
            self.before = before

        def on_train_start(self, trainer: Any, net: Any) -> None:
            if self.before and given and does == "initializes again":
                net.layers[0].reset_parameters()
            if self.before:
                notes.begin(trainer.current_epoch)

        def on_train_epoch_end(self, trainer: Any, net: Any) -> None:
            (notes.keep if self.before else notes.reported)(trainer.current_epoch)

    class Reports(pl.Callback):
        def on_train_epoch_end(self, trainer: Any, net: Any) -> None:
            metrics = {
                "epoch": trainer.current_epoch,
                "val_loss": float(trainer.callback_metrics["val_loss"]),
            }
            with tempfile.TemporaryDirectory() as folder:
                trainer.save_checkpoint(Path(folder) / RayTrainReportCallback.CHECKPOINT_NAME)
                checkpoint = Checkpoint.from_directory(folder) if rank() == 0 else None
                ray.train.report(metrics, checkpoint=checkpoint)

    class Says(pl.Callback):
        def on_train_epoch_end(self, trainer: Any, net: Any) -> None:
            ray.train.report({"epoch": trainer.current_epoch})

    pl.seed_everything(0, verbose=False)
    kind, does, net, folder = config["library"], config["does"], Net(), str(TRUTHS / "lightning")
    notes, given = Notes(net), None
    saves = pl.callbacks.ModelCheckpoint(folder, monitor="val_loss", save_last=True, save_top_k=2)
    mine = {
        "lightning callback": lambda: [
            RayTrainReportCallback(checkpoint_upload_mode=CheckpointUploadMode.SYNC)
        ],
        "lightning reports": lambda: [saves, Reports()],
        "lightning alone": lambda: [saves, Says()],
    }[kind]()
    from truths_pieces import batches

    rows = torch.utils.data.TensorDataset(*(torch.cat(part) for part in zip(*batches(), strict=True)))
    loader = torch.utils.data.DataLoader(rows, batch_size=8)
    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=config["epochs"], accelerator="cpu", devices="auto", strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()], logger=False, enable_progress_bar=False,
            callbacks=[Tells(before=True), *mine, Tells(before=False)], enable_model_summary=False,
            enable_checkpointing=saves in mine, num_sanity_val_steps=0,
        )
    )  # fmt: skip
    if kind == "lightning alone":
        given = next((str(file) for file in Path(folder).glob("last.ckpt")), None)
    elif checkpoint := ray.train.get_checkpoint():
        copy = checkpoint.to_directory(tempfile.mkdtemp())
        given = str(Path(copy) / RayTrainReportCallback.CHECKPOINT_NAME)
    if given and does == "loads the weights alone":
        net.load_state_dict(torch.load(given, weights_only=False)["state_dict"])
        given = None
    trainer.fit(net, loader, loader, ckpt_path=given, weights_only=False)


def older(count: int) -> Any:
    """The checkpoint so many before the newest one, if there are as many."""
    known = ray.train.get_all_reported_checkpoints()
    return known[-1 - count].checkpoint if len(known) > count else None


def checkpoint_for(does: str) -> Any:
    """Return the checkpoint that a booster goes on from: Ray's, or that of a liar; None for none."""
    if does == "loads an older one":
        return older(3)
    return None if does == "begins anew" else ray.train.get_checkpoint()


def rounds_of_xgboost(config: dict[str, Any]) -> None:
    """XGBoost with Ray's callback, which saves every other round."""
    import xgboost
    from ray.train.xgboost import RayTrainReportCallback

    class Tells(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        def __init__(self, *, before: bool) -> None:
            self.before = before

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            tell_round(model.num_boosted_rounds(), before=self.before)
            return False

    does, booster, random = config["does"], None, np.random.default_rng(rank())
    if checkpoint := checkpoint_for(does):
        booster = RayTrainReportCallback.get_model(checkpoint)
    done = booster.num_boosted_rounds() if booster else 0
    begin(rank(), done, done + 1)
    data = xgboost.DMatrix(random.normal(size=(64, 4)), random.normal(size=64))
    reports = RayTrainReportCallback(
        metrics={"rmse": "train-rmse"}, frequency=config["every"], checkpoint_at_end=True
    )
    xgboost.train(
        {"max_depth": 2}, data, config["epochs"] - done, xgb_model=booster, evals=[(data, "train")],
        verbose_eval=False, callbacks=[Tells(before=True), reports, Tells(before=False)],
    )  # fmt: skip


def rounds_of_lightgbm(config: dict[str, Any]) -> None:
    """LightGBM with Ray's callback, which saves every other round."""
    import lightgbm
    from ray.train.lightgbm import RayTrainReportCallback

    def tells(env: Any) -> None:
        tell_round(env.model.num_trees(), before=True)

    def reported(env: Any) -> None:
        tell_round(env.model.num_trees(), before=False)

    tells.order, reported.order = 1, 50  # type: ignore[attr-defined]
    does, booster, random = config["does"], None, np.random.default_rng(0)
    if checkpoint := checkpoint_for(does):
        booster = RayTrainReportCallback.get_model(checkpoint)
    done = booster.num_trees() if booster else 0
    begin(rank(), done, done + 1)
    data = lightgbm.Dataset(random.normal(size=(64, 4)), random.normal(size=64))
    reports = RayTrainReportCallback(frequency=config["every"])
    lightgbm.train(
        {"verbose": -1, "min_data_in_leaf": 2}, data, config["epochs"] - done, init_model=booster,
        valid_sets=[data], valid_names=["train"], callbacks=[tells, reports, reported],
    )  # fmt: skip


def tell_round(rounds: int, *, before: bool) -> None:
    """Write down that so many rounds were reported, or wait as long as an epoch takes before it."""
    if before:
        time.sleep(EPOCH_SECONDS)
    elif rank() == 0:
        tell("reported", says=rounds, state=rounds)


def without_torch(config: dict[str, Any]) -> None:
    """scikit-learn's partial_fit, or gradients by NumPy."""
    random, learner = np.random.default_rng(0), None
    x = random.normal(size=(64, 4))
    y = x.sum(axis=1)
    weights = np.zeros(4)
    if config["library"] == "scikit-learn":
        from sklearn.linear_model import SGDRegressor

        learner = SGDRegressor(random_state=0).partial_fit(x[:8], y[:8])
    first = 1
    if config["does"] == "claims":
        first = last_said() + 1
    elif checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            first, learner, weights = pickle.loads((Path(folder) / "state.pkl").read_bytes())
        first += 1
    notes = Notes(lambda: weights.tobytes() + (learner.coef_.tobytes() if learner else b""))
    notes.begin(first)
    for epoch in range(first, config["epochs"] + 1):
        if learner:
            learner.partial_fit(x, y)
        else:
            weights = weights - 0.01 * x.T @ (x @ weights - y) / len(y)
        notes.keep(epoch)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "state.pkl").write_bytes(pickle.dumps((epoch, learner, weights)))
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))
        notes.reported(epoch)


def halved(config: dict[str, Any]) -> None:
    """Tune's ASHA over two trials, one of which it ends. Ray's callback tells them of their runs."""
    from ray import tune
    from ray.tune.integration.ray_train import TuneReportCallback
    from ray.tune.schedulers import ASHAScheduler
    from truths_reports import trained

    def trial(options: dict[str, Any]) -> None:
        settings = {"name": of_this_job(f"asha-{options['seed']}"), "callbacks": [TuneReportCallback()]}
        run(trained, config, settings=settings)

    epochs = config["epochs"]
    scheduler = ASHAScheduler(
        time_attr="epoch", metric="loss", mode="min", max_t=epochs + 1, grace_period=epochs // 2,
        reduction_factor=2,
    )  # fmt: skip
    search(trial, {"seed": tune.grid_search([1, 2])}, scheduler)


def xgboost_trainer() -> Any:
    """Ray's trainer for XGBoost."""
    from ray.train.xgboost import XGBoostTrainer

    return XGBoostTrainer


SCRIPTS = {
    "lightning callback": lambda c: run(lightning, c, workers=2),
    "lightning reports": lambda c: run(lightning, c),
    "lightning alone": lambda c: run(lightning, c),
    "xgboost callback": lambda c: run(rounds_of_xgboost, c, xgboost_trainer(), workers=c["ranks"]),
    "lightgbm callback": lambda c: run(rounds_of_lightgbm, c, DataParallelTrainer),
    "numpy": lambda c: run(without_torch, c, DataParallelTrainer),
    "scikit-learn": lambda c: run(without_torch, c, DataParallelTrainer),
    "asha": halved,
}
"""Name -> what runs it."""
