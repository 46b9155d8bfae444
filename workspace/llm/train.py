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
import math
import os
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
from sharding import gathered, parallel, shard_state
from speed import compiles, peak, wait
from torch import Tensor, nn

EVALUATED = 32
"""Windows of the text held out that are evaluated, always the same ones."""


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
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config["weight_decay"]},
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


def highest(value: float) -> float:
    """The highest of a number over the ranks: those that share a machine measure it worse than it is."""
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        tensor = torch.tensor(value, dtype=torch.float64)
        torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX)
        return float(tensor)
    return value


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
            shard_state(self.optimizer)
        self.saver = Saver(self.shape)

    def spread(self, model: Decoder) -> tuple[nn.Module, nn.Module]:
        """The model that computes on these ranks, and the module with the parameters."""
        return parallel(model, self.config["parallel"], self.ranks, self.device)

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
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), config["clip"])
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
        last = self.step >= self.config["steps"]
        weights = gathered(self.module.state_dict()) if last else {}
        if last:
            metrics["weights_sha256"] = weights_sha256(weights)
        self.saver.save(
            metrics,
            weights=lambda: weights or gathered(self.module.state_dict()),
            state=lambda: {
                "step": self.step,
                "optimizer": gathered(self.optimizer.state_dict()),
                "fixed": self.fixed,
                "lora": adapter_of(self.config) if self.config["lora_rank"] else None,
            },
            writes=self.reports(),
        )

    def run(self) -> None:
        """Train to the last step, with a report and a checkpoint every so many steps."""
        config, order, shape = self.config, self.order, self.shape
        best, where = peak(self.device)
        best = best if self.gpu else highest(best)
        if self.rank == 0:
            kind = "LoRA" if config["lora_rank"] else "fine-tuning" if config["from"] else "pre-training"
            everything = sum(p.numel() for p in self.module.parameters())
            print(
                f"{kind} after step {self.step}, on {self.ranks} rank(s): "
                f"{self.trained:,} of {everything:,} parameters are trained\n"
                f"{len(self.training):,} bytes of text, {order.steps_per_epoch:,} steps an epoch; "
                f"peak of a rank {best / 1e12:.3g} TFLOP/s ({where})",
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
            wait(self.device)
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
                "mfu": speed * shape.flops_per_token(shape.context) / (best * self.ranks),
                "stalled_seconds": self.saver.stalled - stalled,
            }
            stalled = self.saver.stalled
            evaluated = last or self.step % config["evaluate_every"] == 0
            if evaluated:
                metrics["val_loss"] = self.evaluate()
            if evaluated and self.reports():
                both_losses = f"loss {loss:.4f}  val_loss {metrics['val_loss']:.4f}"
                pace = f"{speed:,.0f} tokens/s  MFU {100 * metrics['mfu']:.0f} %"
                print(f"step {self.step}/{config['steps']}  {both_losses}  {pace}", flush=True)
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


def settings() -> argparse.ArgumentParser:
    """The settings of a run; those of a search too."""
    parser = argparse.ArgumentParser(description="Train a small language model on a Ray cluster.")
    parser.add_argument("--size", choices=SIZES, default="0.8m", help="parameters of the model")
    parser.add_argument("--text", default="all", help="code, prose, all, or a folder")
    parser.add_argument("--megabytes", type=float, default=8, help="MB of text to read; 0: all")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--workers", type=int, default=1, help="Ray Train workers (ranks)")
    parser.add_argument("--cpus", type=float, default=1, help="logical CPUs per worker")
    parser.add_argument("--gpus", type=float, default=None, help="GPUs per worker (default: 1 if enough)")
    parser.add_argument("--batch-size", type=int, default=8, help="rows per step and worker")
    parser.add_argument("--context", type=int, default=256, help="bytes of a row")
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--warmup", type=int, default=50, help="steps until it is reached")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0, help="longest gradient")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps")
    parser.add_argument("--evaluate-every", type=int, default=100, help="steps, a multiple of the former")
    parser.add_argument("--keep", type=int, default=3, help="number of newest checkpoints to keep")
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--compile", choices=("auto", "on", "off"), default="auto", help="auto: on a GPU")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch per worker")
    parser.add_argument("--from", default="", help="checkpoint or run to fine-tune")
    parser.add_argument("--lora-rank", type=int, default=0, help="0: train all parameters")
    parser.add_argument("--lora-alpha", type=float, default=16)
    parser.add_argument("--lora-targets", default=",".join(lora.TARGETS), help="layers, with commas between")
    parser.add_argument(
        "--storage", default=os.environ.get("RAYLAB_STORAGE", "s3://ray"), help="where checkpoints go"
    )
    parser.add_argument("--max-failures", type=int, default=3)
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
