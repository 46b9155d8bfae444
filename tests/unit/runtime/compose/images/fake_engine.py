"""An engine in memory: what labctl asks of `docker`, and what a scripted one answers."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, cast

from lab.host.environment.progress import Printer
from lab.runtime.compose.engine import DockerEngine


class FakeDocker:
    """Answers command lines; `journal` has each one, without `docker`."""

    def __init__(self, *images: str, labels: Mapping[str, str] | None = None, size: int = 1_000_000) -> None:
        self.images = {name: {"labels": dict(labels or {}), "size": size} for name in images}
        self.journal: list[tuple[str, ...]] = []
        self.answers: dict[str, tuple[int, str]] = {}
        """First word or words of a command line -> exit code and output."""
        self.gets: dict[str, str] = {}
        """First words of a command line -> the image that is there afterwards."""
        self.archive = b""
        self.save_code = 0
        self.on_call: Callable[[tuple[str, ...]], None] = lambda _: None

    def run(
        self, argv: Sequence[str], on_line: Callable[[str], None], **_: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, self._run(argv, on_line), "", "")

    def _run(self, argv: Sequence[str], on_line: Callable[[str], None]) -> int:
        words = tuple(argv[1:] if argv[0] == "docker" else argv)
        self.journal.append(words)
        self.on_call(words)
        line = " ".join(words)
        if words[:2] == ("image", "inspect"):
            return self._inspect(words[4:], on_line)
        for start, (code, output) in self.answers.items():
            if line.startswith(start):
                for printed in output.splitlines():
                    on_line(printed)
                return code
        for start, name in self.gets.items():
            if start in line:
                self.images[name] = {"labels": {}, "size": 7}
        if words[0] == "tag":
            self.images[words[2]] = self.images[words[1]]
        if words[0] == "pull":
            self.images[words[1]] = {"labels": {}, "size": 5}
        if words[:2] == ("buildx", "build"):
            label = next((word.partition("=")[2] for word in words if word.startswith("CONTENT=")), "")
            self.images[words[words.index("--tag") + 1]] = {"labels": {"io.raylab.content": label}, "size": 9}
        return 0

    def _inspect(self, names: Sequence[str], on_line: Callable[[str], None]) -> int:
        code = 0
        for name in names:
            if name not in self.images:
                on_line(f"Error response from daemon: No such image: {name}")
                code = 1
                continue
            known: dict[str, Any] = self.images[name]
            record: dict[str, Any] = {"Id": f"sha256:{name}", "Size": known["size"]}
            reference, _, digest = name.partition("@")
            repository = reference.rpartition(":")[0]
            record["RepoTags"] = [] if digest else [reference]
            record["RepoDigests"] = [f"{repository}@{digest}"] if digest else []
            on_line(json.dumps({**record, "Config": {"Labels": known["labels"]}}))
        return code

    def pipe(self, argv: Sequence[str], errors: IO[bytes] | int) -> subprocess.Popen[bytes]:
        self.journal.append(tuple(argv[1:]))
        if self.save_code:
            assert not isinstance(errors, int)
            errors.write(b"Error response from daemon: write /x: no space left on device\n")
        return cast("subprocess.Popen[bytes]", FakeProcess(self.archive, self.save_code))

    @property
    def engine(self) -> DockerEngine:
        return DockerEngine(stream=self.run, pipe=self.pipe)

    def calls(self, *start: str) -> list[tuple[str, ...]]:
        """The command lines that begin so."""
        return [words for words in self.journal if words[: len(start)] == start]


class FakeProcess:
    """`docker save`, over."""

    def __init__(self, output: bytes, code: int) -> None:
        self.stdout = io.BytesIO(output)
        self.code = code

    def wait(self) -> int:
        return self.code

    def poll(self) -> int:
        return self.code


def archive_of(*names: str) -> bytes:
    """An image archive as `docker save` writes it, with images that hold nothing."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        content = json.dumps([{"Config": "c.json", "RepoTags": list(names), "Layers": []}]).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def quiet(said: list[str] | None = None) -> Printer:
    """Progress whose lines are kept."""
    return Printer((lambda _: None) if said is None else said.append)
