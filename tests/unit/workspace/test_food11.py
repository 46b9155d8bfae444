"""The scripts of workspace/food11, with Ray and torchvision played by the test, on a few drawn pictures."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.datasets.pictures import draw
from tests.conftest import ROOT
from tests.unit.workspace.test_examples import LostError, Saved

Script = Callable[[str], dict[str, Any]]

CONFIG: dict[str, Any] = {
    "epochs": 3, "batch_size": 8, "lr": 2e-3, "dropout": 0.3, "seed": 7,
    "backbone": "small", "head_epochs": 1, "loaders": 0, "threads": 1, "pictures": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "Food-11"
    folder.mkdir()
    draw(folder, 2, seed=1)
    return folder


@pytest.fixture
def script(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Runs one of the scripts as a module and gives its names."""
    monkeypatch.setenv("FOOD11_DATA_DIR", str(pictures))

    def load(name: str) -> dict[str, Any]:
        module = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        source = (ROOT / "workspace/food11" / f"{name}.py").read_text()
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        return module.__dict__

    return load


def torchvision(monkeypatch: pytest.MonkeyPatch, build: Callable[[], Any]) -> None:
    """A torchvision whose `mobilenet_v2(weights=...)` is `build()`."""
    package, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")

    def mobilenet_v2(*, weights: object) -> Any:
        assert weights == "ImageNet"
        return build()

    models.__dict__.update(
        MobileNet_V2_Weights=types.SimpleNamespace(DEFAULT="ImageNet"), mobilenet_v2=mobilenet_v2
    )
    package.__dict__["models"] = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def mobilenet() -> Any:
    """What gives features of MobileNetV2's shape: 1280 channels, 1/32 of the width and height."""
    import torch

    return types.SimpleNamespace(features=torch.nn.Conv2d(3, 1280, 32, stride=32))


def gpu(monkeypatch: pytest.MonkeyPatch, *, there: bool) -> None:
    """A machine with a GPU, or without one."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.delenv("RAYLAB_GPU", raising=False)


def without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)


def run(main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py", *arguments])
    main()


def test_the_pictures_of_a_split_come_scaled_with_the_class_of_their_folder(script: Script) -> None:
    found = script("train_lightning")["Pictures"]("training", 32, 0)

    assert len(found) == 22
    assert [found[i][1] for i in range(22)] == [i // 2 for i in range(22)]
    x, _ = found[0]
    assert x.shape == (3, 32, 32)
    assert -1 <= float(x.min()) < float(x.max()) <= 1


@pytest.mark.parametrize("name", ["train_lightning", "train_ray", "tune_ray"])
def test_no_more_pictures_of_each_class_are_taken_than_asked_for(
    script: Script, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_played(monkeypatch, [])
    names = tune_played(script, monkeypatch) if name == "tune_ray" else script(name)
    pictures = names["Pictures"]

    for most in (1, 2, 100):
        labels = [file.parent.name for file in pictures("training", 32, most).files]
        assert sorted(labels) == sorted(label for label in set(labels) for _ in range(min(most, 2)))
        assert len(set(labels)) == 11


def test_the_script_without_ray_trains_and_says_how_good_it_is(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_torchvision(monkeypatch)
    run(script("train_lightning")["main"], monkeypatch, "--epochs", "2", "--pictures", "1")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("backbone: small, 32 x 32 pixels (no real GPU here: ")
    assert [line.split("  ")[0] for line in lines[1:3]] == ["epoch 1/2", "epoch 2/2"]
    assert lines[-1].startswith("done: epoch 2, val_accuracy 0.")


@pytest.mark.parametrize("name", ["train_lightning", "train_ray"])
def test_missing_pictures_end_it_with_the_command_that_gets_them(
    script: Script, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOOD11_DATA_DIR", str(tmp_path / "nothing"))
    ray_played(monkeypatch, [])
    with pytest.raises(SystemExit, match=r"no pictures in .*nothing: type `labctl data food11`"):
        run(script(name)["main"], monkeypatch)


def test_mobilenet_is_taken_where_it_can_be_had(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torchvision(monkeypatch, mobilenet)
    gpu(monkeypatch, there=True)
    choose = script("train_lightning")["choose_backbone"]

    assert choose("auto") == choose("mobilenet") == "mobilenet"
    assert choose("small") == "small"
    out = capsys.readouterr().out
    assert "backbone: mobilenet, 224 x 224 pixels (torchvision and the weights are there)" in out
    assert "backbone: small, 32 x 32 pixels (asked for)" in out


@pytest.mark.parametrize(
    "problem",
    [ImportError("no torchvision"), OSError("no such host"), RuntimeError("operator nms does not exist")],
)
def test_whatever_keeps_mobilenet_away_is_said_and_a_small_network_learns(
    script: Script,
    problem: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> Any:
        raise problem

    torchvision(monkeypatch, fail)
    gpu(monkeypatch, there=True)
    choose = script("train_lightning")["choose_backbone"]

    assert choose("auto") == "small"
    assert str(problem) in capsys.readouterr().out
    with pytest.raises(SystemExit, match=f"--backbone mobilenet: {problem}"):
        choose("mobilenet")


@pytest.mark.parametrize(("there", "lab"), [(False, "nvidia"), (False, "none"), (True, "simulated")])
def test_without_a_real_gpu_the_small_network_learns_unless_the_large_one_is_asked_for(
    script: Script,
    there: bool,
    lab: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torchvision(monkeypatch, mobilenet)
    gpu(monkeypatch, there=there)
    monkeypatch.setenv("RAYLAB_GPU", lab)
    choose = script("train_lightning")["choose_backbone"]

    assert choose("auto") == "small"
    assert "backbone: small, 32 x 32 pixels (no real GPU here: " in capsys.readouterr().out
    assert choose("mobilenet") == "mobilenet"


def test_the_backbone_is_chosen_by_the_rank_which_has_the_gpu_and_not_on_the_head(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_played(monkeypatch, [])
    asked: list[str] = []

    class Started(Exception):  # noqa: N818
        pass

    def start(*_: Any, **given: Any) -> Any:
        assert given["train_loop_config"]["backbone"] == "auto"
        raise Started

    names = script("train_ray")

    def choose(wanted: str) -> str:
        asked.append(wanted)
        return "small"

    monkeypatch.setitem(names, "choose_backbone", choose)
    for each in ("ScalingConfig", "RunConfig", "FailureConfig"):
        monkeypatch.setitem(names, each, lambda *_, **__: None)
    monkeypatch.setitem(names, "TorchTrainer", start)
    with pytest.raises(Started):
        run(names["main"], monkeypatch)
    assert asked == []
    names["train_func"]({**CONFIG, "epochs": 1, "backbone": "auto"})
    assert asked == ["auto"]


def test_a_pretrained_backbone_rests_while_the_head_learns_and_then_learns_slowly(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    torchvision(monkeypatch, mobilenet)
    names = script("train_lightning")
    seen: list[tuple[bool, bool]] = []

    callback: Any = names["pl"].Callback

    class Compare(callback):  # type: ignore[misc]
        def on_train_epoch_start(self, trainer: Any, model: Any) -> None:
            self.before = [
                p.detach().clone() for p in (*model.backbone.parameters(), *model.head.parameters())
            ]

        def on_train_epoch_end(self, trainer: Any, model: Any) -> None:
            now = (*model.backbone.parameters(), *model.head.parameters())
            moved = [not torch.equal(a, b) for a, b in zip(self.before, now, strict=True)]
            seen.append((any(moved[:2]), all(moved[2:])))
            rates = [group["lr"] for group in trainer.optimizers[0].param_groups]
            assert rates == pytest.approx([2e-3, 2e-4])  # of the epoch that follows

    monkeypatch.setitem(names, "EveryEpoch", Compare)
    names["train_func"]({**CONFIG, "backbone": "mobilenet", "epochs": 2, "batch_size": 22})

    assert seen == [(False, True), (True, True)]


def test_under_ray_train_every_epoch_is_reported_with_a_checkpoint_and_a_resume_goes_on_after_it(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[tuple[dict[str, Any], Saved]] = []
    ray_played(monkeypatch, reports, lose_after=2)
    train_func = script("train_ray")["train_func"]

    with pytest.raises(LostError):
        train_func({**CONFIG, "epochs": 4})
    train_func({**CONFIG, "epochs": 4})

    assert [metrics["epoch"] for metrics, _ in reports] == [1, 2, 3, 4]
    assert len({metrics["weights_sha256"] for metrics, _ in reports}) == 4
    for metrics, checkpoint in reports:
        assert {"val_accuracy", "val_loss", "loss", "seconds"} <= metrics.keys()
        assert list(checkpoint.files) == ["checkpoint.ckpt"]


def test_a_resume_begins_with_the_weights_that_were_saved(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[tuple[dict[str, Any], Saved]] = []
    ray_played(monkeypatch, reports, lose_after=2)
    names = script("train_ray")
    begun_with: list[str] = []

    every_epoch: Any = names["EveryEpoch"]

    class Look(every_epoch):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, model: Any) -> None:
            begun_with.append(names["weights_sha256"](model))

    monkeypatch.setitem(names, "EveryEpoch", Look)
    with pytest.raises(LostError):
        names["train_func"](CONFIG)
    names["train_func"](CONFIG)

    assert begun_with[1] == reports[1][0]["weights_sha256"] != begun_with[0]


def test_the_table_of_trials_says_what_happens_to_each(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = trials(script, monkeypatch)
    table = names["Trials"](4, ("batch_size", "dropout"))
    one, two = (
        types.SimpleNamespace(trial_id=name, config={"batch_size": size, "dropout": 0.25})
        for name, size in (("a", 32), ("b", 64))
    )
    for trial in (one, two):
        table.on_trial_start(0, [], trial)
    table.on_trial_result(1, [], two, {"epoch": 1, "val_accuracy": 0.125})
    table.on_trial_complete(1, [], two)
    table.on_trial_recover(1, [], one)
    table.on_trial_start(2, [], one)
    table.on_trial_result(3, [], one, {"epoch": 4, "val_accuracy": 0.5})
    table.on_trial_complete(3, [], one)
    table.on_trial_error(4, [], two)

    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "trial batch_size dropout epoch val_accuracy status",
        "1 32 0.250 started",
        "2 64 0.250 started",
        "2 64 0.250 1/4 0.1250 running",
        "2 64 0.250 stopped early",
        "1 32 0.250 lost a node",
        "1 32 0.250 started again, goes on after its newest checkpoint",
        "1 32 0.250 4/4 0.5000 running",
        "1 32 0.250 trained to the end",
        "2 64 0.250 failed",
    ]
    assert table.failed == {"b"}


def test_the_sum_counts_what_was_stopped_and_what_that_saved_and_not_what_failed(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [
        types.SimpleNamespace(metrics=metrics, config={"batch_size": 32, "dropout": 0.12345})
        for metrics in (
            {"trial_id": "a", "epoch": 1, "val_accuracy": 0.3},
            {"trial_id": "b", "epoch": 8, "val_accuracy": 0.9},
            {"trial_id": "c", "epoch": 3, "val_accuracy": 0.5},
            {"trial_id": "lost later", "epoch": 4, "val_accuracy": 0.95},
            None,
        )
    ]
    summary = trials(script, monkeypatch)["summary"]

    assert summary(results, 8, ("batch_size", "dropout"), {"lost later", "lost at once"}).splitlines() == [
        "trials: 3, stopped early: 2",
        "epochs: 12 of the 24 that all trials to the end would have taken, compute saved: 50 %",
        "failed: 2",
        "best: batch_size 32, dropout 0.123, val_accuracy 0.9000, epoch 8",
    ]
    with pytest.raises(SystemExit, match=r"failed: 2\. No trial is left"):
        summary(results[-2:], 8, ("batch_size", "dropout"), {"lost later"})


@pytest.mark.parametrize(
    ("needs", "held"),
    [
        ({"GPU": 1, "CPU": 8}, 2),
        ({"GPU": 0.5, "CPU": 4}, 4),
        ({"GPU": 0.5, "CPU": 8}, 2),
        ({"GPU": 2, "CPU": 1}, 0),
        ({"GPU": 0, "CPU": 3}, 4),
        ({"GPU": 0, "CPU": 0}, 0),
    ],
)
def test_no_more_trials_run_at_once_than_the_living_nodes_can_hold(
    script: Script, monkeypatch: pytest.MonkeyPatch, needs: dict[str, float], held: int
) -> None:
    ray_played(monkeypatch, [])
    names = tune_played(script, monkeypatch)
    worker = {"CPU": 8.0, "GPU": 1.0, "memory": 1e9}
    names["ray"].nodes = lambda: [
        {"Alive": True, "Resources": {"memory": 1e9}},
        {"Alive": True, "Resources": worker},
        {"Alive": True, "Resources": worker},
        {"Alive": False, "Resources": worker},
    ]

    assert names["places"](needs) == held


def trials(script: Script, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The module trials, with Tune's class of callbacks played."""
    ray = types.ModuleType("ray")
    ray.__dict__["tune"] = types.SimpleNamespace(Callback=object)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return script("trials")


def tune_played(script: Script, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """tune_ray.py with the modules of Ray Tune that it imports."""
    for name, content in (
        ("ray.tune", {"Callback": object}),
        ("ray.tune.integration", {}),
        ("ray.tune.integration.ray_train", {"TuneReportCallback": object}),
        ("ray.tune.schedulers", {"ASHAScheduler": object}),
    ):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["ray"].__dict__["tune"] = sys.modules["ray.tune"]
    script("trials")
    return script("tune_ray")


def ray_played(
    monkeypatch: pytest.MonkeyPatch, reports: list[tuple[dict[str, Any], Saved]], lose_after: int = 0
) -> None:
    """Ray Train with one rank, which is lost once, after so many reports."""

    def report(metrics: dict[str, Any], checkpoint: Saved) -> None:
        reports.append((metrics, checkpoint))
        if len(reports) == lose_after:
            raise LostError

    def strategy() -> Any:
        from pytorch_lightning.strategies import SingleDeviceStrategy

        return SingleDeviceStrategy("cpu")

    def environment() -> Any:
        from pytorch_lightning.plugins.environments import LightningEnvironment

        return LightningEnvironment()

    ray, train, lightning, ray_torch = (
        types.ModuleType(name) for name in ("ray", "ray.train", "ray.train.lightning", "ray.train.torch")
    )
    ray.__dict__["train"] = train
    train.__dict__.update(
        lightning=lightning, torch=ray_torch, report=report, Checkpoint=Saved,
        get_checkpoint=lambda: reports[-1][1] if reports else None,
        FailureConfig=object, RunConfig=object, ScalingConfig=object,
    )  # fmt: skip
    lightning.__dict__.update(
        RayDDPStrategy=strategy, RayLightningEnvironment=environment, prepare_trainer=lambda trainer: trainer
    )
    ray_torch.__dict__["TorchTrainer"] = object
    for module in (ray, train, lightning, ray_torch):
        monkeypatch.setitem(sys.modules, module.__name__, module)
