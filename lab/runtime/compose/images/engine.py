"""The Docker Engine's images, through its command line: each call can be followed, and ends with labctl."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from lab.host import command
from lab.host.environment.process import Run, run_process
from lab.host.environment.progress import Progress
from lab.host.reading import parse_json
from lab.runtime.compose.engine import missing_command
from lab.runtime.compose.images.causes import failed, last_words

TAIL = 200
ERROR = re.compile(r"error|got permission|permission denied|cannot connect|failed to connect", re.IGNORECASE)
CHUNK = 1 << 20

OnLine = Callable[[str], None]


@dataclass(frozen=True)
class ImageInfo:
    """One image that the engine has."""

    id: str
    size: int
    """Bytes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""


def open_stream(argv: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """A process whose output is read as bytes."""
    return command.start(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)


class ImageEngine:
    """Images of the engine that `docker` talks to; raises the LabError that its output stands for."""

    def __init__(
        self,
        run: Run = run_process,
        environ: Mapping[str, str] | None = None,
        docker: Sequence[str] = ("docker",),
        stream: Callable[[Sequence[str], IO[bytes]], subprocess.Popen[bytes]] = open_stream,
    ) -> None:
        self._run = run
        self._environ = os.environ if environ is None else environ
        self._docker = tuple(docker)
        self._stream = stream

    def call(
        self, argv: Sequence[str], what: str, progress: Progress | None = None, on_line: OnLine | None = None
    ) -> list[str]:
        """Run a program to its end; returns the last lines of its output.

        When it fails, its last lines go to `progress` and the error says what `what` failed of.
        """
        tail: deque[str] = deque(maxlen=TAIL)

        def take(line: str) -> None:
            tail.append(line)
            if on_line:
                on_line(line)

        try:
            code = self._run(list(argv), self._environ, take, lambda: None, None)
        except FileNotFoundError:
            raise missing_command(self._docker[0]) from None
        if code:
            for line in last_words(list(tail)) if progress else ():
                assert progress is not None
                progress.line(f"  | {line}")
            raise failed(what, list(tail))
        return list(tail)

    def docker(
        self, *arguments: str, what: str, progress: Progress | None = None, on_line: OnLine | None = None
    ) -> list[str]:
        """`call` for a docker command line."""
        return self.call([*self._docker, *arguments], what, progress, on_line)

    def inspect(self, names: Sequence[str]) -> dict[str, ImageInfo]:
        """Those of the images that the engine has, by the names asked for."""
        found: dict[str, ImageInfo] = {}
        if not names:
            return found
        lines: list[str] = []
        argv = [*self._docker, "image", "inspect", "--format", "{{json .}}", *names]
        try:
            code = self._run(argv, self._environ, lines.append, lambda: None, None)
        except FileNotFoundError:
            raise missing_command(self._docker[0]) from None
        # Beside errors `docker` writes warnings, about its configuration say.
        errors = [line for line in lines if ERROR.match(line) and "no such image" not in line.lower()]
        if code and errors:
            raise failed("asking the Docker Engine for its images", errors)
        records = [parse_json(line) for line in lines if line.startswith("{")]
        for name in names:
            for record in records:
                if _is_called(record, name):
                    labels = (record.get("Config") or {}).get("Labels") or {}
                    found[name] = ImageInfo(record["Id"], record["Size"], labels, record.get("Created", ""))
        return found

    def pull(self, name: str, progress: Progress) -> None:
        """Fetch an image from its registry."""
        progress.line(f"pulling {name}")
        self.docker("pull", name, what=f"pulling {name}", progress=progress, on_line=progress.update)

    def tag(self, name: str, other: str) -> None:
        """Give an image another name."""
        self.docker("tag", name, other, what=f"naming {name}")

    @contextmanager
    def saved(self, names: Sequence[str]) -> Iterator[Iterator[bytes]]:
        """The images as the bytes of an archive. The process ends with the context."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = self._stream([*self._docker, "save", *names], errors)
            except FileNotFoundError:
                raise missing_command(self._docker[0]) from None
            output = process.stdout
            assert output is not None

            def chunks() -> Iterator[bytes]:
                while data := output.read(CHUNK):
                    yield data
                if process.wait():
                    errors.seek(0)
                    raise failed("saving the images", errors.read().decode(errors="replace").splitlines())

            try:
                yield chunks()
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
                output.close()


def _is_called(record: Mapping[str, object], name: str) -> bool:
    """Whether an image of the engine answers to `name`, which may have a tag, a digest or both."""
    tags, digests = record.get("RepoTags") or [], record.get("RepoDigests") or []
    assert isinstance(tags, list)
    assert isinstance(digests, list)
    reference, _, digest = name.partition("@")
    if not digest:
        full = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
        return any(_short(full) == _short(tag) for tag in tags) or record.get("Id") == name
    repository, separator, tag = reference.rpartition(":")
    repository = repository if separator and "/" not in tag else reference
    return any(_short(f"{repository}@{digest}") == _short(each) for each in digests)


def _short(name: str) -> str:
    """A name as the engine shows it: without the registry that is meant anyway."""
    return name.removeprefix("docker.io/").removeprefix("library/")
