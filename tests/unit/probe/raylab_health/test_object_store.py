"""The object store's round trip, with a client in memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from raylab_health.checks import object_store
from raylab_health.examine import examine
from raylab_health.model import CPU, PASS, UNKNOWN, WARN
from tests.unit.probe.raylab_health.fakes import FakeNode


class Client:
    """A store that gives back what it was given, changed by `spoil`."""

    def __init__(self, node: FakeNode, *, spoil: bool = False, seconds: float = 0.0, fail: str = "") -> None:
        self._node, self._spoil, self._seconds, self._fail = node, spoil, seconds, fail
        self.objects: dict[str, bytes] = {}

    def put_object(self, bucket: str, name: str, data: io.BytesIO, length: int) -> None:
        self._node.now += self._seconds
        if self._fail:
            raise OSError(self._fail)
        self.objects[name] = data.read(length)

    def get_object(self, bucket: str, name: str) -> Any:
        data = self.objects[name]
        answer = io.BytesIO(b"?" + data[1:] if self._spoil else data)
        answer.release_conn = lambda: None  # type: ignore[attr-defined]
        return answer

    def remove_object(self, bucket: str, name: str) -> None:
        del self.objects[name]


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ({}, PASS, ""),
        ({"spoil": True}, WARN, "is not what was sent"),
        ({"seconds": 6.0}, WARN, "takes 6.0 s"),
        ({"fail": "connection refused"}, WARN, "connection refused"),
    ],
)
def test_a_round_trip_is_judged_and_leaves_nothing(
    how: dict[str, Any], state: str, words: str, tmp_path: Path
) -> None:
    node = FakeNode(tmp_path)
    client = node.notes["object-store"] = Client(node, **how)
    result = examine(object_store.CHECK, CPU, node)
    assert (result["state"], words in result["message"]) == (state, True)
    assert client.objects == {}


def test_a_store_that_is_away_for_ten_seconds_is_no_sick_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = FakeNode(tmp_path)
    client = node.notes["object-store"] = Client(node, fail="connection refused")
    wait = node.sleep

    def sleep(seconds: float) -> None:
        wait(seconds)
        client._fail = "" if node.now > 1012 else "connection refused"

    monkeypatch.setattr(node, "sleep", sleep)
    assert examine(object_store.CHECK, CPU, node)["state"] == PASS


class NoBucketError(Exception):
    """minio's error where there is no bucket."""

    code = "NoSuchBucket"


def test_a_bucket_that_is_not_made_yet_is_unknown_and_one_that_is_gone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NoBucketError("the bucket does not exist")

    node = FakeNode(tmp_path)
    client = node.notes["object-store"] = Client(node)
    with monkeypatch.context() as patched:
        patched.setattr(client, "put_object", refuse)
        assert examine(object_store.CHECK, CPU, node)["state"] == UNKNOWN
    assert examine(object_store.CHECK, CPU, node)["state"] == PASS
    monkeypatch.setattr(client, "put_object", refuse)
    result = examine(object_store.CHECK, CPU, node)
    assert (result["state"], result["message"]) == (WARN, "the object store fails: NoSuchBucket")


def test_the_key_is_read_from_the_environment_or_the_file_it_names(tmp_path: Path) -> None:
    file = tmp_path / "aws.ini"
    file.write_text("[default]\naws_access_key_id = a%b\naws_secret_access_key = c\n")
    assert object_store.key({"AWS_SHARED_CREDENTIALS_FILE": str(file)}) == ("a%b", "c")
    assert object_store.key({"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}) == ("x", "y")


def test_a_store_without_a_key_is_unknown(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, environ={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert examine(object_store.CHECK, CPU, node)["state"] == UNKNOWN
