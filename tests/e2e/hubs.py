"""Steps of ann and ben in a class with JupyterHub, on any runtime."""

from __future__ import annotations

from lab.api.hub import DROP_IN
from lab.host.files import make_private
from lab.people.registry import FOLDER, LINK, Registry
from lab.services import HUB
from tests.e2e.browser import Browser
from tests.e2e.harness import PATIENCE, Shell
from tests.waiting import eventually

HOPELESS = "no node has 2 GPUs, the largest has 1: it can never start here"


def check_links(
    bench: Shell, ann: Browser, ben: Browser, links: dict[str, str], tokens: dict[str, str]
) -> None:
    """A link signs in once, before its end, and only with the form; so do name and token."""
    assert ann.session.post(links["ann"], timeout=PATIENCE).status_code == 403  # no XSRF
    assert ann.follow(links["ann"]).ok
    assert ann.signed_in
    assert "/hub/" in ann.get("/").url
    assert "Sign in" in ann.get("/class/").text
    signed_in_by = [cookie for cookie in ann.session.cookies if cookie.name != "_xsrf"]
    assert [cookie.secure for cookie in signed_in_by] == [True] * len(signed_in_by) != []
    again = ann.session.get(links["ann"], timeout=PATIENCE)
    assert (again.status_code, "/ann" in again.url, "code=" in again.url) == (200, True, False), again.url
    other = Browser(ann.hub, "ann", ann.trusted)
    refused = other.follow(links["ann"])
    assert (refused.status_code, "used already" in refused.text) == (403, True)
    registry = Registry(bench.folder / FOLDER)
    code = registry.grant(LINK, ["ann"], 1.0)["ann"]
    assert other.follow(f"{ann.hub}/hub/invite?code={code}").status_code == 403
    assert other.sign_in("ann", tokens["ben"]).status_code == 403
    assert not other.signed_in
    assert ben.sign_in("ben", tokens["ben"]).ok
    assert ben.signed_in
    assert ann.get("/user/ben/lab").status_code in (403, 404)
    assert ann.get("/hub/admin").status_code == 403


def check_jobs(ann: Browser, ben: Browser) -> None:
    """Each submits a job out of a terminal, and stops her own only."""
    code, said = ann.type("ray job submit --submission-id first -- python -c 'print(6 * 7)'")
    assert (code, "42" in said, "succeeded" in said) == (0, True, True), said
    code, said = ben.type("labctl submit --detach --quiet -- sleep 600")
    assert code == 0, said
    job = said.split()[-1]
    assert job.startswith("ben-")
    code, said = ann.type(f"labctl jobs stop {job}")
    assert (code, "this job is ben's" in said) == (11, True), said
    code, said = ben.type(f"labctl jobs stop {job}")
    assert (code, "STOPPED" in said) == (0, True), said


def check_infeasible(ann: Browser, ben: Browser, tokens: dict[str, str]) -> None:
    """What no node can hold keeps nothing from others, and says why; both do lesson 3 meanwhile."""
    run = "python -m lab.ext.course.lessons.execute notebooks/03-an-infeasible-job.ipynb --lesson 3"
    jobs = []
    for person in (ann, ben):
        assert person.type(f"cd ~/work && (nohup {run} > ~/lesson 2>&1 &)")[0] == 0
        code, said = person.type("labctl submit --detach --quiet --num-gpus 2 -- true")
        assert code == 0, said
        jobs.append(said.split()[-1])
    code, said = ann.type("labctl submit --num-cpus 1 -- echo 'between the two'")
    assert (code, "between the two" in said) == (0, True), said
    for person, job in zip((ann, ben), jobs, strict=True):
        for line in ("labctl jobs", f"labctl queue why {job}"):
            code, said = person.type(line)
            assert (code, HOPELESS in " ".join(said.split())) == (0, True), said
    ann.session.post(f"{ann.hub}/class/sign-in", {"name": "ann", "token": tokens["ann"]}, timeout=PATIENCE)
    eventually(lambda: HOPELESS in ann.get("/class/now").text, PATIENCE, "the class's page says why")
    for person, job in zip((ann, ben), jobs, strict=True):
        assert person.type(f"ray job stop {job}")[0] == 0
    code, said = ann.type("labctl submit --fail-if-infeasible --num-gpus 2 -- true")
    assert (code, "was not submitted" in said) == (11, True), said
    for person in (ann, ben):
        eventually(lambda: '"stored"' in person.type("cat ~/lesson")[1], PATIENCE, "the lesson ends")  # noqa: B023
        code, said = person.type("labctl lesson check 3")
        assert code == 0, said


def limit_memory(bench: Shell) -> None:
    """Let the teacher's file give each person 2 GiB."""
    make_private(bench.folder / HUB).joinpath(DROP_IN).write_text('c.Spawner.mem_limit = "2G"\n')


def check_memory(ann: Browser) -> None:
    """What takes more memory than she may have is killed, and her server goes on."""
    grow = "import time; kept = b'x' * (9 << 28); time.sleep(600)"
    code, said = ann.type(f'python -c "{grow}"')
    assert (code, "Killed" in said) == (137, True), said
    assert ann.type("echo on") == (0, "on\r\n")
