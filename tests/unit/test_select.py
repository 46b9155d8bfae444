"""Which runtime is chosen, and what is said about it."""

from __future__ import annotations

import sys

import pytest

from lab.errors import UnsupportedError, UsageError
from lab.runtime.select import choose


@pytest.mark.parametrize(("kind", "why"), [("local", "asked for"), ("auto", "auto: ")])
def test_labs_run_on_the_local_runtime(kind: str, why: str) -> None:
    choice = choose(kind, "other")

    assert (choice.kind, choice.runtime.kind, choice.runtime.lab) == ("local", "local", "other")
    assert why in choice.why


def test_compose_is_refused_as_long_as_it_is_not_built() -> None:
    with pytest.raises(UnsupportedError, match="compose runtime is not built yet") as caught:
        choose("compose", "raylab")
    assert "--runtime local" in caught.value.hint


def test_an_unknown_runtime_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="--runtime docker: unknown") as caught:
        choose("docker", "raylab")
    assert caught.value.hint == "known: auto, local, compose"


@pytest.mark.parametrize("kind", ["local", "auto"])
def test_windows_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(UnsupportedError, match="needs Linux or macOS"):
        choose(kind, "raylab")
