"""A student's Lightning script for Ray Train on two GPU nodes, resuming from its checkpoint."""

import os
import time

import lightning as L
import ray.train.lightning
import ray.train.torch
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

config = {"total_epochs": 8, "batch_size": 32, "lr": 1e-3, "dropout_probability": 0.2}
scaling_config = ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"GPU": 1, "CPU": 8})


class DigitsModel(L.LightningModule):
    def __init__(self, lr, dropout_probability):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 128),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout_probability),
            torch.nn.Linear(128, 10),
        )

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        out = self(x)
        self.log("val_loss", F.cross_entropy(out, y), sync_dist=True)
        self.log("val_accuracy", (out.argmax(dim=1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def on_train_epoch_start(self):
        time.sleep(0.3)  # as if the dataset were larger


def train_func(config):
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target))
    train_set, val_set = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(1))
    trainer = L.Trainer(
        max_epochs=config["total_epochs"],
        devices="auto",
        accelerator="auto",
        strategy=ray.train.lightning.RayDDPStrategy(),
        plugins=[ray.train.lightning.RayLightningEnvironment()],
        callbacks=[
            EarlyStopping(monitor="val_loss", patience=3, mode="min"),
            ray.train.lightning.RayTrainReportCallback(),
        ],
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer = ray.train.lightning.prepare_trainer(trainer)
    batches = (
        DataLoader(train_set, batch_size=config["batch_size"], shuffle=True),
        DataLoader(val_set, batch_size=config["batch_size"]),
    )
    model = DigitsModel(config["lr"], config["dropout_probability"])
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as ckpt_dir:
            trainer.fit(model, *batches, ckpt_path=os.path.join(ckpt_dir, "checkpoint.ckpt"))
    else:
        trainer.fit(model, *batches)


run_config = RunConfig(storage_path="s3://ray", failure_config=FailureConfig(max_failures=2))
trainer = TorchTrainer(
    train_func, scaling_config=scaling_config, run_config=run_config, train_loop_config=config
)
result = trainer.fit()
print("accuracy", result.metrics["val_accuracy"])
