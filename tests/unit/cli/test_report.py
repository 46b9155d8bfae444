"""labctl report: what it writes, says, and refuses."""

from __future__ import annotations

import json
import os
from dataclasses import replace
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


# Dashboards


def test_dashboards_are_drawn_for_the_time_that_is_asked(labctl: Labctl, tmp_path: Path) -> None:
    labctl.stub("endpoints", replace(labctl.lab.endpoints(), prometheus="http://p"))
    labctl.stub("lab.host.environment.ensure", None)
    write = labctl.stub("lab.flows.report.write_dashboards", tmp_path / "dashboards.html")
    assert labctl.ok("report", "--dashboards") == f"{tmp_path / 'dashboards.html'}\n"
    document = labctl.json("report", "--dashboards", "--last", "1h", "--output", str(tmp_path))
    assert document == {"dashboards": {"page": str(tmp_path / "dashboards.html")}}
    usual, chosen = (call.args for call in write.call_args_list)
    assert [usual[1], chosen[1]] == [Path("raylab-dashboards"), tmp_path]
    assert [window.end - window.start for window in (usual[2], chosen[2])] == [900.0, 3600.0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--dashboards",), 4, "this lab has no Prometheus"),
        (("--dashboards", "job-1"), 2, "shows the lab, not a receipt or a job"),
        (("--last", "1h"), 2, "--last is only for --dashboards"),
    ],
)
def test_dashboards_that_cannot_be_drawn_are_refused(
    labctl: Labctl, words: tuple[str, ...], code: int, message: str
) -> None:
    labctl.stub("endpoints", replace(labctl.lab.endpoints(), prometheus=""))
    ended = labctl("report", *words)
    assert ended.exit_code == code, ended.output
    assert message in ended.stderr
