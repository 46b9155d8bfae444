"""Tries every entrance of tests/entrances.py from one place, and says who comes through.

In a terminal of ann's server: `python -m tests.e2e.entering PLACE`, the file of a Place as JSON.
In a container there are the packages of the image and no others: pytest is not among them.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import requests
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from urllib3 import PoolManager

from lab.errors import StoreError
from lab.store import MissingObjectError, ObjectStore
from lab.store.base import AccessDeniedError
from lab.topology import BUCKET, Credentials
from tests.e2e.browser import Browser
from tests.entrances import ENTRANCES, PEOPLE, Entrance
from tests.waiting import PATIENCE

REFUSED = (401, 403, 404, 405)
ENDED = 409
"""Status of an order that is allowed, to a job that has ended: nothing is done, and the next may ask, too."""

LISTEN_SECONDS = 5.0

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
"""Headers of what a table calls the method UPGRADE: GET for a WebSocket."""

LED_TO = ("hub", "gateway", "s3")
"""Ports whose paths are tried at the address as they are; of these `s3` is not led to."""


@dataclass(frozen=True)
class Place:
    """All that somebody knows there."""

    address: str
    """The class's one address; empty in a terminal on the server."""
    ports: Mapping[str, str]
    """Name of a port -> URL, in such a terminal."""
    trusted: str
    """File of the authority of the address."""
    names: Mapping[str, str]
    tokens: Mapping[str, str]
    keys: Mapping[str, tuple[str, str]]
    ray: str
    """File with Ray's own token, in a terminal where one would be."""

    def url(self, port: str) -> str:
        """The URL under which this port is tried; empty for one that is nowhere."""
        if not self.address:
            return self.ports.get(port, "")
        return self.address if port in LED_TO else f"{self.address}/{port}"

    def ray_token(self) -> str:
        """Ray's own token; empty where it is out of reach."""
        try:
            return Path(self.ray).read_text().strip()
        except OSError:
            if self.address:
                raise
            return ""

    def fill(self, text: str) -> str:
        """A text with the lab's names in it."""
        return re.sub(r"\{(\w+)\}", lambda match: self.names.get(match[1], match[0]), text)


def enter_all(place: Place) -> list[str]:
    """Of every entrance the names of those who come through."""
    visitors = [Visitor(place, name) for name in PEOPLE]
    return [" ".join(one.name for one in visitors if one.enters(way)) for way in ENTRANCES]


class Visitor:
    """Somebody with her token, cookies and key; or nobody, with none."""

    def __init__(self, place: Place, name: str) -> None:
        """Sign in wherever that is possible."""
        self.place, self.name = place, name
        self.browser = Browser(place.url("hub"), name, place.trusted)
        self.token = place.tokens.get(name, "")
        if self.token:
            assert self.browser.sign_in(name, self.token).ok
            form = {"name": name, "token": self.token}
            assert self._ask("POST", place.url("gateway") + "/class/sign-in", data=form).ok
        for owner in ("ann", "ben"):
            self._open(f"{place.url('hub')}/user/{owner}/lab")

    def enters(self, way: Entrance) -> bool:
        """Whether she comes through."""
        place = self.place
        if way.by == "file":
            return self._reads_file(place.fill(way.path), place.fill(way.proof))
        if way.by == "listen":
            return not place.address and overhears(Path(place.fill(way.path)), way.proof)
        if way.by in ("read", "write"):
            return self._reaches_object(way)
        if not place.url(way.port):
            return False
        method, path = place.fill(way.path).split()
        bearer = place.ray_token() if way.by == "ray" else self.token
        if way.by == "ray" and not bearer:
            return False
        url, proof = place.url(way.port) + path, place.fill(way.proof)
        method, headers = ("GET", dict(UPGRADE)) if method == "UPGRADE" else (method, {})
        if way.by == "cookie":
            answer = self._ask(method, url, headers=headers)
            self.browser.session.close()  # a WebSocket takes no further request
            return _served(answer, proof)
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        body = place.fill(way.body) or None
        return _served(self._ask_without_cookies(method, url, headers=headers, data=body), proof)

    def _ask(self, method: str, url: str, **more: object) -> requests.Response:
        return self.browser.session.request(method, url, timeout=PATIENCE, **more)  # type: ignore[arg-type]

    def _ask_without_cookies(self, method: str, url: str, **more: object) -> requests.Response:
        other = Browser(self.place.url("hub"), self.name, self.place.trusted)
        return other.session.request(method, url, timeout=PATIENCE, **more)  # type: ignore[arg-type]

    def _open(self, url: str) -> None:
        """Open somebody's JupyterLab, and press the button that lets it know who comes, if there is one."""
        page = self._ask("GET", url)
        if "/oauth2/authorize" in page.url:
            fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)
            form = [(name, html.unescape(value)) for name, value in fields]
            self._ask("POST", page.url, data=form, headers={"Referer": page.url})

    def _reads_file(self, path: str, proof: str) -> bool:
        if not self.place.address:
            try:
                return proof in Path(path).read_text(errors="replace")
            except PermissionError:
                return False
        out = "..%2f" * 12 + quote(path.lstrip("/"), safe="")
        return _served(self._ask("GET", f"{self.place.address}/user/ann/files/{out}"), proof)

    def _reaches_object(self, way: Entrance) -> bool:
        url, proof = self.place.url(way.port), self.place.fill(way.proof).encode()
        if self.name not in self.place.keys:
            method = "GET" if way.by == "read" else "PUT"
            return _served(self._ask_without_cookies(method, f"{url}/{BUCKET}/{way.path}"), way.proof)
        pool = PoolManager(ca_certs=self.place.trusted) if self.place.address else None
        store = ObjectStore(url, Credentials(*self.place.keys[self.name]), http=pool)
        try:
            if way.by == "read":
                return proof in store.get(way.path)
            store.put(way.path, b"more")
        except (AccessDeniedError, MissingObjectError):
            return False
        except StoreError:
            if self.place.address:  # nobody speaks S3 there
                return False
            raise
        return True


def overhears(kernels: Path, proof: str) -> bool:
    """Whether these words are heard from whatever listens here, or by the files of kernels in that folder.

    A kernel's port for what it prints asks a subscriber for nothing, unless it is encrypted.
    """
    listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    addresses = [f"tcp://127.0.0.1:{c.laddr.port}" for c in listening if c.laddr]
    addresses += [f"ipc://{c.laddr}" for c in psutil.net_connections("unix") if "kernel" in str(c.laddr)]
    ears: list[zmq.Socket[bytes]] = []
    poller = zmq.Poller()
    for address in addresses:
        ears.append(zmq.Context.instance().socket(zmq.SUB))
        ears[-1].subscribe(b"")
        ears[-1].connect(address)
    for file in kernels.glob("kernel-*.json") if os.access(kernels, os.R_OK) else ():
        client = BlockingKernelClient()
        client.load_connection_file(str(file))
        ears.append(client.connect_iopub())
    for ear in ears:
        ear.linger = 0
        poller.register(ear, zmq.POLLIN)
    end, said = time.monotonic() + LISTEN_SECONDS, b""
    while time.monotonic() < end and proof.encode() not in said:
        said += b"".join(part for ear, _ in poller.poll(500) for part in ear.recv_multipart())
    for ear in ears:
        ear.close()
    return proof.encode() in said


def _served(answer: requests.Response, proof: str) -> bool:
    """Whether an answer is what was asked for. Any but a refusal that is not is an error."""
    if answer.status_code in REFUSED or "/hub/login" in answer.url:
        return False
    assert answer.ok or answer.status_code == ENDED, f"{answer.url}: {answer.status_code} {answer.text[:300]}"
    assert proof in answer.text, f"{answer.url}: {answer.text[:300]}"
    return True


def main(file: str) -> None:
    """Print what `enter_all` says, as JSON."""
    print(json.dumps(enter_all(Place(**json.loads(Path(file).read_text())))))


def dump(place: Place) -> str:
    """A place as `main` reads it."""
    return json.dumps(dataclasses.asdict(place))


if __name__ == "__main__":
    main(sys.argv[1])
