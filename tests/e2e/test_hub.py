"""JupyterHub of a class: ann and ben sign in by link, and each works in a JupyterLab of her own."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Callable
from html import unescape
from pathlib import Path

import psutil
import pytest
import requests

from lab.ext.course.lessons.evidence import read_records
from lab.ext.course.lessons.results import in_store
from lab.host.jupyter import INDEX
from lab.people.registry import FOLDER, Registry
from lab.runtime import ports
from lab.services import HUB
from lab.store.below import StoreBelow
from tests.e2e.browser import Browser, processes_of
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.e2e.hubs import check_infeasible, check_jobs, check_links, check_memory, limit_memory
from tests.waiting import eventually

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.mark.long
def test_ann_and_ben(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    """Ann comes through the class's one address, ben on this machine."""
    bench = make_bench()
    limit_memory(bench)
    address = ("--address", f"localhost:{ports.choose('gateway', None, (), usual=False)}")
    up = bench.labctl(*UP, "--class", "--hub", *address, timeout=2 * PATIENCE)
    assert "all servers run as the user of labctl" in up.out + up.err
    endpoints = bench.lab.endpoints()
    handed = bench.labctl("class", "add", "ann", "ben", "--json").document["people"]
    tokens = {one["name"]: one["token"] for one in handed}
    links = {
        one["name"]: one["link"]
        for one in bench.labctl("class", "invite", "--all", "--json").document["links"]
    }
    ann, ben = Browser(endpoints.address, "ann", endpoints.authority), Browser(endpoints.hub, "ben")

    check_links(bench, ann, ben, links, tokens)
    for person in (ann, ben):
        person.open_lab()
    _check_secrets(bench, ann, tokens)
    _check_home(bench, ann)
    _check_first_lesson(bench, ann, tmp_path)

    check_jobs(ann, ben)
    check_infeasible(ann, ben, tokens)
    check_memory(ann)

    _check_kill(bench, ann)
    _check_button(bench, ben)

    bench.labctl("class", "reset", "ann")
    mark = f"{bench.folder}:{HUB}-ann"
    eventually(lambda: not processes_of(mark), PATIENCE, "ann's server ends with her token")
    eventually(lambda: not ann.signed_in, PATIENCE, "ann has to sign in again")
    assert ben.signed_in
    notebook = bench.folder / "hub" / "homes" / "ben" / "work" / "README.md"
    bench.labctl("down")
    assert notebook.exists()
    assert not bench.processes()


def _check_secrets(bench: Bench, ann: Browser, tokens: dict[str, str]) -> None:
    """No process of her server has, in environment or arguments, what is the lab's or another person's."""
    secrets = bench.runtime()._secrets()
    people = Registry(bench.folder / FOLDER).people()
    forbidden = {
        "Ray's token": secrets.ray_token,
        "the root key": secrets.root.secret_key,
        "the training key": secrets.store.secret_key,
        "JupyterLab's token": secrets.jupyter_token,
        "ben's key": people["ben"].key.secret_key,
        "ben's token": tokens["ben"],
        "her own token": tokens["ann"],
    }
    theirs = {name: processes_of(f"{bench.folder}:{name}") for name in (HUB, f"{HUB}-ann")}
    assert all(theirs.values())
    for process in (process for group in theirs.values() for process in group):
        said = " ".join([*process.environ().values(), *process.cmdline()])
        assert [name for name, secret in forbidden.items() if secret in said] == []
    everywhere = " ".join(" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    assert [name for name, secret in forbidden.items() if secret in everywhere] == []
    code, said = ann.type("env")
    assert code == 0
    given = dict(line.partition("=")[::2] for line in said.splitlines())
    assert given["AWS_SECRET_ACCESS_KEY"] == people["ann"].key.secret_key
    assert given["RAYLAB_STORAGE"] == "s3://ray/people/ann"
    bearer = Registry(bench.folder / FOLDER).bearer(given["RAY_AUTH_TOKEN"])
    assert bearer is not None
    assert bearer.name == "ann"
    again = Browser(ann.hub, "ann", ann.trusted)
    assert again.sign_in("ann", given["RAY_AUTH_TOKEN"]).status_code == 403


def _check_home(bench: Bench, ann: Browser) -> None:
    """Her home is closed, and what she saves in her copy stays there."""
    home = bench.folder / "hub" / "homes" / "ann"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    saved = ann.api("PUT", "contents/README.md", {"type": "file", "format": "text", "content": "mine"})
    assert saved.ok, saved.text
    assert (home / "work" / "README.md").read_text() == "mine"
    assert Path("workspace/README.md").read_text() != "mine"


def _check_first_lesson(bench: Bench, ann: Browser, tmp_path: Path) -> None:
    """JupyterLab opens on the lessons; she does the first one, and the class counts what she hands in."""
    assert ann.get("/user/ann/").url.endswith(f"/user/ann/lab/tree/{INDEX}")
    page = ann.api("GET", f"contents/{INDEX}").json()["content"]
    assert f"({ann.hub}/class/)" in page
    run = "python -m lab.ext.course.lessons.execute notebooks/00-first-steps.ipynb --lesson 0"
    assert ann.type(f"cd ~/work && (nohup {run} > ../said 2>&1 &)")[0] == 0
    hers = StoreBelow(bench.lab.store, "people/ann")
    typed = eventually(
        lambda: read_records(hers, 0)[1].get("typed"), PATIENCE, "the notebook asks her to type"
    )
    assert str(typed).startswith("ann-lesson-00-typed-")
    code, said = ann.type(f"ray job submit --submission-id {typed} --entrypoint-num-cpus 1 -- echo by hand")
    assert code == 0, said
    eventually(lambda: 0 in in_store(hers), PATIENCE, "the notebook has checked itself")
    code, said = ann.type("labctl lesson check 0 && labctl lesson report --student ann --output ~/ann.json")
    assert (code, "passed: 0" in said) == (0, True), said
    (tmp_path / "ann.json").write_text((bench.folder / "hub" / "homes" / "ann" / "ann.json").read_text())
    bench.labctl("class", "collect", str(tmp_path))
    progress = bench.labctl("class", "progress", "--json").document
    (standing,) = progress["people"]["ann"]
    assert (standing["lesson"], standing["state"]) == (0, "passed"), standing
    code, said = ann.type("cd ~/work && python -c 'from lab.lessons import Session; Session(10)'")
    assert (code, "changes the lab itself" in said) == (1, True), said


def _check_kill(bench: Bench, ann: Browser) -> None:
    """When the hub is killed her kernel goes on, and when `up` has brought the hub back she is signed in."""
    kernel = ann.api("POST", "kernels", {"name": "python3"}).json()["id"]
    os.kill(bench.leaders()[HUB][0], signal.SIGKILL)
    assert ann.kernels() == [kernel]
    bench.labctl("up", timeout=2 * PATIENCE)
    assert ann.signed_in
    assert eventually(ann.kernels, PATIENCE, "her server is led to again") == [kernel]


def _check_button(bench: Bench, ben: Browser) -> None:
    """A teacher ends ben's JupyterLab on the class's page; it starts again when he opens it."""
    (tom,) = bench.labctl("class", "add", "tom", "--role", "teacher", "--json").document["people"]
    page, gateway = requests.Session(), bench.lab.endpoints().gateway
    assert page.post(f"{gateway}/class/sign-in", {"name": "tom", "token": tom["token"]}).ok
    ended = {"act": "end", "on": "JupyterLab/ben"}
    link = f"/class/ask?act={ended['act']}&on={ended['on']}"

    def shown() -> bool:
        return link in unescape(page.get(f"{gateway}/class/now").text)

    eventually(shown, PATIENCE, "the page has the button")
    (*_, key) = re.findall(r'name="key" value="(.+?)"', page.get(gateway + link).text)
    assert page.post(f"{gateway}/class/do", {**ended, "key": key}).ok
    eventually(lambda: not processes_of(f"{bench.folder}:{HUB}-ben"), PATIENCE, "ben's server ends")
    eventually(lambda: not shown(), PATIENCE, "the page has it no more")
    again = page.post(f"{gateway}/class/do", {**ended, "key": key})
    assert (again.status_code, "no JupyterLab of ben runs" in again.text) == (409, True)
    ben.open_lab()
    assert ben.signed_in
