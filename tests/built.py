"""The programs that tests build with Go and run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.host.reading import parse_json
from tests.go_programs import DOWNLOAD_SECONDS, MINIO, Machine, Program, go, run_go


@dataclass(frozen=True)
class ModuleProgram(Program):
    """A program that is built in its module's folder: its go.mod keeps `go install` from it."""

    module: str = ""
    tags: tuple[str, ...] = ()
    """Build tags."""
    added: Mapping[str, str] = field(default_factory=dict)
    """File of the module that its zip lacks, such as pages that it embeds -> text in its place."""

    @property
    def options(self) -> tuple[str, ...]:
        return (*(("-tags", ",".join(self.tags)) if self.tags else ()), *super().options)

    def make(self, folder: str, machine: Machine) -> None:
        download = ("go", "mod", "download", "-json", f"{self.module}@{self.version}")
        said = run_go(self.name, download, DOWNLOAD_SECONDS, machine.environ, machine, downloads=True)
        source = parse_json(said[said.index("{") :])["Dir"]  # it may tell what it downloads first
        if self.added:
            source = self._completed(source, Path(folder, "source"))
        package = f".{self.package.removeprefix(self.module)}"
        argv = ("go", "build", "-C", source, "-o", str(Path(folder, self.name)), *self.options, package)
        go(self.name, argv, {"GOWORK": "off", "CGO_ENABLED": "0"}, machine=machine)

    def _completed(self, source: str, copy: Path) -> str:
        """Copy a module's folder, which Go keeps read-only, and add files to it. Returns the copy."""
        shutil.copytree(source, copy, copy_function=shutil.copyfile)
        for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        for name, text in self.added.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_text(text, encoding="utf-8")
        return str(copy)


PROMETHEUS_RELEASE, ALERTMANAGER_RELEASE = "v3.13.3", "v0.34.1"
"""The releases of the images in compose/lab.yaml."""


def _prometheus(name: str) -> ModuleProgram:
    """Built without discovery in clouds. Release 3.13.3 is version v0.313.3 of the module."""
    major, minor, patch = PROMETHEUS_RELEASE.removeprefix("v").split(".")
    return ModuleProgram(
        name,
        f"github.com/prometheus/prometheus/cmd/{name}",
        f"v0.{major}{int(minor):02}.{patch}",
        {"github.com/prometheus/common/version.Version": PROMETHEUS_RELEASE.removeprefix("v")},
        "github.com/prometheus/prometheus",
        ("remove_all_sd",),
    )


PROMETHEUS, PROMTOOL = _prometheus("prometheus"), _prometheus("promtool")

ALERTMANAGER, AMTOOL = (
    ModuleProgram(
        name,
        f"github.com/prometheus/alertmanager/cmd/{name}",
        ALERTMANAGER_RELEASE,
        {"github.com/prometheus/common/version.Version": ALERTMANAGER_RELEASE.removeprefix("v")},
        "github.com/prometheus/alertmanager",
        added={"ui/app/dist/index.html": "Alertmanager without its pages, which are made with npm.\n"},
    )
    for name in ("alertmanager", "amtool")
)

TESTED = (MINIO, PROMETHEUS, PROMTOOL, ALERTMANAGER, AMTOOL)
"""What the tests build and run."""
