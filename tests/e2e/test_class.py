"""A class: ann and ben submit with Ray's own tool and with labctl, and neither reaches the other's job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
import requests
from urllib3 import PoolManager

from lab.errors import (
    CertificateError,
    ClusterError,
    LabDownError,
    RefusedError,
    UnsupportedError,
    UsageError,
)
from lab.host import http
from lab.host.certificates import fingerprint
from lab.host.clock import poll
from lab.lab import Lab
from lab.runtime import ports
from lab.services import GATEWAY, PROXY
from lab.store import ObjectStore
from lab.store.base import AccessDeniedError
from lab.topology import RECEIPTS_PREFIX, REGION, State
from tests.e2e.harness import PATIENCE, ROOT, UP, Bench, holders
from tests.waiting import eventually

TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables by which Ray's tools and labctl trust an authority (docs/class.md)."""

RAY = str(Path(sys.executable).parent / "ray")

SCRIPT = """
import os, sys, time
import ray
from pyarrow import fs
ray.init()
print("person", os.environ["RAYLAB_PERSON"])
store, path = fs.FileSystem.from_uri(os.environ["RAYLAB_STORAGE"])
store.create_dir(path + "/run")
with store.open_output_stream(path + "/run/result") as stream:
    stream.write(b"mine")
print("ranks", sum(ray.get([ray.remote(lambda: 1).remote() for _ in range(2)])), flush=True)
time.sleep(float(sys.argv[1]))
print("the end", flush=True)
"""


class Student:
    """Somebody at a terminal with a token of her own, and nothing else of the lab."""

    def __init__(self, gateway: str, token: str, folder: Path, authority: str = "") -> None:
        """`authority` is the file of the certificate that she trusts, beside none."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY", "AWS_", "PYTHONPATH"))}
        own = {"RAY_ADDRESS": gateway, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        labctl = {
            "RAYLAB_RUNTIME": "class",
            "RAYLAB_HOME": str(folder.parent / "home"),
            "LABCTL_NO_VENV": "1",
        }
        trusted = dict.fromkeys(TRUST, authority) if authority else {}
        self._environment, self.folder = {**kept, **own, **labctl, **trusted}, folder

    def __call__(self, *argv: str) -> tuple[int, str]:
        """`ray job ...`: its exit code, and all that it prints."""
        return self._type(RAY, "job", *argv)

    def labctl(self, *argv: str) -> tuple[int, str]:
        """`labctl ...`: the same. It never shows a traceback."""
        code, said = self._type(sys.executable, str(ROOT / "labctl.py"), *argv)
        assert "Traceback" not in said, said
        return code, said

    def _type(self, *argv: str) -> tuple[int, str]:
        ended = subprocess.run(
            argv,
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr


def test_ann_and_ben(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    bench = make_bench()
    bench.labctl(*UP, "--class")
    handed = bench.labctl("class", "add", "ann", "ben", "--json").document
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    tokens = {one["name"]: one["token"] for one in handed["people"]}
    ann, ben = (Student(handed["gateway"], tokens[name], folder) for name in ("ann", "ben"))

    code, said = ann(
        "submit", "--submission-id", "first", "--working-dir", ".", "--", "python", "train.py", "1"
    )
    assert code == 0, said
    assert all(words in said for words in ("person ann", "ranks 2", "the end", "ann-first' succeeded")), said

    code, said = ben("submit", "--submission-id", "long", "--no-wait", "--working-dir", ".", "--", "python",
                     "train.py", "600")  # fmt: skip
    assert code == 0, said
    for argv in (("stop", "ben-long"), ("logs", "ben-long"), ("logs", "--follow", "ben-long")):
        code, said = ann(*argv)
        assert code != 0, said
        assert "this job is ben's" in said or "403" in said, said
    assert "ben-long" in ann("list")[1]
    assert ben("stop", "long")[0] == 0
    assert "STOPPED" in ben("status", "long")[1].upper()

    _check_keys(bench.lab)
    _check_labctl(bench.lab, handed["gateway"], ann, ben)
    _check_page(bench, handed["gateway"], ann, tokens)
    _check_fault(bench.lab, ann, ben)
    code, said = ann("list")
    again = bench.labctl("class", "reset", "ann", "--json").document["people"][0]["token"]
    assert ann("list")[0] != 0
    assert ann.labctl("jobs")[0] == ClusterError.exit_code
    assert Student(handed["gateway"], again, folder)("list")[0] == 0
    gone = bench.labctl("class", "remove", "ann", "--json").document
    assert (gone["deleted"], gone["objects"] > 0) == (False, True)


@pytest.mark.rare
def test_at_one_address(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    bench, port = make_bench(), ports.choose("gateway", None, (), usual=False)
    address = f"https://localhost:{port}"
    up = bench.labctl(*UP, "--workers", "1", "--class", "--address", f"localhost:{port}")
    authority = Path(bench.lab.endpoints().authority)
    known = fingerprint(authority)
    assert all(words in up.out for words in (address, str(authority), known))
    handed = bench.labctl("class", "add", "ann", "--json").document
    assert handed["gateway"] == address
    folder, token = tmp_path / "work", handed["people"][0]["token"]
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "ballast").write_bytes(os.urandom(5 << 20))  # an upload in many parts
    ann = Student(address, token, folder, str(authority))

    code, said = ann("submit", "--working-dir", ".", "--", "python", "train.py", "1")
    assert code == 0, said
    assert all(words in said for words in ("person ann", "the end", "succeeded")), said
    code, said = ann("submit", "--submission-id", "long", "--no-wait", "--working-dir", ".", "--", "python",
                     "train.py", "600")  # fmt: skip
    assert code == 0, said
    eventually(lambda: "ranks" in ann("logs", "long")[1], PATIENCE, "it trains")
    code, said = ann.labctl("status", "--check")
    assert (code, "the token is that of ann" in said) == (0, True), said
    assert "ann-long" in ann.labctl("jobs")[1]

    _check_refusals(bench, address, authority, folder, token)
    bench.labctl("restart", PROXY)
    assert fingerprint(authority) == known
    assert "RUNNING" in ann("status", "long")[1].upper()
    assert ann("stop", "long")[0] == 0
    assert "the end" not in ann("logs", "--follow", "long")[1]
    checks = bench.labctl("doctor", "--json", code=None).document["checks"]
    assert {one["outcome"] for one in checks if one["name"] in ("address", "ports")} == {"passed"}, checks
    bench.labctl("down")
    assert holders(port) == {}


def _check_refusals(bench: Bench, address: str, authority: Path, folder: Path, token: str) -> None:
    """A wrong token, another authority, no TLS, other paths and other hosts."""
    pool = PoolManager(ca_certs=str(authority))

    def ask(path: str, host: str = "") -> int:
        headers = {"Host": host} if host else {}
        return http.request("GET", address + path, headers=headers, pool=pool).status

    code, said = Student(address, "wrong", folder, str(authority))("list")
    assert (code != 0, "Invalid authentication token" in said) == (True, True), said
    assert any("for " in line and "wrong token" in line for line in bench.lab.logs(GATEWAY))
    code, said = Student(address, token, folder).labctl("jobs")
    assert (code, "is not trusted here" in said) == (CertificateError.exit_code, True), said
    plain = http.request("GET", address.replace("https", "http") + "/healthz")
    assert (plain.status, b"HTTP request to an HTTPS server" in plain.data) == (400, True)
    for path, status in (
        ("/healthz", 200),
        ("/api/version", 401),
        ("/", 302),
        ("/metrics", 404),
        ("/x/", 404),
    ):
        assert (path, ask(path)) == (path, status)
    assert ask("/healthz", "evil.example") == 404
    taken = bench.labctl("up", "--class", "--address", "localhost:1", code=RefusedError.exit_code)
    assert "is up with other settings" in taken.err


def _check_labctl(lab: Lab, gateway: str, ann: Student, ben: Student) -> None:
    """Both type labctl: their own jobs from the queue to the end, and nothing of the other's."""
    said = [
        ann.labctl(*command.split())
        for command in ("status --check", "submit digits -p epochs=2", "jobs", "queue")
    ]
    assert [code for code, _ in said] == [0, 0, 0, 0], said
    assert "the token is that of ann (student)" in said[0][1]
    assert "succeeded" in said[1][1]
    assert "ann-first" in said[2][1]
    assert any("checkpoint" in item.key for item in lab.store.list("people/ann/")), "it has no checkpoint"

    code, printed = ben.labctl("submit", "--detach", "--quiet", "--", "python", "train.py", "600")
    assert code == 0, printed
    job = printed.strip()
    for command in ("jobs stop", "jobs logs", "jobs show", "queue hold"):
        code, printed = ann.labctl(*command.split(), job)
        assert (code, "this job is ben's" in printed) == (RefusedError.exit_code, True), printed
    assert job in ann.labctl("jobs")[1]
    for command in ("jobs show", "queue why", "jobs stop"):
        code, printed = ben.labctl(*command.split(), job)
        assert code == 0, printed
    assert "STOPPED" in printed

    for command in ("down", "heal", "class list", "jobs checkpoints"):
        assert ann.labctl(*command.split())[0] == UnsupportedError.exit_code
    folder = ann.folder
    for address, token, error, words in (
        (gateway, "wrong", ClusterError, "refused the token (HTTP 403)"),
        (lab.endpoints().dashboard, "wrong", ClusterError, "is not the gateway of a class"),
        ("http://127.0.0.1:9", "wrong", LabDownError, "does not answer"),
        (gateway, "", UsageError, "RAY_AUTH_TOKEN is not set"),
    ):
        code, printed = Student(address, token, folder).labctl("submit", "digits")
        assert (code, words in printed) == (error.exit_code, True), printed


def _check_page(bench: Bench, gateway: str, ann: Student, tokens: dict[str, str]) -> None:
    """ben sees ann's job and may not stop it; the teacher sees it run, and stops it with a button."""
    (tom,) = bench.labctl("class", "add", "tom", "--role", "teacher", "--json").document["people"]
    code, printed = ann.labctl("submit", "--detach", "--quiet", "--", "python", "train.py", "600")
    assert code == 0, printed
    job = printed.strip()
    people = {"ben": tokens["ben"], "tom": tom["token"]}
    pages = {name: requests.Session() for name in people}
    for name, page in pages.items():
        assert page.post(f"{gateway}/class/sign-in", {"name": name, "token": "wrong"}).status_code == 403
        signed_in = page.post(f"{gateway}/class/sign-in", {"name": name, "token": people[name]})
        assert (signed_in.status_code, "The class now" in signed_in.text) == (200, True), signed_in.text

    def shown(name: str) -> str:
        now = pages[name].get(f"{gateway}/class/now").text
        return " ".join(re.sub(r"<[^>]*>", " ", now).split())

    poll(
        lambda: f"{job} ann runs" in shown("tom") or None,
        timeout=PATIENCE,
        waited_for="ann's job to be seen running",
        state=lambda: shown("tom")[:1000],
    )
    eventually(lambda: f"{job} ann runs" in shown("ben"), PATIENCE, "ben sees ann's job")
    eventually(lambda: "Not all of it is known" not in shown("tom"), PATIENCE, "all of it is known")
    stop = {"act": "stop", "on": f"ann/{job}"}
    assert pages["tom"].post(f"{gateway}/class/do", stop).status_code == 403, "without the key of the form"
    for name, status in (("ben", 403), ("tom", 200)):
        asked = pages[name].get(f"{gateway}/class/ask", params=stop).text
        key = re.findall(r'name="key" value="(.+?)"', asked)[-1]
        done = pages[name].post(f"{gateway}/class/do", {**stop, "key": key})
        assert (done.status_code, "this job is ann's" in unescape(done.text)) == (status, status == 403), (
            done.text
        )
    poll(
        lambda: "(Cancelled)" in ann.labctl("jobs", "show", job)[1] or None,
        timeout=PATIENCE,
        waited_for="ann's job to be stopped",
    )
    eventually(lambda: job not in shown("tom"), PATIENCE, "a newer look at the class shows it no more")


def _check_fault(lab: Lab, ann: Student, ben: Student) -> None:
    """A node under ann's job is broken on her word, not on ben's; she sees the receipt, or leaves it down."""
    job = _train(ann, epochs=20)
    code, printed = ann.labctl("fault-inject", "--job", job, "--fault", "s3-down")
    assert (code, "in a class no fault" in printed) == (UsageError.exit_code, True), printed
    code, printed = ann.labctl("fault-inject")
    assert (code, "training went on from its checkpoint" in printed) == (0, True), printed
    names = [one.key for one in lab.store.list(f"{RECEIPTS_PREFIX}/{job}-")]
    (key,) = (name for name in names if re.fullmatch(r".*-\d+\.json", name))
    assert json.loads(lab.store.get(key))["verdict"] == "recovered"
    code, printed = ben.labctl("fault-inject", "--job", job)
    assert (code, "this job is ann's" in printed) == (RefusedError.exit_code, True), printed

    job = _train(ann, epochs=10)
    code, printed = ann.labctl("fault-inject", "--fault", "stop", "--leave-down", "--job", job)
    assert code == 0, printed
    (node,) = re.findall(r"it stays down until: labctl restart (ray-worker-\d)", printed)
    code, printed = ben.labctl("restart", node)
    assert (code, "a job that is ann's" in printed) == (RefusedError.exit_code, True), printed
    state = lab.status().service(node)
    assert state is not None
    assert state.state in (State.ABSENT, State.EXITED)
    code, printed = ann.labctl("restart", node)
    assert (code, f"{node} is healthy" in printed) == (0, True), printed
    assert lab.jobs.wait(job, PATIENCE).status == "SUCCEEDED"


def _train(ann: Student, epochs: int) -> str:
    code, printed = ann.labctl("submit", "digits", "-p", f"epochs={epochs}", "--detach", "--quiet")
    assert code == 0, printed
    return printed.strip()


def _check_keys(lab: Lab) -> None:
    """Her key of the store reaches her own part, and nothing else."""
    from lab.flows.people import Classroom

    key = Classroom(lab).registry.get("ann").key
    store = ObjectStore(lab.endpoints().s3, key, REGION)
    assert store.get("people/ann/run/result") == b"mine"
    for name in ("people/ben/x", "digits/x"):
        with pytest.raises(AccessDeniedError):
            store.put(name, b"hers")
