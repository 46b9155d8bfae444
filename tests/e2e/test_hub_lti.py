"""JupyterHub of a class behind a learning platform: signed launches of LTI 1.3, as docs/class.md has it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from lab.api.hub import DROP_IN
from lab.host.files import make_private
from lab.runtime.ports import LOOPBACK
from lab.services import HUB
from tests.e2e.browser import Browser
from tests.e2e.classes import Course
from tests.e2e.harness import PATIENCE, Bench

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "class.md"
SCHOOL, CLIENT = "https://school.example", "hTMzPlR9Zqvrp0u"
"""The platform of that file, and what it calls JupyterHub."""

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"


@dataclass(frozen=True)
class Platform:
    """A learning platform: it says by its signature who somebody is."""

    url: str
    key: rsa.RSAPrivateKey

    def launch(
        self, browser: Browser, name: str, *, key: rsa.RSAPrivateKey | None = None
    ) -> requests.Response:
        """Follow its link to the class as `name`: the answer of JupyterHub to what `key` has signed."""
        link = {
            "iss": self.url,
            "login_hint": name,
            "client_id": CLIENT,
            "target_link_uri": f"{browser.hub}/hub",
        }
        asked = browser.session.get(
            f"{browser.hub}/hub/lti13/oauth_login", params=link, allow_redirects=False, timeout=PATIENCE
        )
        assert asked.headers["Location"].startswith(f"{self.url}/mod/lti/auth.php?"), asked.text
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(asked.headers["Location"]).query).items()
        }
        assert query["redirect_uri"] == f"{browser.hub}/hub/lti13/oauth_callback"
        now = time.time()
        claims = {
            **{
                "iss": self.url,
                "aud": CLIENT,
                "sub": "7",
                "iat": now,
                "exp": now + 60,
                "nonce": query["nonce"],
            },
            CLAIM + "message_type": "LtiResourceLinkRequest",
            CLAIM + "version": "1.3.0",
            CLAIM + "deployment_id": "1",
            CLAIM + "target_link_uri": link["target_link_uri"],
            CLAIM + "resource_link": {"id": "lesson"},
            CLAIM + "roles": ["http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"],
            CLAIM + "custom": {"person": name},
        }
        token = jwt.encode(claims, key or self.key, "RS256", {"kid": "1"})
        form = {"id_token": token, "state": query["state"]}
        return browser.session.post(query["redirect_uri"], form, timeout=PATIENCE)


@pytest.fixture
def platform() -> Iterator[Platform]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    keys = json.dumps({"keys": [{**public, "kid": "1", "use": "sig", "alg": "RS256"}]}).encode()

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/mod/lti/certs.php" else 404)
            self.end_headers()
            self.wfile.write(keys)

    server = ThreadingHTTPServer((LOOPBACK, 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Platform(f"http://{LOOPBACK}:{server.server_port}", key)
    server.shutdown()
    server.server_close()


@pytest.mark.rare
def test_a_platform_says_who_somebody_is(make_bench: Callable[[], Bench], platform: Platform) -> None:
    bench = make_bench()
    (drop_in,) = re.findall(
        r"```python\n(c\.JupyterHub\.authenticator_class = \"lti.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    course = Course(bench, "ann")
    make_private(bench.folder / HUB).joinpath(DROP_IN).write_text(drop_in.replace(SCHOOL, platform.url))
    bench.labctl("restart", HUB)

    ann, eve = course.browser("ann"), course.browser("eve")
    forged = platform.launch(ann, "ann", key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    assert (forged.status_code, ann.signed_in) == (400, False)
    assert platform.launch(ann, "ann").ok
    ann.open_lab()
    code, said = ann.type("echo $RAYLAB_STORAGE")
    assert (code, said.strip()) == (0, "s3://ray/people/ann")

    platform.launch(eve, "eve")
    eve.get("/hub/spawn")
    assert not (bench.folder / HUB / "homes" / "eve").exists()
