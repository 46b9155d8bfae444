"""Notebooks whose head is down: heads that the test takes away, and a `ray` that it plays."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_patches import outage
from raylab_patches.outage import DOWN_SECONDS, LOOK_SECONDS, change, news, place_of, wait_for_head

PLACE = ("127.0.0.1", 6379)


class Head:
    """Takes connections, or not, each time that it is tried: as `tries` says, the last one for ever."""

    def __init__(self, *tries: bool) -> None:
        self.tries = list(tries)
        self.now = 0.0

    def takes(self, host: str, port: int) -> bool:
        assert (host, port) == PLACE
        return self.tries.pop(0) if len(self.tries) > 1 else self.tries[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self) -> None:
        wait_for_head(PLACE, self.takes, lambda: self.now, self.sleep)


@pytest.mark.parametrize(
    ("address", "variable", "place"),
    [
        (None, "127.0.0.1:6379", PLACE),
        ("auto", "127.0.0.1:6379", PLACE),
        (None, "ray://ray-head:10001", ("ray-head", 10001)),
        ("10.0.0.1:7", "127.0.0.1:6379", ("10.0.0.1", 7)),
        ("local", "127.0.0.1:6379", None),
        (None, "", None),
    ],
)
def test_the_head_is_the_one_that_ray_would_connect_to(
    monkeypatch: pytest.MonkeyPatch, address: str | None, variable: str, place: tuple[str, int] | None
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", variable)
    assert place_of(address) == place


def test_a_head_that_is_down_is_an_error_within_ten_seconds() -> None:
    head = Head(False)
    with pytest.raises(ConnectionError, match="nobody listens"):
        head.wait()
    assert head.now < 10.0


def test_a_head_that_is_being_started_is_waited_for() -> None:
    head = Head(False, False, False, True)
    head.wait()
    assert head.now == 3 * LOOK_SECONDS


def test_a_driver_says_once_that_its_head_is_down_and_once_that_it_is_back() -> None:
    away = [False] * 20
    said = list(islice(news(PLACE, Head(True, *away, True).takes), 40))
    assert [text for text in said if text] == [outage.message_of(PLACE), "the head answers again"]
    assert said.index(outage.message_of(PLACE)) * LOOK_SECONDS <= DOWN_SECONDS


def test_a_head_that_was_away_for_a_moment_is_not_spoken_of() -> None:
    assert not any(islice(news(PLACE, Head(True, False, False, True).takes), 40))


def played(monkeypatch: pytest.MonkeyPatch, *, up: bool) -> tuple[Any, list[Any]]:
    """The module `ray`, changed, and the calls of its own `init`."""
    begun: list[Any] = []
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")

    def refuse(place: tuple[str, int]) -> None:
        raise ConnectionError(outage.message_of(place))

    monkeypatch.setattr(outage, "wait_for_head", refuse if not up else lambda place: None)
    monkeypatch.setattr("threading.Thread.start", lambda thread: begun.append(thread.name))
    ray = SimpleNamespace(
        init=lambda *args, **options: begun.append((args, options)), is_initialized=lambda: False
    )
    change(ray)
    return ray, begun


def test_init_of_a_head_that_is_there_is_rays_own_with_somebody_who_looks_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray, begun = played(monkeypatch, up=True)
    ray.init(ignore_reinit_error=True)
    assert begun == [((None,), {"ignore_reinit_error": True}), "raylab-head"]


def test_init_of_a_head_that_is_down_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, begun = played(monkeypatch, up=False)
    with pytest.raises(ConnectionError):
        ray.init()
    assert begun == []


def test_a_cluster_that_a_script_starts_itself_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, begun = played(monkeypatch, up=False)
    ray.init("local")
    assert begun == [(("local",), {})]
