"""A class of many: each signed in at the one address, with a JupyterLab of her own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import requests

from lab.runtime import ports
from lab.services import HUB
from lab.topology import Endpoints
from tests.e2e.browser import Browser, processes_of
from tests.e2e.harness import PATIENCE, UP, Shell

T = TypeVar("T")


class Course:
    """A lab, and its people with their browsers."""

    def __init__(self, bench: Shell, *names: str) -> None:
        """Start the lab and add people: what `labctl class add` takes."""
        self.bench = bench
        address = ("--address", f"localhost:{ports.choose('gateway', None, (), usual=False)}")
        bench.labctl(*UP, "--workers", "1", "--class", "--hub", *address, timeout=2 * PATIENCE)
        self.endpoints: Endpoints = bench.lab.endpoints()
        people = bench.labctl("class", "add", *names, "--json").document["people"]
        self.tokens: Mapping[str, str] = {one["name"]: one["token"] for one in people}
        self.people = {name: self.browser(name) for name in self.tokens}

    def browser(self, name: str) -> Browser:
        """Another browser of somebody's, which is not signed in."""
        return Browser(self.endpoints.address, name, self.endpoints.authority)

    def all(self, do: Callable[[Browser], T]) -> dict[str, T]:
        """Let all do something at the same time; what it gives of each."""
        with ThreadPoolExecutor(len(self.people)) as pool:
            return dict(zip(self.people, pool.map(do, self.people.values()), strict=True))

    def sign_in(self, person: Browser) -> None:
        """Sign in at JupyterHub and at the class's page, which starts her server, too."""
        token = self.tokens[person.name]
        assert person.sign_in(person.name, token).ok
        form = {"name": person.name, "token": token}
        assert person.session.post(f"{person.hub}/class/sign-in", form, timeout=PATIENCE).ok

    def ask(self, name: str, method: str, path: str, document: Any = None) -> requests.Response:
        """Ask the gateway with somebody's token, as Ray's tools do."""
        browser = self.browser(name)
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        url = self.endpoints.address + path
        return browser.session.request(method, url, json=document, headers=headers, timeout=PATIENCE)

    def submit(self, name: str, job: str, command: str) -> requests.Response:
        """Submit a job as Ray's tools do. All of them run beside each other."""
        document = {"entrypoint": command, "submission_id": job, "entrypoint_num_cpus": 0.01}
        return self.ask(name, "POST", "/api/jobs/", document)

    def mark(self, name: str) -> str:
        """The mark of the processes of somebody's server."""
        return f"{self.bench.folder}:{HUB}-{name}"

    def kernels(self) -> dict[str, set[int]]:
        """The process ids of everybody's kernels."""
        return {
            name: {p.pid for p in processes_of(self.mark(name)) if "ipykernel" in " ".join(p.cmdline())}
            for name in self.people
        }

    def server(self, name: str) -> int:
        """The process id of somebody's server."""
        pids = [p.pid for p in processes_of(self.mark(name)) if "jupyterhub.singleuser" in p.cmdline()]
        assert len(pids) == 1, (name, pids)
        return pids[0]

    def attempts(self) -> dict[str, list[str]]:
        """Job of the queues -> the jobs of Ray's that were made of it."""
        made = [
            (job.metadata.get("raylab_workload", ""), job.submission_id) for job in self.bench.lab.jobs.list()
        ]
        grouped = itertools.groupby(sorted(made), key=lambda pair: pair[0])
        return {workload: [name for _, name in pairs] for workload, pairs in grouped}
