from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lab.errors import NotFoundError, RefusedError, StateError
from lab.people.policy import Role
from lab.people.registry import FILE, LINK, SERVER, Invitation, Newcomer, Registry
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


def test_no_token_looks_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(("-first", "_second", "third"))
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: next(made))
    (ann,) = Registry(tmp_path).invite([Newcomer("ann")])
    assert ann.token == "third"


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
    (again,) = writer.reset("ann")
    assert reader.bearer(ann.token) is None
    assert reader.bearer(again.token) == again.person
    writer.close("ann")
    assert reader.bearer(again.token) is None


def test_a_new_token_leaves_the_key(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    registry = Registry(tmp_path, clock)
    (ann,) = added(registry, ANN)
    clock.sleep(60)
    (again,) = registry.reset("ann")
    assert again.person.key == ann.person.key
    assert (again.person.added_at, again.person.token_at) == (AT, AT + 60)


def test_a_name_that_is_there_adds_nobody(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN)
    with pytest.raises(RefusedError, match="already in the class: ann"):
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
        with pytest.raises(NotFoundError, match="called ann"):
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


def test_a_link_signs_in_once_until_its_end(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    registry = Registry(tmp_path, clock)
    ann, _ = added(registry, ANN, BEN)
    codes = registry.grant(LINK, ["ann", "ben"], AT + 60)
    assert set(codes) == {"ann", "ben"}
    assert not any(code in (tmp_path / FILE).read_text() for code in codes.values())
    assert registry.linked(codes["ann"]) == ann.person  # to look uses nothing
    assert registry.redeem(codes["ann"]) == ann.person
    assert registry.redeem(codes["ann"]) is None
    clock.sleep(60)
    assert registry.redeem(codes["ben"]) is None


def test_a_link_is_no_token_and_a_token_no_link(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    (ann,) = added(registry, ANN)
    code = registry.grant(LINK, ["ann"])["ann"]
    assert (registry.bearer(code), registry.owner(code)) == (None, None)
    assert registry.redeem(ann.token) is None
    assert registry.redeem("") is None


def test_the_token_of_a_server_asks_the_gateway_and_signs_nobody_in(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    (ann,) = added(registry, ANN)
    first = registry.grant(SERVER, ["ann"])["ann"]
    assert (registry.bearer(first), registry.owner(first)) == (ann.person, None)
    assert registry.owner(ann.token) == ann.person
    second = registry.grant(SERVER, ["ann"])["ann"]
    assert (registry.bearer(first), registry.bearer(second)) == (None, ann.person)
    registry.take_back(SERVER, "ann")
    registry.take_back(SERVER, "zoe")
    assert registry.bearer(second) is None
    assert registry.bearer(ann.token) == ann.person


@pytest.mark.parametrize("end", ["reset", "close"])
def test_links_and_servers_end_with_the_token(tmp_path: Path, end: str) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN)
    code, token = registry.grant(LINK, ["ann"])["ann"], registry.grant(SERVER, ["ann"])["ann"]
    getattr(registry, end)("ann")
    assert (registry.redeem(code), registry.bearer(token)) == (None, None)


def test_a_later_link_replaces_one_and_leaves_the_server(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    (ann,) = added(registry, ANN)
    token = registry.grant(SERVER, ["ann"])["ann"]
    first, second = (registry.grant(LINK, ["ann"])["ann"] for _ in range(2))
    assert registry.redeem(first) is None
    assert registry.redeem(second) == ann.person
    assert registry.bearer(token) == ann.person


def test_two_who_use_a_link_at_the_same_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(tmp_path)
    (ann,) = added(registry, ANN)
    code = registry.grant(LINK, ["ann"])["ann"]
    monkeypatch.setattr(registry, "linked", lambda _: ann.person)  # both have seen that it is good
    assert Registry(tmp_path).redeem(code) == ann.person
    assert registry.redeem(code) is None


def test_nobody_gets_a_link_where_one_name_is_wrong(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    added(registry, ANN, BEN)
    registry.close("ben")
    before = registry.people()["ann"].grants
    for names in (["ann", "zoe"], ["ann", "ben"]):
        with pytest.raises((NotFoundError, RefusedError)):
            registry.grant(LINK, names)
    assert registry.people()["ann"].grants == before == ()


def test_a_list_of_an_earlier_labctl_has_nobody_with_a_link(tmp_path: Path) -> None:
    (ann,) = added(Registry(tmp_path), ANN)
    document = json.loads((tmp_path / FILE).read_text())
    del document["people"][0]["grants"]
    (tmp_path / FILE).write_text(json.dumps(document))
    registry = Registry(tmp_path)
    assert registry.bearer(ann.token) == ann.person
    assert registry.redeem(registry.grant(LINK, ["ann"])["ann"]) == ann.person


def test_a_list_is_its_owners_before_anybody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's labctl changes it, and the gateway in a container reads it at any moment."""
    registry, seen = Registry(tmp_path), list[bool]()
    (ann,) = added(registry, ANN)

    def chown(path: Path, *_: int) -> None:
        if not path.name.endswith(".lock"):
            seen.append(registry.bearer(ann.token) == ann.person)

    monkeypatch.setattr("os.chown", chown)
    (again,) = Registry(tmp_path).reset("ann")
    assert seen == [True], "the one that is handed over is not the one that is read"
    assert registry.bearer(again.token) == again.person
