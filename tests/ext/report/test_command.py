"""labctl report: what it writes, says, and refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab.api.base import plain
from lab.host import environment
from tests.unit.cli.fakes import Labctl, receipt


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a receipt in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "ensure", lambda group, say: asked.append(group))
    asked.clear()
    (tmp_path / "receipt.json").write_text(json.dumps(plain(receipt())))
    return tmp_path


asked: list[str] = []


def test_a_file_makes_a_report_while_the_lab_is_down(labctl: Labctl, here: Path) -> None:
    labctl.down()
    result = labctl("report", "receipt.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[:2] == [
        "Training recovered: job job-1",
        f"  {Path('raylab-report-job-1') / 'report.html'}",
    ]
    assert "warning: the lab is down: curves" in result.stderr
    assert (here / "raylab-report-job-1" / "report.html").stat().st_size > 10_000
    assert asked == ["report"]


def test_json_names_the_files(labctl: Labctl, here: Path) -> None:
    labctl.down()
    document = labctl.json("report", "receipt.json", "--output", "out")["report"]
    assert set(document) == {"job", "verdict", "folder", "page", "pictures", "control", "missing"}
    assert (document["job"], document["verdict"], document["control"]) == ("job-1", "recovered", None)
    assert document["page"] == os.path.join("out", "report.html")
    assert all((here / picture).is_file() for picture in document["pictures"])
    assert len(document["missing"]) == 1


def test_a_bad_file_is_refused_before_anything_is_written_or_installed(labctl: Labctl, here: Path) -> None:
    (here / "bad.json").write_text("{}")
    result = labctl("report", "bad.json", "--output", "out")
    assert result.exit_code == 2
    assert "error: bad.json is not a receipt" in result.stderr
    assert not (here / "out").exists()
    assert asked == []


def test_a_job_of_a_lab_that_is_down_is_refused(labctl: Labctl, here: Path) -> None:
    labctl.down()
    assert labctl("report", "job-1").exit_code == 5
