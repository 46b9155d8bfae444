"""A package of somebody else's adds a fault, a command and a check: one file, installed as a wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import PATIENCE, ROOT, SCRIPTS, Bench, Running

NAME = "raylab_eviction"
INFO = f"{NAME}-1.0.dist-info"
FILES = {
    f"{NAME}.py": (SCRIPTS / f"{NAME}.py").read_text(encoding="utf-8"),
    f"{INFO}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": f"[raylab.extensions]\neviction = {NAME}:EXTENSION\n",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("extension")
    wheel = folder / f"{NAME}-1.0-py3-none-any.whl"
    record = "".join(f"{path},,\n" for path in (*FILES, f"{INFO}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**FILES, f"{INFO}/RECORD": record}.items():
            archive.writestr(path, text)
    argv = (str(Path(sys.executable).parent / "uv"), "pip", "install", "--no-index", "--no-deps")
    target = ("--target", str(folder / "packages"), str(wheel))
    subprocess.run([*argv, *target], check=True, capture_output=True, timeout=PATIENCE)
    return folder / "packages"


def started(bench: Bench, installed: Path, *arguments: str) -> Running:
    """A command where the wheel is installed."""
    environment = {**bench.environment, "PYTHONPATH": str(installed)}
    return Running((sys.executable, str(ROOT / "labctl.py"), *arguments, "--json"), environment, bench.home)


def document(command: Running) -> Any:
    """What it prints."""
    ended = command.end()
    assert ended.code == 0, ended
    return json.loads(ended.out)


def test_its_command_and_its_check_are_there(bench: Bench, installed: Path) -> None:
    assert document(started(bench, installed, "spot")) == {"price": 0.25}
    checks = {check["name"]: check for check in document(started(bench, installed, "doctor"))["checks"]}
    assert checks["spot"]["outcome"] == "passed"
    assert checks["spot"]["detail"] == "the lab is up"


def test_its_fault_is_injected_and_judged(bench: Bench, installed: Path, tmp_path: Path) -> None:
    job = bench.submit("resumes.py", str(tmp_path / "may-end"))
    fault = started(bench, installed, "fault-inject", "--fault", "eviction", "--job", job)
    fault.says("fault", "eviction")
    (tmp_path / "may-end").touch()
    receipt = document(fault)
    assert (receipt["verdict"], receipt["fault"]["kind"]) == ("recovered", "eviction")
    assert receipt["fault"]["effect"] == "was evicted"
