"""The people of one lab: a file that only its owner may read, with the hashes of their tokens."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.api.light import restore
from lab.errors import NotFoundError, RefusedError, StateError
from lab.host.clock import WALL, Clock
from lab.host.files import give_to_folders_owner, lock, write_private
from lab.host.reading import read_json
from lab.people.policy import Role
from lab.topology import Credentials

FOLDER = "people"
"""Folder of the list in the folder of a lab."""

FILE = "people.json"
SCHEMA = "raylab-people/1"

TOKEN_BYTES = 32
LINK, SERVER = "link", "server"
"""Kinds of grants: signs in once, until its end; is the token of a single-user server while that runs."""

PATIENCE_SECONDS = 10.0
"""Longest wait for another labctl that changes the list."""


@dataclass(frozen=True)
class Grant:
    """What stands for a person's token for a purpose; she has at most one of a kind."""

    kind: str
    sha256: str
    """Its hash in hexadecimal digits."""
    until: float | None = None
    """End, in seconds since the epoch; None for one that is taken back."""


@dataclass(frozen=True)
class Person:
    """Somebody with a token of her own. Times are seconds since the epoch."""

    name: str
    """Also the name of her namespace, and the beginning of her jobs' names."""
    role: Role
    token_sha256: str
    """Hash of her token in hexadecimal digits; empty for somebody who is being removed."""
    added_at: float
    token_at: float
    """Time at which the token was made."""
    key: Credentials
    """Her key of the object store."""
    grants: tuple[Grant, ...] = field(default=(), compare=False)
    """They end with her token. They come and go while she is the same person."""

    @property
    def leaving(self) -> bool:
        """True for somebody whose removal has begun: no token of hers is accepted."""
        return not self.token_sha256

    @property
    def has_server(self) -> bool:
        """True while a JupyterLab server of hers runs: it ends with this grant."""
        return any(one.kind == SERVER for one in self.grants)


@dataclass(frozen=True)
class Newcomer:
    """Somebody who is to be added."""

    name: str
    role: Role = Role.STUDENT


@dataclass(frozen=True)
class Invitation:
    """A person with her token, which is known only now."""

    person: Person
    token: str = field(repr=False)


@dataclass(frozen=True)
class _Document:
    schema: str
    people: tuple[Person, ...]


class Registry:
    """The list in a folder. It is read anew whenever the file has changed."""

    def __init__(self, folder: Path, clock: Clock = WALL) -> None:
        """Nothing is read yet; a folder without the file is a class without people."""
        self.path, self.clock = folder / FILE, clock
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[str, Person] = {}

    def people(self) -> Mapping[str, Person]:
        """Name -> person, in the order of names. Raises StateError for a damaged file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._damaged(str(error.strerror)) from error
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._known, self._stamp = self._read(), stamp
        return self._known

    def get(self, name: str) -> Person:
        """One person. Raises NotFoundError."""
        return _of_name(name, self.people())

    def bearer(self, token: str) -> Person | None:
        """The person whose token this is, or her server's.

        Hashes are looked up, so the time tells nothing of a token.
        """
        digest = _hash(token)
        return next(
            (
                one
                for one in self.people().values()
                if one.token_sha256 == digest or _holds(one, SERVER, digest)
            ),
            None,
        )

    def owner(self, token: str) -> Person | None:
        """The person whose own token this is: a server's token signs nobody in."""
        digest = _hash(token)
        return next((one for one in self.people().values() if one.token_sha256 == digest), None)

    def linked(self, code: str) -> Person | None:
        """The person who signs in with the link of this code, if it was not used and has not ended."""
        digest, now = _hash(code), self.clock()
        return next((one for one in self.people().values() if _holds(one, LINK, digest, now)), None)

    def redeem(self, code: str) -> Person | None:
        """The same; the link is used by that."""
        if (person := self.linked(code)) is None:
            return None
        digest, now = _hash(code), self.clock()
        with self._changing() as known:
            person = known.get(person.name)
            if person is None or not _holds(person, LINK, digest, now):  # used meanwhile
                return None
            known[person.name] = _without(person, LINK)
            return known[person.name]

    def grant(
        self,
        kind: str,
        names: Iterable[str],
        until: float | None = None,
        keep: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> Mapping[str, str]:
        """Give people a grant each, in place of the one that they have; returns name -> what it is.

        `keep` gets the same before. Raises NotFoundError, RefusedError, or what that raises, and then nobody
        gets one.
        """
        made = {name: _token() for name in names}
        with self._changing() as known:
            for name, text in made.items():
                person = _staying(name, known)
                grants = (*_without(person, kind).grants, Grant(kind, _hash(text), until))
                known[name] = dataclasses.replace(person, grants=grants)
            keep(made)
        return made

    def take_back(self, kind: str, name: str) -> None:
        """End a person's grant of this kind, if she has one."""
        with self._changing() as known:
            if name in known:
                known[name] = _without(known[name], kind)

    def invite(self, newcomers: Iterable[Newcomer]) -> tuple[Invitation, ...]:
        """People with tokens and keys of their own, who are in no list yet. Raises RefusedError."""
        people, now = self.people(), self.clock()
        newcomers = tuple(newcomers)
        if taken := [one.name for one in newcomers if one.name in people]:
            hint = "choose other names, or `labctl class remove` them first"
            raise RefusedError(f"already in the class: {', '.join(taken)}", hint)
        invitations = []
        for one in newcomers:
            token = _token()
            key = Credentials(secrets.token_hex(10), secrets.token_hex(20))
            person = Person(one.name, one.role, _hash(token), now, now, key)
            invitations.append(Invitation(person, token))
        return tuple(invitations)

    def add(self, people: Sequence[Person]) -> None:
        """Take these people in, all or none. Raises RefusedError when a name was taken meanwhile."""
        with self._changing() as known:
            if taken := [one.name for one in people if one.name in known]:
                raise RefusedError(f"already in the class: {', '.join(taken)}", "nobody was added")
            known.update({one.name: one for one in people})

    def reset(
        self, *names: str, keep: Callable[[Sequence[Invitation]], None] = lambda _: None
    ) -> tuple[Invitation, ...]:
        """Give people other tokens, which `keep` gets before; the old ones end at once.

        Raises NotFoundError, RefusedError, or what `keep` raises, and then all old ones hold good.
        """
        made: list[Invitation] = []
        with self._changing() as known:
            for name in dict.fromkeys(names):
                token, person = _token(), _staying(name, known)
                known[name] = dataclasses.replace(
                    person, token_sha256=_hash(token), token_at=self.clock(), grants=()
                )
                made.append(Invitation(known[name], token))
            keep(made)
        return tuple(made)

    def close(self, name: str) -> Person:
        """End a person's token; she stays in the list until `forget`. Raises NotFoundError."""
        self.get(name)
        with self._changing() as known:
            known[name] = dataclasses.replace(_of_name(name, known), token_sha256="", grants=())
            return known[name]

    def forget(self, name: str) -> None:
        with self._changing() as known:
            known.pop(name, None)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Person]]:
        """The list to change; it is written at the end, unless something was raised."""
        path = self.path.with_suffix(".lock")
        with lock(path, "changing the class", patience=PATIENCE_SECONDS):
            give_to_folders_owner(path)
            known = dict(self.people())
            yield known
            people = [dataclasses.asdict(known[name]) for name in sorted(known)]
            write_owned(self.path, {"schema": SCHEMA, "people": people})

    def _read(self) -> dict[str, Person]:
        try:
            document = restore(_Document, read_json(self.path))
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from error
        if document.schema != SCHEMA:
            raise self._damaged(f"its schema is {document.schema}, not {SCHEMA}")
        return {person.name: person for person in document.people}

    def _damaged(self, why: str) -> StateError:
        return StateError(f"the list of the class in {self.path} cannot be read: {why}", "restore that file")


def _of_name(name: str, people: Mapping[str, Person]) -> Person:
    if name not in people:
        hint = f"there are: {', '.join(list(people)[:30])}" if people else "labctl class add NAME"
        raise NotFoundError(f"nobody in the class is called {name}", hint)
    return people[name]


def _staying(name: str, people: Mapping[str, Person]) -> Person:
    person = _of_name(name, people)
    if person.leaving:
        raise RefusedError(f"{name} is being removed", f"finish it: labctl class remove {name}")
    return person


def _holds(person: Person, kind: str, digest: str, now: float = 0.0) -> bool:
    return any(
        one.kind == kind and one.sha256 == digest and (one.until is None or now < one.until)
        for one in person.grants
    )


def _without(person: Person, kind: str) -> Person:
    return dataclasses.replace(person, grants=tuple(one for one in person.grants if one.kind != kind))


def write_owned(path: Path, document: object) -> None:
    """Replace a file by a JSON document, for the owner of its folder, as whom services in containers run.

    Raises SetupError.
    """
    write_private(path, json.dumps(document, indent=1), owned=True)


def _token() -> str:
    """A token that no command takes for an option: it begins with a letter or digit."""
    while not (token := secrets.token_urlsafe(TOKEN_BYTES))[0].isalnum():
        pass
    return token


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
