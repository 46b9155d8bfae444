"""Hosted CI calls the scripts that are here, with pinned actions and no more rights than it needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXT = {path: path.read_text(encoding="utf-8") for path in FILES}


def workflow(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(TEXT[path])
    return document


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_version_beside_it(path: Path) -> None:
    uses = re.findall(r"uses: (.+)", TEXT[path])
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_its_jobs_end(path: Path) -> None:
    document = workflow(path)
    assert document["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 120 for job in document["jobs"].values())


def test_one_action_has_one_commit_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for text in TEXT.values():
        for action in re.findall(r"uses: (.+)", text):
            pins.setdefault(action.split("@")[0], set()).add(action)
    assert all(len(pinned) == 1 for pinned in pins.values()), pins


def test_the_scripts_that_are_called_are_here_and_can_be_run() -> None:
    scripts = set(re.findall(r"(?<![\w/])\.ci/\w+", "".join(TEXT.values())))
    assert {".ci/run", ".ci/site", ".ci/wheel"} <= scripts
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)


@pytest.mark.skipif(sys.platform != "linux", reason=".ci/images is for Debian")
def test_a_base_image_can_be_made_where_an_engine_was_there_already(tmp_path: Path) -> None:
    """apt brings mmdebstrap, which .ci/engine installs only where it starts an engine."""
    journal = tmp_path / "journal"
    for tool in ("bash", "cp", "dirname", "env", "mkdir", "mktemp", "rm", "tail"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    note = f'#!/bin/bash\necho "${{0##*/}} $*" >> {journal}\n'
    programs = {
        "docker": '[ "$1 $2" != "image inspect" ]\n',
        "apt-get": f'[ "$2" != install ] || cp {tmp_path}/python3 {tmp_path}/mmdebstrap\n',
        "python3": "",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(note + text)
        (tmp_path / name).chmod(0o755)
    subprocess.run([ROOT / ".ci/images"], env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, check=True)
    calls = [line.split()[0] for line in journal.read_text().splitlines()]
    assert calls == ["docker", "apt-get", "apt-get", "mmdebstrap", *["docker"] * 3, "python3"]


def test_unit_tests_run_on_every_python_that_labctl_takes() -> None:
    matrix = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["unit"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert any(entry["os"].startswith("macos") for entry in matrix["include"])


def test_a_release_publishes_the_wheel_the_images_and_the_site() -> None:
    jobs = workflow(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert {"index", "images", "site"} <= jobs.keys()
    assert all(jobs[name]["needs"] == "build" for name in ("index", "images", "site"))


def test_every_image_that_is_pinned_by_digest_is_one_that_renovate_reads() -> None:
    settings = json.loads((ROOT / ".github" / "renovate.json").read_text(encoding="utf-8"))
    (pattern,) = settings["docker-compose"]["managerFilePatterns"]
    files = [path for path in sorted((ROOT / "compose").rglob("*.y*ml")) if "@sha256:" in path.read_text()]
    assert files
    assert [path for path in files if not re.search(pattern.strip("/"), str(path.relative_to(ROOT)))] == []
