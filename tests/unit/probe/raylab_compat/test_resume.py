"""A job that goes on with another job's run gives its name to runs without one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from raylab_compat import resume


def module() -> Any:
    class RunConfig:
        def __init__(self, name: str | None = None) -> None:
            self.name = name
            self.__post_init__()

        def __post_init__(self) -> None:
            self.name = self.name or "ray_train_run-now"

    made = ModuleType("ray.train.v2.api.config")
    made.RunConfig = RunConfig  # type: ignore[attr-defined]
    return made


def test_a_run_without_a_name_gets_that_of_the_one_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resume.VARIABLE, "ray_train_run-before")
    changed = module()
    resume.name_runs(changed)
    assert changed.RunConfig().name == "ray_train_run-before"
    assert changed.RunConfig("mine").name == "mine"


def test_a_second_run_without_a_name_does_not_go_on_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resume.VARIABLE, "job-a")
    changed = module()
    resume.name_runs(changed)
    names = [changed.RunConfig(name).name for name in (None, None, "mine", None)]
    assert names == ["job-a", "job-a-2", "mine", "job-a-3"]


def test_only_the_driver_names_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resume.VARIABLE, "job-a")
    changed = module()
    resume.name_runs(changed)
    ray: Any = ModuleType("ray._private.worker")
    ray.WORKER_MODE, ray.global_worker = 1, SimpleNamespace(mode=1)
    monkeypatch.setitem(sys.modules, "ray._private.worker", ray)
    assert changed.RunConfig().name == "ray_train_run-now"
    ray.global_worker.mode = 0
    assert changed.RunConfig().name == "job-a"


def test_without_the_variable_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(resume, "after_import", asked.append)
    monkeypatch.delenv(resume.VARIABLE, raising=False)
    resume.install()
    assert asked == []
    monkeypatch.setenv(resume.VARIABLE, "x")
    resume.install()
    assert asked == [resume.CHANGES]


def test_the_class_is_where_ray_has_it() -> None:
    config = pytest.importorskip("ray.train.v2.api.config")
    assert "name" in config.RunConfig.__dataclass_fields__
    assert config.RunConfig.__post_init__
