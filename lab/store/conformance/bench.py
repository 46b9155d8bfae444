"""Where the questions are asked: one server, one bucket, one prefix."""

from __future__ import annotations

import base64
import hashlib
from xml.sax.saxutils import escape

from lab.store.client import Answer, Client, values


class DeviationError(Exception):
    """The server did something else than S3 does. The message says what."""


class SkippedError(Exception):
    """The question cannot be asked here. The message says why."""


class Bench:
    """One server, one bucket, one prefix."""

    def __init__(self, client: Client, bucket: str, prefix: str) -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix

    def key(self, name: str) -> str:
        """The whole key of an object of this run."""
        return f"{self.prefix}/{name}"

    def object(
        self,
        method: str,
        name: str,
        body: bytes = b"",
        *query: tuple[str, str],
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request to one of this run's objects."""
        return self.client.ask(method, f"{self.bucket}/{self.key(name)}", query, body, headers)

    def put(self, name: str, body: bytes) -> Answer:
        """Store an object. Raises DeviationError."""
        return want(self.object("PUT", name, body), 200, "storing an object")

    def page(self, *query: tuple[str, str], prefix: str = "") -> Answer:
        """A page of a listing of this run's objects. Raises DeviationError."""
        asked = (("list-type", "2"), ("prefix", self.key(prefix)), *query)
        return want(self.client.ask("GET", self.bucket, asked), 200, "listing")

    def keys(self, prefix: str = "") -> list[str]:
        """The names of this run's objects that begin with `prefix`. Raises DeviationError."""
        return [key.removeprefix(f"{self.prefix}/") for key in values(self.page(prefix=prefix).text, "Key")]

    def delete_many(self, names: list[str]) -> Answer:
        """One request that deletes many objects."""
        listed = "".join(f"<Object><Key>{escape(self.key(name))}</Key></Object>" for name in names)
        body = f"<Delete>{listed}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        return self.client.ask("POST", self.bucket, [("delete", "")], body, {"Content-MD5": digest})


def want(answer: Answer, status: int, what: str) -> Answer:
    """The answer, if it has this status. Raises DeviationError."""
    if answer.status != status:
        code = f" {answer.code}" if answer.code else ""
        raise DeviationError(f"{what} is answered with HTTP {answer.status}{code}, not {status}")
    return answer


def same(found: object, expected: object, what: str) -> None:
    """Raises DeviationError when the two differ."""
    if found != expected:
        raise DeviationError(f"{what}: {str(found)[:80]!r} instead of {str(expected)[:80]!r}")
