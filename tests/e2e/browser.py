"""A person of a class at her browser: JupyterHub, her JupyterLab and its terminals; and what runs of hers."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid

import psutil
import requests

from lab.runtime.local.processes import MARK
from tests.waiting import PATIENCE, POLL_SECONDS, eventually

NOT_RUNNING = 424
"""JupyterHub's status for a page of a server that does not run."""


class Browser:
    """A person's browser: cookies, forms with their hidden fields, and a terminal in her JupyterLab."""

    def __init__(self, hub: str, name: str, trusted: str = "") -> None:
        """`trusted` is the file of the authority of an address with TLS."""
        self.hub, self.name, self.trusted, self.session = hub, name, trusted, requests.Session()
        self.session.trust_env = False  # else REQUESTS_CA_BUNDLE takes the place of `verify`
        self.session.verify = trusted or True

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.hub + path, timeout=PATIENCE)

    def fill(self, page: requests.Response, path: str, **fields: str) -> requests.Response:
        """Send a form with the fields that the page hides in it."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)"\s+value="([^"]*)"', page.text))
        return self.session.post(self.hub + path, data={**hidden, **fields}, timeout=PATIENCE)

    def follow(self, link: str) -> requests.Response:
        """Open a link and press the button, if there is one."""
        page = self.session.get(link, timeout=PATIENCE)
        return self.fill(page, "/hub/invite") if page.ok else page

    def sign_in(self, name: str, token: str) -> requests.Response:
        return self.fill(self.get("/hub/login"), "/hub/login", username=name, password=token)

    @property
    def signed_in(self) -> bool:
        return "/hub/login" not in self.get("/hub/home").url

    def open_lab(self, pause: float = POLL_SECONDS) -> None:
        """Wait until her JupyterLab is open; `pause` is between two looks, in seconds."""
        self.get("/hub/spawn")
        place = f"/user/{self.name}/lab"

        def opened() -> bool:
            page = self.get(place)
            if page.status_code == NOT_RUNNING:  # one that was just ended would not start a moment ago
                self.get("/hub/spawn")
            return page.ok and page.url == f"{self.hub}{place}"  # not JupyterHub's page of that name

        eventually(opened, PATIENCE, f"{self.name}'s JupyterLab opens", sleep=lambda _: time.sleep(pause))

    def api(self, method: str, path: str, document: dict[str, str] | None = None) -> requests.Response:
        """Ask her server as its pages do."""
        base = f"/user/{self.name}/"
        (xsrf,) = (c.value for c in self.session.cookies if (c.name, c.path) == ("_xsrf", base))
        url, headers = f"{self.hub}{base}api/{path}", {"X-XSRFToken": str(xsrf)}
        return self.session.request(method, url, headers=headers, json=document, timeout=PATIENCE)

    def kernels(self) -> list[str]:
        """Her kernels. Raises JSONDecodeError where a page of the hub answers instead of her server."""
        answer = self.api("GET", "kernels")
        answer.raise_for_status()
        return [one["id"] for one in answer.json()]

    def type(self, line: str) -> tuple[int, str]:
        """Type a line in a new terminal: its exit code, and what it prints."""
        import websocket

        terminal = self.api("POST", "terminals").json()["name"]
        url = f"{self.hub}/user/{self.name}/terminals/websocket/{terminal}"
        request = self.session.prepare_request(requests.Request("GET", url))
        socket = websocket.create_connection(
            url.replace("http", "ws", 1),
            cookie=request.headers["Cookie"],
            origin=self.hub,
            timeout=PATIENCE,
            sslopt={"ca_certs": self.trusted} if self.trusted else None,
        )
        first, second = uuid.uuid4().hex, uuid.uuid4().hex
        with contextlib.closing(socket):
            begin, end = (f"echo {mark[:9]}''{mark[9:]}" for mark in (first, second))
            text = f"stty -echo; PS1=; {begin}; {line}; {end} $?\n"
            socket.send(json.dumps(["stdin", text]))
            printed = ""
            while not (match := re.search(rf"{first}\r?\n(.*){second} (\d+)", printed, re.DOTALL)):
                kind, *data = json.loads(socket.recv())
                printed += data[0] if kind == "stdout" else ""
        self.api("DELETE", f"terminals/{terminal}")
        return int(match[2]), match[1]


def processes_of(mark: str) -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                marked.append(process)
    return marked
