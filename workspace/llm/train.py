"""Train a small language model under Ray Train: from nothing, or on from a checkpoint (fine-tuning).

Without --from it begins with random weights (pre-training). With --from it begins with those of a checkpoint
and trains all of them, or with --lora-rank only a few beside them (lora.py).

The resume is exact, in the middle of an epoch too. Model, optimizer and step come from the newest checkpoint;
the order of the data (corpus.py), the learning rate and the random numbers of a step depend only on the seed,
the step and the rank. A run that lost a worker therefore ends with the same weights, bit for bit, as one that
did not (same number of ranks, on CPU).

    ray job submit --working-dir . -- python train.py --steps 200 --workers 2
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import sysconfig
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import lora
import ray
import ray.train
import ray.train.torch
import torch
from checkpoint import Saver, read_state
from corpus import Corpus, Order, read_corpus, windows
from model import SIZES, Decoder, load_model, next_byte_loss
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch import Tensor, nn

EVALUATED = 32
"""Windows of the text held out that are evaluated, always the same ones."""

WEIGHT_DECAY = 0.1
LONGEST_GRADIENT = 1.0


def learning_rate(step: int, steps: int, highest: float, warmup: int) -> float:
    """The learning rate of step `step` (from 0): up in a line, then down to a tenth along a cosine."""
    if step < warmup:
        return highest * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return highest * (0.55 + 0.45 * math.cos(math.pi * done))


def optimizer_for(model: nn.Module, config: dict[str, Any], fused: bool) -> torch.optim.Optimizer:
    """AdamW for what is trained; only matrices decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=config["lr"], betas=(0.9, 0.95), fused=fused)


def weights_sha256(weights: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the names and raw bytes of the weights: equal only if every bit is equal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def first_model(config: dict[str, Any]) -> Decoder:
    """The model that a run begins with."""
    torch.manual_seed(config["seed"])
    if not config["from"]:
        return Decoder(replace(SIZES[config["size"]], context=config["context"], dropout=config["dropout"]))
    with Checkpoint(config["from"]).as_directory() as folder:
        model = load_model(Path(folder), context=config["context"], dropout=config["dropout"])
    if config["lora_rank"]:
        lora.adapt(model, **adapter_of(config))
    return model


def adapter_of(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of `lora.adapt`."""
    return {"rank": config["lora_rank"], "alpha": config["lora_alpha"], "targets": config["lora_targets"]}


def fixed(config: dict[str, Any], corpus: Corpus) -> dict[str, Any]:
    """What must be the same when a run is resumed: it decides the bytes of a step."""
    names = ("seed", "context", "rows", "steps", "lr", "dropout")
    return {**{name: config[name] for name in names}, "text": corpus.sha256}


def check_fixed(now: dict[str, Any], then: dict[str, Any]) -> None:
    """Raise ValueError where a resumed run would not go on with what it began with."""
    changed = [f"{name} was {then[name]}, is {now[name]}" for name in now if now[name] != then[name]]
    if changed:
        raise ValueError(f"the checkpoint belongs to another run: {'; '.join(changed)}")


def mean(value: Tensor) -> float:
    """The mean of a number over the ranks."""
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        torch.distributed.all_reduce(value)
        value /= torch.distributed.get_world_size()
    return float(value)


def compiles(asked: str, gpu: bool) -> bool:
    """Tell whether the model goes through torch.compile: `asked` is on, off, or auto, which is on for GPUs.

    What that makes for a GPU is built by a C compiler with Python's headers: auto does without where they are
    missing, and says so.
    """
    if asked != "auto" or not gpu:
        return asked == "on"
    compiler = os.environ.get("CC") or any(shutil.which(name) for name in ("gcc", "clang"))
    if compiler and Path(sysconfig.get_path("include"), "Python.h").is_file():
        return True
    print("not compiled (torch.compile): there is no C compiler with Python's headers here", flush=True)
    return False


class Training:
    """One attempt of a run on one rank."""

    def __init__(self, config: dict[str, Any], rank: int, ranks: int, device: torch.device) -> None:
        self.config, self.rank, self.ranks, self.device = config, rank, ranks, device
        self.gpu = device.type == "cuda"
        corpus = read_corpus(config["text"], int(config["megabytes"] * 1_000_000))
        self.training, self.held_out = corpus.training, corpus.held_out
        self.order = Order(len(self.training), config["context"], config["rows"], config["seed"])
        self.fixed = fixed(config, corpus)
        self.step = 0
        """Steps that are done."""
        checkpoint, state = ray.train.get_checkpoint(), None
        if checkpoint is None:
            model = first_model(config)
        else:
            with checkpoint.as_directory() as folder:
                shape = {"context": config["context"], "dropout": config["dropout"]}
                model, state = load_model(Path(folder), merged=False, **shape), read_state(Path(folder))
            check_fixed(self.fixed, state["fixed"])
            self.step = state["step"]
        self.shape, self.trained = model.config, lora.trainable(model)
        if compiles(config["compile"], self.gpu):
            model.compile()
        self.model, self.module = self.spread(model)
        self.optimizer = optimizer_for(self.module, config, fused=self.gpu)
        if state is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.saver = Saver(self.shape)

    def spread(self, model: Decoder) -> tuple[nn.Module, nn.Module]:
        """The model that computes on these ranks, and the module with the parameters."""
        model.to(self.device)
        if self.ranks == 1:
            return model, model
        return nn.parallel.DistributedDataParallel(model, [self.device] if self.gpu else None), model

    def reports(self) -> bool:
        """Tell whether this rank says how far the run is, and saves it."""
        return self.rank == 0

    def train_step(self) -> Tensor:
        """Do one step; returns the loss of this rank's rows, still on the device."""
        config = self.config
        # Dropout draws from torch's global generator: step k draws the same numbers whether or not it follows
        # a resume, and each rank its own.
        torch.manual_seed(config["seed"] + 1_000_003 * self.step + self.rank)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, config["steps"], config["lr"], config["warmup"])
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.training, self.order.starts(self.step, self.rank, self.ranks))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), LONGEST_GRADIENT)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def loss(self, text: Tensor, starts: Tensor) -> Tensor:
        """Mean loss over these windows, in bf16 on a GPU."""
        tokens, targets = (
            t.to(self.device, non_blocking=True) for t in windows(text, starts, self.shape.context)
        )
        with torch.autocast("cuda", torch.bfloat16) if self.gpu else nullcontext():
            return next_byte_loss(self.model(tokens), targets)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Loss on text that is never trained on, in nats per byte."""
        self.model.eval()
        last = len(self.held_out) - self.shape.context - 1
        if last < 0:
            raise ValueError(f"the text held out has {len(self.held_out)} bytes, less than one window")
        return mean(self.loss(self.held_out, self.share(torch.linspace(0, last, EVALUATED).long())))

    def share(self, starts: Tensor) -> Tensor:
        """Those of all windows that are held out which this rank evaluates."""
        return starts[self.rank :: self.ranks]

    def save(self, metrics: dict[str, Any]) -> None:
        """Report with a checkpoint. Every rank calls it; rank 0 writes."""
        weights = self.module.state_dict()
        if self.step >= self.config["steps"]:
            metrics["weights_sha256"] = weights_sha256(weights)
        state = {
            "step": self.step,
            "optimizer": self.optimizer.state_dict(),
            "fixed": self.fixed,
            "lora": adapter_of(self.config) if self.config["lora_rank"] else None,
        }
        self.saver.save(metrics, weights, state, writes=self.reports())

    def run(self) -> None:
        """Train to the last step, with a report and a checkpoint every so many steps."""
        config, order, shape = self.config, self.order, self.shape
        if self.rank == 0:
            kind = "LoRA" if config["lora_rank"] else "fine-tuning" if config["from"] else "pre-training"
            everything = sum(p.numel() for p in self.module.parameters())
            print(
                f"{kind} after step {self.step}, on {self.ranks} rank(s): "
                f"{self.trained:,} of {everything:,} parameters are trained\n"
                f"{len(self.training):,} bytes of text, {order.steps_per_epoch:,} steps an epoch",
                flush=True,
            )
        losses: list[Tensor] = []
        began, stalled = time.perf_counter(), 0.0
        while self.step < config["steps"]:
            before, loss_of_step = self.step, self.train_step()
            if self.step == before:  # it did not count: with survivors.py a rank was lost in it
                continue
            losses.append(loss_of_step)
            last = self.step >= config["steps"]
            if not last and self.step % config["checkpoint_every"]:
                continue
            if self.gpu:  # until it has done what it was given: so that the clock means something
                torch.cuda.synchronize(self.device)
            loss = mean(torch.stack(losses).mean())
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss of step {self.step} is {loss}: nothing is saved")
            seconds = time.perf_counter() - began
            speed = len(losses) * config["rows"] * shape.context / seconds
            metrics = {
                "step": self.step,
                "loss": loss,
                "passes": order.epoch(self.step),
                "tokens_per_second": speed,
                "stalled_seconds": self.saver.stalled - stalled,
            }
            stalled = self.saver.stalled
            evaluated = last or self.step % config["evaluate_every"] == 0
            if evaluated:
                metrics["val_loss"] = self.evaluate()
            if evaluated and self.reports():
                both_losses = f"loss {loss:.4f}  val_loss {metrics['val_loss']:.4f}"
                print(f"step {self.step}/{config['steps']}  {both_losses}  {speed:,.0f} tokens/s", flush=True)
            losses, began = [], time.perf_counter()
            self.save(metrics)


def train_func(config: dict[str, Any]) -> None:
    """Train on one Ray Train worker, at the start and again after every failure."""
    torch.set_num_threads(config["threads"])
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    torch.use_deterministic_algorithms(device.type == "cpu")
    Training(config, context.get_world_rank(), context.get_world_size(), device).run()


def newest_of(name: str, storage: str) -> str:
    """The URI of a checkpoint: `name` itself, or the newest one of the run of that name."""
    if not name or "/" in name:
        return name
    newest = ray.train.Result.from_path(f"{storage}/{name}").checkpoint
    if newest is None:
        raise SystemExit(
            f"--from {name}: that run has no checkpoint; labctl jobs checkpoints JOB lists those of a job"
        )
    return f"{storage}/{name}/{Path(newest.path).name}"


def settings(recipe: str = "recipe.json") -> argparse.ArgumentParser:
    """The command line: the parameters of a recipe, a file beside this one."""
    document = json.loads(Path(__file__).with_name(recipe).read_text())
    parser = argparse.ArgumentParser(description=document["summary"])
    for name, p in document["parameters"].items():
        kind = {"str": str, "int": int, "float": float}[p["type"]]
        parser.add_argument(f"--{name}", type=kind, default=p["default"], help=p["help"].replace("%", "%%"))
    parser.set_defaults(storage=os.environ.get("RAYLAB_STORAGE", "s3://ray"))
    return parser


def trainer(
    args: argparse.Namespace,
    name: str | None,
    loop: Callable[[dict[str, Any]], None] = train_func,
    backend: TorchConfig | None = None,
    spread: bool = False,
    **run: Any,
) -> TorchTrainer:
    """The run of these settings. Each worker calls `loop`; `run` are further settings of Ray's RunConfig.

    With `spread` the workers are on as many nodes as possible, else on as few.
    """
    gpus = args.gpus
    if gpus is None:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= args.workers else 0
    only_here = {"workers", "cpus", "gpus", "storage", "max_failures", "keep"}
    config = {k: v for k, v in vars(args).items() if k not in only_here}
    config["rows"] = args.batch_size * args.workers
    config["lora_targets"] = args.lora_targets.split(",")
    return TorchTrainer(
        loop,
        train_loop_config=config,
        torch_config=backend,
        scaling_config=ScalingConfig(
            num_workers=args.workers,
            use_gpu=bool(gpus),
            resources_per_worker={"CPU": args.cpus, **({"GPU": gpus} if gpus else {})},
            placement_strategy="SPREAD" if spread else "PACK",
        ),
        run_config=RunConfig(
            name=name,
            storage_path=args.storage,
            checkpoint_config=CheckpointConfig(num_to_keep=args.keep),
            failure_config=FailureConfig(max_failures=args.max_failures),
            **run,
        ),
    )


def main(loop: Callable[[dict[str, Any]], None] = train_func, **way: Any) -> None:
    """The command line. Each worker calls `loop`; `way` are further arguments of `trainer`."""
    args = settings().parse_args()
    if args.lora_rank and not vars(args)["from"]:
        raise SystemExit("--lora-rank: LoRA adapts a trained model: name its checkpoint with --from")
    ray.init()
    vars(args)["from"] = newest_of(vars(args)["from"], args.storage)
    metrics = trainer(args, os.environ.get("RAYLAB_RUN_NAME"), loop, **way).fit().metrics or {}
    print(f"done: step {metrics.get('step')}, val_loss {metrics.get('val_loss', math.nan):.4f}")


if __name__ == "__main__":
    main()
