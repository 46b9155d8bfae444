"""MinIO's admin API, as far as the lab uses it: a server in memory that opens the encrypted bodies.

Written after MinIO's own handlers: routes, encryption with the secret key of who asks, which answers are
encrypted, what is refused.
"""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3
from minio import crypto

from lab.store.server.auth import authenticate
from lab.store.server.keys import Key, Keyring, RefusalError
from lab.topology import Credentials
from tests.unit.store.s3_wsgi import Server, WsgiPool

PREFIX = "/minio/admin/v3/"


def variable(header: str) -> str:
    """The name of a header in a WSGI environment."""
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


class MinioPool(WsgiPool):
    """A urllib3 pool behind which there is a MinIO: the admin API here, the rest in `server`.

    `users` and `policies` are what MinIO knows; the S3 side knows only the keys that `server` was made with.
    """

    def __init__(self, server: Server, root: Credentials) -> None:
        super().__init__(server)
        self.root = root
        self.users: dict[str, dict[str, str]] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.refuse: dict[str, tuple[int, str]] = {}
        """Command -> what it answers instead: HTTP status and body."""
        self.commands: list[str] = []

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        parts = urlsplit(url)
        if parts.path == "/raylab/health":
            return self._answer(method, 403, b"<Error><Code>AccessDenied</Code></Error>", kw, Server="MinIO")
        if not parts.path.startswith(PREFIX):
            return super().urlopen(method, url, *args, **kw)
        command = parts.path.removeprefix(PREFIX)
        self.commands.append(command)
        environ = {
            "REQUEST_METHOD": method,
            "QUERY_STRING": parts.query,
            **{variable(name): value for name, value in kw["headers"].items()},
        }
        try:
            authenticate(environ, parts.path, Keyring(Key(self.root)), self.server.now())
        except RefusalError as error:
            body = json.dumps({"Code": error.code, "Message": error.message}).encode()
            return self._answer(method, error.status, body, kw)
        if command in self.refuse:
            status, text = self.refuse[command]
            return self._answer(method, status, text.encode(), kw)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, body = self._do(method, command, query, kw.get("body") or b"")
        return self._answer(method, status, body, kw)

    def _do(self, method: str, command: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if (method, command) == ("PUT", "add-canned-policy"):
            self.policies[query["name"]] = json.loads(body)
        elif (method, command) == ("PUT", "add-user"):
            given = json.loads(self._opened(body))
            if len(query["accessKey"]) > 20 or not 8 <= len(given["secretKey"]) <= 40:
                return 400, b'{"Code": "XMinioAdminInvalidArgument", "Message": "length"}'
            self.users.setdefault(query["accessKey"], {}).update(given)
        elif (method, command) == ("PUT", "set-user-or-group-policy"):
            assert query["isGroup"] == "false"
            if query["userOrGroup"] not in self.users or query["policyName"] not in self.policies:
                return 404, b'{"Code": "XMinioAdminNoSuchUser", "Message": "no such user"}'
            self.users[query["userOrGroup"]]["policyName"] = query["policyName"]
        elif (method, command) == ("GET", "list-users"):
            shown = {
                name: {"policyName": user.get("policyName", ""), "status": user["status"]}
                for name, user in self.users.items()
            }
            return 200, crypto.encrypt(json.dumps(shown).encode(), self.root.secret_key)
        elif (method, command) == ("DELETE", "remove-user"):
            del self.users[query["accessKey"]]
        else:
            raise AssertionError(f"MinIO has no {method} {command}")
        return 200, b""

    def _opened(self, body: bytes) -> bytes:
        response = urllib3.HTTPResponse(io.BytesIO(body), preload_content=False)
        decrypt: Any = crypto.decrypt
        return bytes(decrypt(response, self.root.secret_key))

    @staticmethod
    def _answer(method: str, status: int, body: bytes, kw: dict[str, Any], **headers: str) -> Any:
        return urllib3.HTTPResponse(
            io.BytesIO(body),
            headers=headers,
            status=status,
            preload_content=kw.get("preload_content", True),
            request_method=method,
        )
