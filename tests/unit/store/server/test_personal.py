"""The key of a person reaches her part of the bucket: the stand-in refuses what MinIO's policy would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.people.policy import Role
from lab.people.registry import FILE, Newcomer, Registry
from lab.store.server.app import S3App
from lab.store.server.keys import Key
from lab.store.server.personal import PeoplesKeyring
from lab.topology import BUCKET, Credentials
from tests.unit.store.s3_wsgi import CREDENTIALS, TRAINING, Server

OBJECTS = ("people/ann/a", "people/ben/b", "people/anna/c", "shared/s", ".raylab/ledger/ann-1/l", "other")


class Class(Server):
    """The server with the keys of ann and ben, who are students, and of eva, who assists."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "objects")
        self.registry = Registry(folder)
        newcomers = [Newcomer("ann"), Newcomer("ben"), Newcomer("eva", Role.ASSISTANT)]
        self.registry.add([one.person for one in self.registry.invite(newcomers)])
        keys = PeoplesKeyring(self.registry, BUCKET, Key(CREDENTIALS), Key(TRAINING, BUCKET))
        self.app = S3App(self.disk, keys, self.log.append, self.now)
        assert self("PUT", "/ray").status_code == 200
        for name in OBJECTS:
            assert self("PUT", f"/ray/{name}", b"secret").status_code == 200

    def key(self, name: str) -> Credentials:
        return self.registry.get(name).key


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Class]:
    server = Class(tmp_path)
    yield server
    server.die()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("HEAD", "/ray", 200),
        ("GET", "/ray?location", 200),
        ("GET", "/ray?list-type=2&prefix=people%2Fann%2Fmodel", 200),
        ("GET", "/ray?list-type=2&prefix=people%2Fann%2F", 200),
        ("GET", "/ray?prefix=shared%2F", 200),
        ("GET", "/ray?uploads&prefix=people%2Fann%2F", 200),
        ("GET", "/ray/people/ann/a", 200),
        ("HEAD", "/ray/people/ann", 404),
        ("GET", "/ray/shared/s", 200),
        ("GET", "/ray/.raylab/ledger/ann-1/l", 200),
        ("PUT", "/ray/people/ann/new", 200),
        ("PUT", "/ray/people/", 200),
        ("PUT", "/ray/people/ann/", 200),
        ("PUT", "/ray/.raylab/ledger/ann-2/l", 200),
        ("POST", "/ray/people/ann/new?uploads", 200),
        ("DELETE", "/ray/people/ann/a", 204),
    ],
)
def test_her_own_part(server: Class, method: str, path: str, status: int) -> None:
    assert server(method, path, credentials=server.key("ann")).status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/ray?list-type=2"),
        ("GET", "/ray?list-type=2&prefix="),
        ("GET", "/ray?list-type=2&prefix=people%2Fa"),
        ("GET", "/ray?list-type=2&prefix=people%2Fann"),
        ("GET", "/ray?list-type=2&prefix=people%2F"),
        ("GET", "/ray?list-type=2&prefix=people"),
        ("GET", "/ray?list-type=2&prefix=.raylab%2F"),
        ("GET", "/ray?prefix=.raylab"),
        ("GET", "/ray?prefix=.raylab%2Fledger%2F"),
        ("GET", "/ray"),
        ("GET", "/ray?delimiter=%2F"),
        ("GET", "/ray?marker=people%2Fann%2F"),
        ("GET", "/ray?uploads&prefix=people%2F"),
        ("GET", "/ray?list-type=2&prefix=people%2Fben%2F"),
        ("GET", "/ray?list-type=2&prefix=people%2Fann%2F&prefix="),
        ("GET", "/ray?location&list-type=2"),
        ("GET", "/ray?uploads"),
        ("GET", "/ray?versions"),
        ("GET", "/ray/people/ben/b"),
        ("HEAD", "/ray/people/ben/b"),
        ("GET", "/ray/people/anna/c"),
        ("GET", "/ray/people/ann/../ben/b"),
        ("GET", "/ray/other"),
        ("PUT", "/ray/people/ben/b"),
        ("PUT", "/ray/shared/s"),
        ("PUT", "/ray/people/ann/../ben/b"),
        ("PUT", "/ray/.raylab/ledger/ben-1/l"),
        ("DELETE", "/ray/shared/s"),
        ("DELETE", "/ray/people/"),
        ("DELETE", "/ray/.raylab/"),
        ("DELETE", "/ray/.raylab/ledger/"),
        ("DELETE", "/ray/people/?uploadId=x"),
        ("POST", "/ray/people/ben/b?uploads"),
        ("PUT", "/ray/people/ben/b?partNumber=1&uploadId=x"),
        ("PUT", "/ray/people/ann/a?acl"),
        ("PUT", "/ray"),
        ("DELETE", "/ray"),
        ("PUT", "/more"),
        ("GET", "/more/people/ann/a"),
    ],
)
def test_everything_else_is_denied(server: Class, method: str, path: str) -> None:
    answer = server(method, path, credentials=server.key("ann"))
    assert answer.status_code in (400, 403)
    assert answer.data != b"secret"
    assert [server("GET", f"/ray/{name}").data for name in OBJECTS] == [b"secret"] * len(OBJECTS)


def deletion(*names: str) -> bytes:
    objects = "".join(f"<Object><Key>{name}</Key></Object>" for name in names)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()


@pytest.mark.parametrize(
    "names",
    [("people/ben/b",), ("people/ann/a", "shared/s"), ("people/ann/../ben/b",), ("people/ann/a", "people/")],
)
def test_of_many_none_is_deleted_where_one_is_anothers(server: Class, names: tuple[str, ...]) -> None:
    answer = server("POST", "/ray?delete", deletion(*names), credentials=server.key("ann"))
    assert (answer.status_code, len(server.keys())) == (403, len(OBJECTS))


def test_many_of_her_own_are_deleted(server: Class) -> None:
    own = ("people/ann/a", ".raylab/ledger/ann-1/l")
    assert server("POST", "/ray?delete", deletion(*own), credentials=server.key("ann")).status_code == 200
    assert set(server.keys()) == set(OBJECTS) - set(own)


@pytest.mark.parametrize(
    "source", ["/ray/people/ben/b", "ray/other", "/ray/people/ann/../ben/b", "/x/people/ann/a"]
)
def test_nothing_of_others_is_copied(server: Class, source: str) -> None:
    headers = {"x-amz-copy-source": source}
    answer = server("PUT", "/ray/people/ann/new", headers=headers, credentials=server.key("ann"))
    assert answer.status_code == 403


def test_shared_data_are_copied(server: Class) -> None:
    headers = {"x-amz-copy-source": "/ray/shared/s"}
    answer = server("PUT", "/ray/people/ann/new", headers=headers, credentials=server.key("ann"))
    assert answer.status_code == 200


def test_who_assists_reads_all_work_and_changes_none(server: Class) -> None:
    eva = server.key("eva")
    assert server("GET", "/ray/people/ann/a", credentials=eva).status_code == 200
    assert server("GET", "/ray?list-type=2&prefix=people%2F", credentials=eva).status_code == 200
    assert server("PUT", "/ray/people/ann/a", credentials=eva).status_code == 403
    assert server("GET", "/ray/other", credentials=eva).status_code == 403


def test_a_key_ends_with_its_owners_token(server: Class) -> None:
    ann = server.key("ann")
    server.registry.close("ann")
    assert server("GET", "/ray/people/ann/a", credentials=ann).status_code == 403
    assert server("GET", "/ray/people/ann/a", credentials=TRAINING).status_code == 200


def test_a_person_disables_no_key(server: Class) -> None:
    path = f"/minio/admin/v3/set-user-status?accessKey={TRAINING.access_key}&status=disabled"
    assert server("PUT", path, credentials=server.key("ann")).status_code == 403
    assert server("GET", "/ray/other", credentials=TRAINING).status_code == 200


def test_a_damaged_list_of_people_is_named_and_not_shown(server: Class) -> None:
    ann = server.key("ann")
    path = server.registry.path
    path.write_text(path.read_text().replace('"role"', '"rule"'))
    answer = server("GET", "/ray/people/ann/a", credentials=ann)
    assert (answer.status_code, b"<Code>ServiceUnavailable</Code>" in answer.data) == (503, True)
    for text in (answer.data.decode(), "\n".join(server.log)):
        assert not any(part in text for part in (ann.secret_key, FILE, "rule", str(path.parent)))
    assert server("GET", "/ray/other", credentials=TRAINING).data == b"secret"
