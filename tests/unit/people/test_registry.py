from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lab.errors import NotFoundError, RefusedError, StateError
from lab.people.policy import Role
from lab.people.registry import FILE, Invitation, Newcomer, Registry
from tests.fakes.host import FakeClock
from tests.unit.fakes import AT

ANN, BEN = Newcomer("ann"), Newcomer("ben", Role.TEACHER)


def added(registry: Registry, *newcomers: Newcomer) -> tuple[Invitation, ...]:
    invitations = registry.invite(newcomers)
    registry.add([one.person for one in invitations])
    return invitations


def test_a_token_is_nowhere_on_disk(tmp_path: Path) -> None:
    (ann,) = added(Registry(tmp_path), ANN)
    file = tmp_path / FILE
    assert len(ann.token) >= 43  # 32 bytes
    assert ann.token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_whose_a_token_is(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    assert registry.bearer("") is None
    ann, ben = added(registry, ANN, BEN)
    assert registry.bearer(ann.token) == ann.person
    assert registry.bearer(ben.token) == ben.person
    assert registry.bearer(ann.token[:-1]) is None
    assert registry.bearer("") is None
    assert registry.bearer("\udcff") is None
    assert registry.bearer(ann.person.token_sha256) is None


def test_everything_survives_another_process(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    ann, ben = added(Registry(tmp_path, clock), ANN, BEN)
    assert Registry(tmp_path).people() == {"ann": ann.person, "ben": ben.person}
    assert (ann.person.added_at, ann.person.token_at) == (AT, AT)


def test_what_another_process_changes_counts_at_once(tmp_path: Path) -> None:
    reader, writer = Registry(tmp_path), Registry(tmp_path)
    assert reader.people() == {}
    (ann,) = added(writer, ANN)
    assert reader.bearer(ann.token) == ann.person
    again = writer.reset("ann")
    assert reader.bearer(ann.token) is None
    assert reader.bearer(again.token) == again.person
    writer.close("ann")
    assert reader.bearer(again.token) is None


def test_a_new_token_leaves_the_key(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    registry = Registry(tmp_path, clock)
    (ann,) = added(registry, ANN)
    clock.sleep(60)
    again = registry.reset("ann")
    assert again.person.key == ann.person.key
    assert (again.person.added_at, again.person.token_at) == (AT, AT + 60)


def test_a_name_that_is_there_adds_nobody(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN)
    with pytest.raises(RefusedError, match="in the class already: ann"):
        registry.invite([BEN, ANN])
    late = Registry(tmp_path).invite([BEN])
    added(registry, BEN)
    with pytest.raises(RefusedError, match="ben"):
        registry.add([one.person for one in late])
    assert list(registry.people()) == ["ann", "ben"]


def test_somebody_who_leaves_gets_no_token(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN)
    assert registry.close("ann").leaving
    with pytest.raises(RefusedError, match="is being removed"):
        registry.reset("ann")
    registry.forget("ann")
    assert registry.people() == {}


def test_nobody_of_that_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    with pytest.raises(NotFoundError) as error:
        registry.get("zoe")
    assert "labctl class add" in error.value.hint
    added(registry, ANN)
    for change in (registry.reset, registry.close, registry.get):
        with pytest.raises(NotFoundError) as error:
            change("zoe")
        assert error.value.hint == "there are: ann"


def test_somebody_whom_another_process_has_just_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN, BEN)
    ann = registry.get("ann")
    monkeypatch.setattr(registry, "get", lambda name: ann)  # she was there at the first look
    Registry(tmp_path).forget("ann")
    for change in (registry.reset, registry.close):
        with pytest.raises(NotFoundError, match="nobody called ann"):
            change("ann")
    assert list(Registry(tmp_path).people()) == ["ben"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": "raylab-people/2", "people": []}', '{"schema": "raylab-people/1"}'],
)
def test_a_damaged_list_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateError, match=r"people\.json"):
        Registry(tmp_path).bearer("")


def test_no_key_is_shown(tmp_path: Path) -> None:
    (ann,) = added(Registry(tmp_path), ANN)
    document = json.loads((tmp_path / FILE).read_text())
    assert document["people"][0]["key"]["secret_key"] == ann.person.key.secret_key
    assert ann.person.key.secret_key not in repr(ann)
    assert ann.token not in repr(ann)
