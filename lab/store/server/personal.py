"""The part of the bucket that the key of a person of a class reaches: what MinIO's policy of it says, too."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from lab.errors import StateError
from lab.people.registry import Person, Registry
from lab.people.rights import KeyRights, rights
from lab.store.server.auth import S3Request
from lab.store.server.keys import Key, Keyring, RefusalError


class PeoplesKeyring(Keyring):
    """The keys of the command line, and those of the people of a class as they are at the moment."""

    def __init__(self, people: Registry, bucket: str, *keys: Key) -> None:
        super().__init__(*keys)
        self._people, self._bucket = people, bucket

    def find(self, access_key: str) -> Key | None:
        """The key of this name. Raises RefusalError when the list of people is damaged."""
        match = super().find(access_key)
        for person in () if match is not None else self._persons():
            if not person.leaving and person.key.access_key == access_key:
                match = Key(person.key, self._bucket, rights(person.role, person.name))
        return match

    def _persons(self) -> Iterable[Person]:
        try:
            return self._people.people().values()
        except StateError as error:  # what it says goes to labctl, not to whoever asks
            problem = "the list of the people of the class cannot be read"
            raise RefusalError(503, "ServiceUnavailable", problem) from error


def check_personal(asked: S3Request, method: str, source: str) -> None:
    """Refuse what a person's key does not reach; `source` is the object that is copied. RefusalError."""
    mine = asked.signature.key.rights
    if mine is None or not asked.bucket:
        return
    if not asked.key:
        allowed = _on_bucket(asked, method, mine)
    elif method in ("GET", "HEAD", "OPTIONS"):
        allowed = mine.may_read(asked.key)
    elif method == "DELETE":
        allowed = mine.may_delete(asked.key)
    else:
        allowed = mine.may_write(asked.key) and (not source or mine.may_read(source))
    if not allowed or _climbs(asked.key) or _climbs(source):
        raise _denied()


def check_deletion(asked: S3Request, body: bytes) -> None:
    """Refuse to delete many where one is out of a person's reach. Raises RefusalError."""
    mine = asked.signature.key.rights
    if mine is None or asked.key or "delete" not in asked.parameters:
        return
    try:
        names = [part.text or "" for part in ET.fromstring(body).iter() if _tag(part) == "Key"]
    except ET.ParseError as error:
        raise RefusalError(400, "MalformedXML", "the body is not XML") from error
    if not all(mine.may_delete(name) and not _climbs(name) for name in names):
        raise _denied()


def _on_bucket(asked: S3Request, method: str, mine: KeyRights) -> bool:
    """Decide about the bucket itself: its names may be listed below what the key reads."""
    if method == "POST":
        return asked.parameters == {"delete"}  # its objects are looked at once the body is there
    if method == "HEAD" or asked.parameters == {"location"}:
        return True
    prefixes = [value for name, value in asked.pairs if name == "prefix"]
    return mine.may_list("") or (len(prefixes) == 1 and mine.may_list(prefixes[0]))


def _climbs(name: str) -> bool:
    """True for a name that another server could take for one elsewhere."""
    return any(part in (".", "..") for part in name.split("/"))


def _tag(part: ET.Element) -> str:
    return part.tag.rpartition("}")[2]


def _denied() -> RefusalError:
    return RefusalError(403, "AccessDenied", "Access Denied.")
