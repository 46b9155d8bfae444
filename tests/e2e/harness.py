"""A real lab as its user has it: a home, a name, a command line to type, and a look at what runs."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil

from lab.lab import Lab
from lab.runtime import ports
from lab.runtime.base import Runtime
from lab.runtime.local import state
from lab.runtime.local.processes import FORK_SERVER_OF, MARK
from lab.runtime.local.runtime import LocalRuntime
from lab.runtime.local.services import FORKS
from lab.topology import State
from tests.built import ALERTMANAGER, PROMETHEUS
from tests.go_programs import Program
from tests.lanes import TEARDOWN_SECONDS
from tests.programs import search_path
from tests.waiting import PATIENCE, eventually

__all__ = ("PATIENCE", "ROOT", "SCRIPTS", "UP", "Bench", "Ended", "Running", "Shell", "holders")

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "scripts"

UP = ("up", "--gpu", "simulated")

LOOKS = 3
"""Looks at a lab before a service of it counts as silent: each gives it two seconds."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Every JSON document on stdout, in order."""
        decoder, text, documents = json.JSONDecoder(), self.out.strip(), []
        while text:
            document, end = decoder.raw_decode(text)
            documents.append(document)
            text = text[end:].lstrip()
        return documents

    @property
    def document(self) -> Any:
        """The last JSON document on stdout."""
        return self.documents[-1]

    def __str__(self) -> str:
        return f"{' '.join(self.argv)}: exit code {self.code}\n{self.out}\n{self.err}"


class Running:
    """A command that goes on, with what it has written to stderr so far."""

    def __init__(self, argv: tuple[str, ...], environment: Mapping[str, str], cwd: Path) -> None:
        self.argv = argv
        self.process = subprocess.Popen(
            argv,
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: Any) -> None:
        for line in stream:
            self._lines[name].append(line)

    def written(self, stream: str) -> str:
        """What it has written to `out` or `err` so far."""
        return "".join(self._lines[stream])

    def says(self, *words: str, timeout: float = PATIENCE) -> None:
        """Wait for a line on stderr with all these words; fails when the command ends without one."""

        def said() -> bool:
            ended = self.process.poll() is not None
            if any(all(word in line for word in words) for line in list(self._lines["err"])):
                return True
            assert not ended, f"{self.argv} ended with {self.process.returncode}: {self._lines['err'][-5:]}"
            return False

        try:
            eventually(said, timeout, f"{self.argv[-1]} says {words}")
        except KeyboardInterrupt:
            self.interrupt()
            raise

    def interrupt(self) -> None:
        """End it as Ctrl-C would, which does not reach its session; it has less time than pytest itself."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(TEARDOWN_SECONDS / 4)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Signal this one process, not its group: what it has started must be ended by itself."""
        self.process.send_signal(number)

    def end(self, timeout: float = PATIENCE) -> Ended:
        """Wait until it has ended; one that does not is killed and fails the test."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            said = "".join(self._lines["err"][-20:])
            raise AssertionError(f"{self.argv} has not ended after {timeout:g} s:\n{said}") from None
        except KeyboardInterrupt:  # which does not reach its session
            self.interrupt()
            raise
        for reader in self._readers:
            reader.join(10)
        return Ended(self.argv, code, "".join(self._lines["out"]), "".join(self._lines["err"]))


def holders(port: int) -> dict[int, str]:
    """Who listens on a port: process id -> the lab's mark, empty for what belongs to no lab."""
    marks = {}
    for connection in psutil.net_connections("tcp"):
        local = connection.laddr[1] if connection.laddr else None
        if connection.status == psutil.CONN_LISTEN and local == port and connection.pid:
            with contextlib.suppress(psutil.NoSuchProcess):
                environment = psutil.Process(connection.pid).environ()
                marks[connection.pid] = environment.get(MARK, "") or environment.get(FORK_SERVER_OF, "")
    return marks


class Shell(ABC):
    """One lab under a name of its own, in a home that may hold others, and the shell to type labctl in."""

    kind: str
    """Its runtime."""

    def __init__(self, home: Path, prefix: str = "e2e") -> None:
        self.home = home
        self.name = f"{prefix}-{secrets.token_hex(3)}"
        self.folder = home / self.name

    @abstractmethod
    def runtime(self) -> Runtime:
        """The lab's runtime, as a new process would open it."""

    @property
    def lab(self) -> Lab:
        """The lab as a new process would open it."""
        return Lab(self.runtime())

    @property
    def environment(self) -> dict[str, str]:
        """That of the shell in which labctl is typed."""
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("RAY", "AWS_", "CI", "LABCTL", "PYTHONPATH"))
        }
        return {
            **kept,
            "LABCTL_NO_VENV": "1",
            "RAYLAB_HOME": str(self.home),
            "RAYLAB_NAME": self.name,
            "RAYLAB_RUNTIME": self.kind,
        }

    def start(self, *arguments: str, cwd: Path | None = None) -> Running:
        """Type `labctl ARGUMENTS` and leave it running."""
        argv = (sys.executable, str(ROOT / "labctl.py"), *arguments)
        return Running(argv, self.environment, cwd or self.home)

    def labctl(
        self, *arguments: str, code: int | None = 0, timeout: float = PATIENCE, cwd: Path | None = None
    ) -> Ended:
        """Type `labctl ARGUMENTS` and wait; the exit code must be `code`, unless that is None."""
        ended = self.start(*arguments, cwd=cwd).end(timeout)
        assert "Traceback" not in ended.err, ended
        assert code is None or ended.code == code, ended
        return ended

    def from_outside(self, folder: Path, given: Mapping[str, str], *arguments: str) -> Ended:
        """Type it where the lab's store is known and nothing else of it, with `given` in the environment."""
        endpoints = self.lab.endpoints()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAYLAB", "AWS"))}
        environment = kept | {
            "LABCTL_NO_VENV": "1",
            "RAYLAB_HOME": str(folder / "home"),
            "AWS_ACCESS_KEY_ID": endpoints.credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoints.credentials.secret_key,
            **given,
        }
        place = ("--storage", "s3://ray", "--endpoint", endpoints.s3, "--json")
        argv = (sys.executable, str(ROOT / "labctl.py"), *arguments, *place)
        ended = Running(argv, environment, folder).end(400)
        assert ended.code == 0, ended
        return ended

    def healthy(self) -> bool:
        """Whether every service is. One that a busy machine kept from answering in time is asked again."""
        return any(self.lab.status().healthy for _ in range(LOOKS))

    def remove(self) -> None:
        """Remove the lab, whatever state it is in."""
        self.runtime().down(volumes=True)

    # Jobs

    def submit(self, *command: str, runtime_env: Mapping[str, Any] | None = None) -> str:
        """Start one of the scripts beside this file; returns the job's id."""
        more: tuple[str, ...] = ()
        if runtime_env:
            path = self.home / f"env-{secrets.token_hex(3)}.json"
            path.write_text(json.dumps(runtime_env))
            more = ("--runtime-env", str(path))
        argv = ("submit", "--detach", "--json", *more, "--", "python", *command)
        return str(self.labctl(*argv, cwd=SCRIPTS).document["submission_id"])

    def digits(self, **settings: object) -> str:
        """Start the digits recipe; returns the job's id."""
        pairs = [
            word for name, value in settings.items() for word in ("-p", f"{name.replace('_', '-')}={value}")
        ]
        return str(self.labctl("submit", "digits", "--detach", "--json", *pairs).document["submission_id"])

    def stop_jobs(self) -> None:
        """Stop every job that has not ended."""
        for job in self.lab.jobs.list():
            if not job.final:
                self.lab.jobs.stop(job.submission_id)

    def where(self, job: str) -> str:
        """The service that rank 0 of a job runs on, once it does."""
        lab = self.lab

        def placed() -> str:
            assert not lab.jobs.get(job).final, lab.jobs.logs(job)[-3000:]
            workers = lab.placement(job).workers
            return workers[0][1] if workers else ""

        return eventually(placed, PATIENCE, f"job {job} has a worker")

    def succeeds(self, job: str, timeout: float = PATIENCE) -> None:
        """Wait until a job has succeeded."""
        lab = self.lab
        assert lab.jobs.wait(job, timeout).status == "SUCCEEDED", lab.jobs.logs(job)[-3000:]

    def final_checkpoint(self, job: str) -> Any:
        """What Lightning saved last in a job, as torch reads it from the object store."""
        import io

        import torch

        newest = self.lab.history(job).runs[-1].checkpoints[-1]
        key = newest.uri.removeprefix("s3://ray/") + "/checkpoint.ckpt"
        return torch.load(io.BytesIO(self.lab.store.get(key)), map_location="cpu", weights_only=False)

    def state_of(self, service: str) -> State:
        """The service's state as a new process sees it."""
        status = self.lab.status().service(service)
        assert status is not None
        return status.state


class Bench(Shell):
    """A lab of plain processes."""

    kind = "local"
    programs: ClassVar[tuple[Program, ...]] = (PROMETHEUS, ALERTMANAGER)
    """On its PATH before others where labctl has built them."""

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        return {**given, "PATH": search_path(self.programs, given.get("PATH", os.defpath))}

    def runtime(self) -> LocalRuntime:
        return LocalRuntime(self.name, self.folder)

    # What runs

    def processes(self) -> dict[int, psutil.Process]:
        """Every living process that carries the lab's mark, or its folder in its command line."""
        by_pid = {}
        for process in psutil.process_iter():
            try:
                environment, folder = process.environ(), str(self.folder)
                marks = (environment.get(MARK, "").rpartition(":")[0], environment.get(FORK_SERVER_OF, ""))
                named = folder in " ".join(process.cmdline())
                if (folder in marks or named) and process.status() != psutil.STATUS_ZOMBIE:
                    by_pid[process.pid] = process
            except (psutil.Error, OSError):
                continue
        return by_pid

    def servers_of_ray(self) -> set[psutil.Process]:
        """Those that live as long as their node; workers are started and ended by Ray as it needs them."""
        return {
            process for process in self.processes().values() if process.name() in ("gcs_server", "raylet")
        }

    def state(self) -> state.LabState:
        """The state file, which must be there."""
        recorded = state.load(self.folder)
        assert recorded is not None, f"{self.folder} has no state file"
        return recorded

    def leaders(self) -> dict[str, tuple[int, float]]:
        """Process id and start time of each service's first process."""
        leaders = self.state().leaders
        return {name: (who.pid, who.started_at) for name, who in leaders.items() if name != FORKS}

    def nothing_left(self, used_ports: Mapping[str, int]) -> None:
        """Assert that the lab has no process, no port, no state file and no temporary folder any more."""
        runtime = self.runtime()
        assert [" ".join(p.cmdline())[:150] for p in self.processes().values()] == []
        taken = {name: holders(port) for name, port in used_ports.items() if not ports.is_free(port)}
        # A port that has become free may at once be chosen by another lab of this machine.
        assert {name: who for name, who in taken.items() if not who or not all(who.values())} == {}
        assert not (self.folder / state.FILE).exists()
        assert not runtime._layout.ray_temporary.exists()
        assert not runtime._layout.scratch.exists()
        assert not runtime.status().up
