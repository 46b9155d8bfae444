"""The Docker Engine and its Compose plugin, through the command `docker`.

Answers are asked of `docker` itself and read as JSON. python-on-whales composes the command line of Compose;
it is run here, because the library's own calls have no deadline, inherit the terminal (where Compose may ask
whether to delete a volume) and end with it at Ctrl-C. Variables of the caller that Compose would
prefer to the lab's env file are kept away from every command.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from lab.errors import EngineError, LabError, WaitTimeoutError
from lab.host.command import ANSWER_END_SECONDS, OnLine, run, start, stream
from lab.host.environment.progress import Printer
from lab.host.reading import parse_json
from lab.runtime.compose.causes import RESTART, failed, last_words, late_answer, missing_command, no_answer
from lab.runtime.compose.inspected import (
    PROJECT_LABEL,
    Container,
    ImageInfo,
    container,
    event_times,
    image,
    is_called,
)
from lab.topology import Struck

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

TAIL = 200
"""Lines of output that are kept of a program that is followed."""

CHUNK = 1 << 20

_ERROR = re.compile(r"error|got permission|permission denied|cannot connect|failed to connect", re.IGNORECASE)

_GONE = re.compile(
    r"container \S+ is not running|no such (container|network|volume)|network \S+ not found"
    r"|removal of container \S+ is already in progress|^exit status \d+$",
    re.I,
)
"""The engine's words for a thing that ended or went meanwhile."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


Pipe = Callable[["Sequence[str]", "IO[bytes] | int"], "subprocess.Popen[bytes]"]
"""Starts a command whose stdout is read as bytes; the second argument is its stderr."""


def open_pipe(argv: Sequence[str], errors: IO[bytes] | int) -> subprocess.Popen[bytes]:
    return start(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=clean_environment()
    )


class DockerEngine:
    """The engine that `docker` speaks to. Raises EngineError when it does not answer."""

    def __init__(
        self,
        call: Sequence[str] = ("docker",),
        run: Run = run,
        stream: Run = stream,
        pipe: Pipe = open_pipe,
        timeout: float = ANSWER_SECONDS,
    ) -> None:
        """`call` is the command that stands for `docker`; a test gives another, and others to run it.

        `timeout` is the time in seconds that a question may take.
        """
        self.call, self._timeout = tuple(call), timeout
        self._run, self._stream, self._pipe = run, stream, pipe

    # Looking

    def check(self) -> None:
        """Ask if an engine answers, and if Compose is there and new enough. Raises EngineError if not."""
        with ThreadPoolExecutor(1) as pool:  # each takes a fifth of a second
            asked = pool.submit(self._answer, "compose", "version", "--short")
            self.check_engine()
            answer = asked.result()
        if answer.returncode:
            raise EngineError(
                "Docker is here, but not its Compose plugin (`docker compose`)",
                "install it: the package docker-compose-plugin, or docker-compose-v2 on Ubuntu",
            )
        version = tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:2])
        if version < LEAST_COMPOSE:
            least = ".".join(map(str, LEAST_COMPOSE))
            raise EngineError(
                f"Compose {answer.stdout.strip()} is too old: {least} is needed",
                "update the package docker-compose-plugin, or Docker Desktop",
            )

    def check_engine(self) -> None:
        """Ask if an engine answers. Raises EngineError if not."""
        answer = self._answer("version", "--format", "{{.Server.Version}}")
        if answer.returncode:
            raise no_answer(answer.stderr)

    def containers(self, project: str) -> tuple[Container, ...]:
        """The project's containers, those that do not run included."""
        ids = self.ask(
            *("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={PROJECT_LABEL}={project}")
        ).split()
        return self.inspect(ids)

    def inspect(self, ids: Sequence[str]) -> tuple[Container, ...]:
        """These containers as they are now; one that is gone is left out."""
        return tuple(container(row) for row in self._inspected(ids, "inspect", "--type", "container"))

    def cpu_percent(self, ids: Sequence[str]) -> dict[str, float]:
        """Container -> CPU in percent of one core, over the second that the engine takes to look."""
        if not ids:
            return {}
        percent = {}
        answer = self.ask("stats", "--no-stream", "--no-trunc", "--format", "{{json .}}", *ids)
        for line in answer.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = parse_json(line)
                percent[str(row["ID"])] = float(str(row["CPUPerc"]).rstrip("%"))
        return percent

    def volumes(self, project: str) -> dict[str, Mapping[str, str]]:
        """The project's volumes: name -> labels."""
        rows = self._inspected(self._named("volume", project), "volume", "inspect")
        return {row["Name"]: row.get("Labels") or {} for row in rows}

    def networks(self, project: str) -> tuple[str, ...]:
        return self._named("network", project)

    def last_lines(self, container: str, count: int, since: float = 0.0) -> str:
        """The end of a container's output, both streams together, from `since` (seconds since the epoch)."""
        argv = self._argv("logs", "--tail", str(count), "--since", f"{since:.6f}", container)
        try:
            return self._run(argv, timeout=self._timeout, env=clean_environment(), merged=True).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)

    def struck(self, container: str, actions: Collection[str], around: Struck) -> Struck:
        """`around`, until the last event of these kinds: the engine tells of one only once it has acted."""
        window = ("--since", f"{around.first:.6f}", "--until", f"{around.last:.6f}")
        with contextlib.suppress(EngineError):
            events = self.ask("events", *window, "--format", "{{json .}}")
            if times := event_times(events, container, actions):
                return Struck(around.first, max(times))
        return around

    def logs(self, container: str, follow: bool, tail: int | None) -> Iterator[str]:
        """A container's output, both streams, a line at a time; the process ends with the iterator."""
        options = [*(["--follow"] if follow else []), *([] if tail is None else ["--tail", str(tail)])]
        with self._piped(self._argv("logs", *options, container), subprocess.STDOUT) as process:
            assert process.stdout is not None
            text = ""
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip("\r\n")
                yield text
            if process.wait():
                raise no_answer(text)

    def images(self, names: Sequence[str]) -> dict[str, ImageInfo]:
        """The images that the engine has, by the names asked for. Raises LabError."""
        inspected: dict[str, ImageInfo] = {}
        if not names:
            return inspected
        code, lines = self._followed(self._argv("image", "inspect", "--format", "{{json .}}", *names))
        # Beside errors `docker` writes warnings, about its configuration say.
        errors = [line for line in lines if _ERROR.match(line) and "no such image" not in line.lower()]
        if code and errors:
            raise failed("asking the Docker Engine for its images", errors)
        records = [parse_json(line) for line in lines if line.startswith("{")]
        return {name: image(record) for name in names for record in records if is_called(record, name)}

    def ask(self, *arguments: str) -> str:
        """The output of `docker ARGUMENTS`. Raises EngineError when it fails."""
        answer = self._answer(*arguments)
        if answer.returncode:
            raise no_answer(answer.stderr)
        return answer.stdout

    # Doing

    def create(self, files: Sequence[Path], env_file: Path) -> None:
        """Make the containers, networks and volumes that Compose files say and that are missing."""
        from python_on_whales import DockerClient
        from python_on_whales.client_config import ClientNotFoundError

        client = DockerClient(
            client_call=list(self.call), compose_files=list(files), compose_env_files=[env_file]
        )
        try:
            argv = [*client.compose.docker_compose_cmd, "create", "--no-build", "--no-recreate"]
        except ClientNotFoundError as error:
            raise missing_command(self.call[0]) from error
        self._do([str(word) for word in argv], "docker compose create", CREATE_SECONDS)

    def act(
        self, verb: str, names: Sequence[str], *options: str, grace: float = 0.0, gone: bool = False
    ) -> None:
        """`docker VERB OPTIONS NAMES`, which may take `grace` seconds longer than others.

        `gone`: what has ended or was removed meanwhile is no error.
        """
        argv = self._argv(*verb.split(), *options, *names)
        self._do(argv, f"docker {verb}", ACT_SECONDS + grace, gone)

    def execute(
        self, container: str, argv: Sequence[str], timeout: float, on_line: OnLine | None = None
    ) -> tuple[int, str]:
        """Run a command in a container: its exit code, and both output streams together.

        `on_line` gets each line as soon as it is there. Raises WaitTimeoutError after `timeout` seconds; the
        command may go on in the container then.
        """
        command = self._argv("exec", container, *argv)
        with self._called(WaitTimeoutError(f"`{' '.join(argv)}` has not ended after {timeout:g} s")):
            if on_line is None:
                result = self._run(command, timeout=timeout, env=clean_environment(), merged=True)
            else:
                result = self._stream(
                    command, on_line, timeout=timeout, env=clean_environment(), grace=ANSWER_END_SECONDS
                )
        return result.returncode, result.stdout

    def run_helper(
        self, options: Sequence[str], image: str, argv: Sequence[str], timeout: float
    ) -> tuple[int, str]:
        """`docker run OPTIONS IMAGE ARGV`: its exit code, and both output streams together.

        Raises EngineError when the engine cannot run it, or after `timeout` seconds.
        """
        command = self._argv("run", *options, image, *argv)
        with self._called(EngineError(f"`{' '.join(argv)}` has not ended after {timeout:g} s", RESTART)):
            result = self._run(command, timeout=timeout, env=clean_environment(), merged=True)
        if result.returncode == ENGINE_FAILED:
            raise no_answer(result.stdout)
        return result.returncode, result.stdout

    # Images: minutes and gigabytes, so their output is followed, and they end with labctl

    def call_program(
        self, argv: Sequence[str], what: str, progress: Printer | None = None, on_line: OnLine | None = None
    ) -> list[str]:
        """Run a program to its end; returns the last lines of its output.

        When it fails, its last lines go to `progress`, and the error names `what` failed. Raises LabError.
        """
        code, lines = self._followed(argv, on_line)
        if code:
            for line in last_words(lines) if progress else ():
                assert progress is not None
                progress.line(f"  | {line}")
            raise failed(what, lines)
        return lines

    def docker(
        self, *arguments: str, what: str, progress: Printer | None = None, on_line: OnLine | None = None
    ) -> list[str]:
        """`call_program` for a docker command line."""
        return self.call_program(self._argv(*arguments), what, progress, on_line)

    def pull(self, name: str, progress: Printer) -> None:
        progress.line(f"pulling {name}")
        self.docker("pull", name, what=f"pulling {name}", progress=progress, on_line=progress.update)

    def tag(self, name: str, other: str) -> None:
        self.docker("tag", name, other, what=f"naming {name}")

    @contextlib.contextmanager
    def saved(self, names: Sequence[str]) -> Iterator[Iterator[bytes]]:
        """The images as the bytes of an archive. The process ends with the context. Raises LabError."""
        with (
            tempfile.TemporaryFile() as errors,
            self._piped(self._argv("save", *names), errors) as process,
        ):
            output = process.stdout
            assert output is not None

            def chunks() -> Iterator[bytes]:
                while data := output.read(CHUNK):
                    yield data
                if process.wait():
                    errors.seek(0)
                    raise failed("saving the images", errors.read().decode(errors="replace").splitlines())

            yield chunks()

    # Inside

    @contextlib.contextmanager
    def _piped(self, argv: Sequence[str], errors: IO[bytes] | int) -> Iterator[subprocess.Popen[bytes]]:
        try:
            process = self._pipe(argv, errors)
        except FileNotFoundError:
            raise missing_command(self.call[0]) from None
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _followed(self, argv: Sequence[str], on_line: OnLine | None = None) -> tuple[int, list[str]]:
        """The exit code of a program that may take its time, and the last lines of both its streams."""
        tail: deque[str] = deque(maxlen=TAIL)

        def take(line: str) -> None:
            tail.append(line)
            if on_line is not None:
                on_line(line)

        try:
            ended = self._stream(argv, take, timeout=float("inf"), env=clean_environment())
        except FileNotFoundError:
            raise missing_command(self.call[0]) from None
        return ended.returncode, list(tail)

    @contextlib.contextmanager
    def _called(self, late: LabError) -> Iterator[None]:
        """Raise `late` when a command does not end in time, EngineError where there is no `docker`."""
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise late from error
        except OSError as error:
            raise missing_command(self.call[0]) from error

    def _argv(self, *arguments: str) -> list[str]:
        return [*self.call, *arguments]

    def _answer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(self.call[0]) is None:
            raise missing_command(self.call[0])
        with self._called(late_answer(self._timeout)):
            return self._run(self._argv(*arguments), timeout=self._timeout, env=clean_environment())

    def _do(self, argv: Sequence[str], called: str, timeout: float, gone: bool = False) -> None:
        with self._called(EngineError(f"`{called}` has not ended after {timeout:g} s", RESTART)):
            result = self._run(argv, timeout=timeout, env=clean_environment())
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.strip()]
            left = [line for line in lines if not (gone and _GONE.search(line))]
            if left or not lines:
                raise no_answer("\n".join(left) or f"`{called}`: exit code {result.returncode}")

    def _inspected(self, names: Sequence[str], *question: str) -> Sequence[Mapping[str, Any]]:
        """The engine's answers about these to `docker QUESTION NAMES`; one that is gone is left out."""
        if not names:
            return ()
        answer = self._answer(*question, *names)
        try:
            rows = list(parse_json(answer.stdout or "[]"))
        except ValueError as error:
            raise no_answer(answer.stderr or str(error)) from error
        if answer.returncode and "no such" not in answer.stderr.lower():
            raise no_answer(answer.stderr)
        return rows

    def _named(self, kind: str, project: str) -> tuple[str, ...]:
        return tuple(self.ask(kind, "ls", "--quiet", "--filter", f"label={PROJECT_LABEL}={project}").split())


def clean_environment() -> dict[str, str]:
    """The caller's environment without what Compose would prefer to the lab's own files."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("LAB_", "COMPOSE_"))}
