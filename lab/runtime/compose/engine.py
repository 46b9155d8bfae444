"""The Docker Engine and its Compose plugin, through the command `docker`.

What is looked at is asked of `docker` itself and read as JSON. The command lines of what is done are
composed by python-on-whales, which also streams logs; they are run here, because its own calls have no
deadline, inherit the terminal (Compose may ask there whether to delete a volume) and end with it at Ctrl-C.
Variables of the caller's environment that Compose would prefer to the lab's env file are kept away from all.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import EngineError, WaitTimeoutError
from lab.host.command import ANSWER_END_SECONDS, OnLine, run, stream
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from python_on_whales import DockerClient

LEAST_COMPOSE = (2, 20)
"""`service_completed_successfully` with `up --wait`, and `nocopy` volumes in JSON overrides."""

ANSWER_SECONDS = 30.0
"""Deadline of one question to the engine. It answers within 0.2 s unless the machine is overloaded."""

ACT_SECONDS = 60.0
"""Deadline of one action, beside the time that it gives containers to end."""

CREATE_SECONDS = 300.0
"""Deadline of `docker compose create`."""

ENGINE_FAILED = 125
"""The exit code of `docker run` when it ran nothing."""

_RESTART = "restart it: `sudo systemctl restart docker`, or Docker Desktop"

_GONE = re.compile(
    r"container \S+ is not running|no such (container|network|volume)|network \S+ not found"
    r"|removal of container \S+ is already in progress|^exit status \d+$",
    re.I,
)
"""What the engine says of a thing that ended or went meanwhile."""

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
LAB_LABEL = "io.raylab.lab"
FOLDER_LABEL = "io.raylab.folder"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Container:
    """One container of a project, as the engine sees it now."""

    id: str
    service: str
    state: str
    """`created`, `running`, `paused`, `restarting`, `exited`, `dead` or `removing`."""
    exit_code: int = 0
    error: str = ""
    """Why the engine could not start it."""
    out_of_memory: bool = False
    health: str = ""
    """What its health check says, or empty when it has none."""
    health_output: str = ""
    restarts: int = 0
    started_at: float = 0.0
    """Seconds since the epoch; 0 when it never was."""
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    cut: bool = False
    """Whether it is on no network."""
    restart_policy: str = ""
    """When the engine starts it again by itself: `no`, `on-failure`, ..."""

    @property
    def alive(self) -> bool:
        """Whether it has processes."""
        return self.state in ("running", "paused", "restarting")


class Engine:
    """The engine that `docker` speaks to. Raises EngineError when it does not answer."""

    def __init__(self, call: Sequence[str] = ("docker",), run: Run = run, stream: Run = stream) -> None:
        """`call` is the command that stands for `docker`; a test gives another."""
        self.call = tuple(call)
        self._run, self._stream = run, stream

    # Looking

    def check(self) -> None:
        """Raises EngineError unless an engine answers and Compose is there and new enough."""
        with ThreadPoolExecutor(1) as pool:  # each takes a fifth of a second
            asked = pool.submit(self._answer, "compose", "version", "--short")
            self.check_engine()
            found = asked.result()
        if found.returncode:
            raise EngineError(
                "Docker is here, but not its Compose plugin (`docker compose`)",
                "install it: the package docker-compose-plugin, or docker-compose-v2 on Ubuntu",
            )
        version = tuple(int(part) for part in re.findall(r"\d+", found.stdout)[:2])
        if version < LEAST_COMPOSE:
            least = ".".join(map(str, LEAST_COMPOSE))
            raise EngineError(
                f"Compose {found.stdout.strip()} is too old: {least} is needed",
                "update the package docker-compose-plugin, or Docker Desktop",
            )

    def check_engine(self) -> None:
        """Raises EngineError unless an engine answers."""
        found = self._answer("version", "--format", "{{.Server.Version}}")
        if found.returncode:
            raise self._no_answer(found.stderr)

    def containers(self, project: str) -> tuple[Container, ...]:
        """The project's containers, those that do not run included."""
        ids = self.ask(
            *("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={PROJECT_LABEL}={project}")
        ).split()
        return self.inspect(ids)

    def inspect(self, ids: Sequence[str]) -> tuple[Container, ...]:
        """These containers as they are now; one that is gone is left out."""
        return tuple(_container(row) for row in self._inspected(ids, "inspect", "--type", "container"))

    def cpu_percent(self, ids: Sequence[str]) -> dict[str, float]:
        """Container -> CPU in percent of one core, over the second that the engine takes to look."""
        if not ids:
            return {}
        found = {}
        answer = self.ask("stats", "--no-stream", "--no-trunc", "--format", "{{json .}}", *ids)
        for line in answer.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = parse_json(line)
                found[str(row["ID"])] = float(str(row["CPUPerc"]).rstrip("%"))
        return found

    def volumes(self, project: str) -> dict[str, Mapping[str, str]]:
        """The project's volumes: name -> labels."""
        rows = self._inspected(self._named("volume", project), "volume", "inspect")
        return {row["Name"]: row.get("Labels") or {} for row in rows}

    def networks(self, project: str) -> tuple[str, ...]:
        """Ids of the project's networks."""
        return self._named("network", project)

    def last_lines(self, container: str, count: int, since: float = 0.0) -> str:
        """The end of a container's output, both streams together, from `since` (seconds since the epoch)."""
        argv = [*self._argv("logs", "--tail", str(count), "--since", f"{since:.6f}"), container]
        try:
            found = self._run(
                argv,
                timeout=ANSWER_SECONDS,
                env=clean_environment(),
                merged=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return found.stdout

    def ask(self, *arguments: str) -> str:
        """What `docker ARGUMENTS` prints. Raises EngineError when it fails."""
        found = self._answer(*arguments)
        if found.returncode:
            raise self._no_answer(found.stderr)
        return found.stdout

    # Doing

    @contextlib.contextmanager
    def client(self, files: Sequence[Path] = (), env_file: Path | None = None) -> Iterator[DockerClient]:
        """python-on-whales for these files. What it raises becomes an EngineError in the engine's words."""
        from python_on_whales import DockerClient
        from python_on_whales.client_config import ClientNotFoundError
        from python_on_whales.exceptions import DockerException

        kept = {name: os.environ.pop(name) for name in list(os.environ) if _hides(name)}
        try:
            yield DockerClient(
                client_call=list(self.call),
                compose_files=list(files),
                compose_env_files=[env_file] if env_file else [],
            )
        except ClientNotFoundError as error:
            raise missing_command(self.call[0]) from error
        except DockerException as error:
            raise self._no_answer(error.stderr or f"exit code {error.return_code}") from error
        finally:
            os.environ.update(kept)

    def create(self, files: Sequence[Path], env_file: Path) -> None:
        """Make the containers, networks and volumes that Compose files say and that are missing."""
        with self.client(files, env_file) as client:
            argv = [*client.compose.docker_compose_cmd, "create", "--no-build", "--no-recreate"]
        self._do(argv, "docker compose create", CREATE_SECONDS)

    def act(
        self, verb: str, names: Sequence[str], *options: str, grace: float = 0.0, gone: bool = False
    ) -> None:
        """`docker VERB OPTIONS NAMES`, which may take `grace` seconds longer than others.

        `gone`: what has ended or was removed meanwhile is no error.
        """
        with self.client() as client:
            argv = [*client.docker_cmd, *verb.split(), *options, *names]
        self._do(argv, f"docker {verb}", ACT_SECONDS + grace, gone)

    def execute(
        self, container: str, argv: Sequence[str], timeout: float, on_line: OnLine | None = None
    ) -> tuple[int, str]:
        """Run a command in a container: its exit code, and both output streams together.

        `on_line` gets each line as soon as it is there. Raises WaitTimeoutError after `timeout` seconds; the
        command may go on in the container then.
        """
        command = [*self._argv("exec", container), *argv]
        environment = clean_environment()
        try:
            if on_line is None:
                found = self._run(command, timeout=timeout, env=environment, merged=True)
            else:
                found = self._stream(
                    command, on_line, timeout=timeout, env=environment, grace=ANSWER_END_SECONDS
                )
        except subprocess.TimeoutExpired as error:
            raise WaitTimeoutError(f"`{' '.join(argv)}` has not ended after {timeout:g} s") from error
        except OSError as error:
            raise missing_command(self.call[0]) from error
        return found.returncode, found.stdout

    def run_helper(
        self, options: Sequence[str], image: str, argv: Sequence[str], timeout: float
    ) -> tuple[int, str]:
        """`docker run OPTIONS IMAGE ARGV`: its exit code, and both output streams together.

        Raises EngineError when the engine cannot run it, or after `timeout` seconds.
        """
        command = [*self._argv("run", *options, image), *argv]
        try:
            found = self._run(command, timeout=timeout, env=clean_environment(), merged=True)
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"`{' '.join(argv)}` has not ended after {timeout:g} s", _RESTART) from error
        except OSError as error:
            raise missing_command(self.call[0]) from error
        if found.returncode == ENGINE_FAILED:
            raise self._no_answer(found.stdout)
        return found.returncode, found.stdout

    # Inside

    def _argv(self, *arguments: str) -> list[str]:
        return [*self.call, *arguments]

    def _answer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(self.call[0]) is None:
            raise missing_command(self.call[0])
        try:
            return self._run(self._argv(*arguments), timeout=ANSWER_SECONDS, env=clean_environment())
        except subprocess.TimeoutExpired as error:
            raise EngineError(
                f"the Docker Engine does not answer within {ANSWER_SECONDS:g} s", _RESTART
            ) from error
        except OSError as error:
            raise missing_command(self.call[0]) from error

    def _do(self, argv: Sequence[object], called: str, timeout: float, gone: bool = False) -> None:
        try:
            found = self._run([str(word) for word in argv], timeout=timeout, env=clean_environment())
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"`{called}` has not ended after {timeout:g} s", _RESTART) from error
        except OSError as error:
            raise missing_command(self.call[0]) from error
        if found.returncode:
            lines = [line for line in found.stderr.splitlines() if line.strip()]
            left = [line for line in lines if not (gone and _GONE.search(line))]
            if left or not lines:
                raise self._no_answer("\n".join(left) or f"`{called}`: exit code {found.returncode}")

    def _inspected(self, names: Sequence[str], *question: str) -> Sequence[Mapping[str, Any]]:
        """What the engine answers of these to `docker QUESTION NAMES`; one that is gone is left out."""
        if not names:
            return ()
        found = self._answer(*question, *names)
        try:
            rows: list[Mapping[str, Any]] = parse_json(found.stdout or "[]")
        except ValueError as error:
            raise self._no_answer(found.stderr or str(error)) from error
        if found.returncode and "no such" not in found.stderr.lower():
            raise self._no_answer(found.stderr)
        return rows

    def _named(self, kind: str, project: str) -> tuple[str, ...]:
        return tuple(self.ask(kind, "ls", "--quiet", "--filter", f"label={PROJECT_LABEL}={project}").split())

    @staticmethod
    def _no_answer(text: str) -> EngineError:
        words = " ".join(text.split()) or "no reason given"
        if "permission denied" in words.lower() and "sock" in words:
            return EngineError(
                "this user may not use the Docker Engine (permission denied on its socket)",
                "`sudo usermod -aG docker $USER`, then log in again; or use --runtime local",
            )
        if re.search(
            r"cannot connect to the docker daemon|is the docker daemon running"
            r"|failed to connect to the docker api",
            words,
            re.I,
        ):
            return EngineError(
                "the Docker Engine is not running",
                "start it: `sudo systemctl start docker`, or Docker Desktop; or use --runtime local",
            )
        return EngineError(f"docker failed: {words}", "`labctl doctor` looks at the engine")


def missing_command(name: str) -> EngineError:
    """The error when the command that stands for `docker` is not there."""
    return EngineError(
        f"the command `{name}` is not installed",
        "install Docker (docs.docker.com/engine/install), or use --runtime local",
    )


def clean_environment() -> dict[str, str]:
    """The caller's environment without what Compose would prefer to the lab's own files."""
    return {name: value for name, value in os.environ.items() if not _hides(name)}


def _hides(name: str) -> bool:
    return name.startswith(("LAB_", "COMPOSE_"))


def _container(row: Mapping[str, Any]) -> Container:
    state = row["State"]
    health = state.get("Health") or {}
    log = health.get("Log") or [{}]
    labels = row["Config"].get("Labels") or {}
    return Container(
        id=row["Id"],
        service=labels.get(SERVICE_LABEL, ""),
        state=state["Status"],
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        out_of_memory=bool(state.get("OOMKilled")),
        health=str(health.get("Status") or "").replace("none", ""),
        health_output=" ".join(str(log[-1].get("Output") or "").split()),
        restarts=int(row.get("RestartCount") or 0),
        started_at=seconds(state.get("StartedAt") or ""),
        labels=labels,
        image=str(row["Config"].get("Image") or ""),
        cut=not (row.get("NetworkSettings") or {}).get("Networks"),
        restart_policy=str(((row.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name") or ""),
    )


def seconds(text: str) -> float:
    """Docker's time, such as 2026-11-21T00:33:26.531790123Z, in seconds since the epoch; 0 for none."""
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$", text)
    if not found or text.startswith("0001-"):
        return 0.0
    whole = datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3])).timestamp()
    return whole + float(found[2] or 0)
