"""Ids that Ray makes up are not drawn from its generator while modules are imported ahead."""

from __future__ import annotations

import pytest

from forkserver import identity


def test_the_class_of_an_actor_has_an_id_of_its_own_from_the_system() -> None:
    from ray import actor

    ordinary = actor.ActorClassID
    with identity.left_alone():
        first, second = actor.ActorClassID.from_random(), actor.ActorClassID.from_random()
    assert actor.ActorClassID is ordinary
    assert isinstance(first, ordinary)
    assert first != second


def test_ray_is_as_it_was_whatever_happens_meanwhile() -> None:
    from ray import actor

    ordinary = actor.ActorClassID
    with pytest.raises(ZeroDivisionError), identity.left_alone():
        raise ZeroDivisionError
    assert actor.ActorClassID is ordinary


def test_a_process_whose_forks_draw_the_same_ids_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"a", b"a", b"a", b"b"])
    monkeypatch.setattr(identity, "_drawn_by_a_fork", lambda: next(drawn))
    monkeypatch.setitem(__import__("sys").modules, "ray._raylet", object())
    assert identity.shared()
    assert not identity.shared()
