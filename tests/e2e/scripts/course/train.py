"""A student's Lightning script for one GPU. It knows nothing of Ray."""

import os

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

config = {"total_epochs": 3, "batch_size": 32, "lr": 1e-3, "dropout_probability": 0.2}


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
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        out = self(x)
        self.log("val_loss", F.cross_entropy(out, y))
        self.log("val_accuracy", (out.argmax(dim=1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


digits = load_digits()
data = TensorDataset(torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target))
train_set, val_set = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(1))

trainer = L.Trainer(
    max_epochs=config["total_epochs"],
    accelerator="gpu",
    devices="auto",
    callbacks=[
        ModelCheckpoint(dirpath="checkpoints/", monitor="val_loss", mode="min"),
        EarlyStopping(monitor="val_loss", patience=3, mode="min"),
    ],
    enable_progress_bar=False,
)
trainer.fit(
    DigitsModel(config["lr"], config["dropout_probability"]),
    DataLoader(train_set, batch_size=config["batch_size"], shuffle=True),
    DataLoader(val_set, batch_size=config["batch_size"]),
)
print("data:", os.environ["FOOD11_DATA_DIR"])
print(
    "finished after epoch", trainer.current_epoch, "accuracy", trainer.callback_metrics["val_accuracy"].item()
)
