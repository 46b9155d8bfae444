"""The report of a bug: it says what a maintainer needs, and nothing that is nobody's business."""

from __future__ import annotations

import json
from pathlib import Path

from lab.api.shown_here import ShownCheck
from lab.flows.doctor.report import bug_report
from lab.host.redaction import HIDDEN
from lab.version import __version__


def report(tmp_path: Path, detail: str) -> str:
    check: ShownCheck = {"name": "s3", "outcome": "failed", "detail": detail, "hint": ""}
    document = bug_report([check], labs=tmp_path / "home", user=Path("/home/ann"))
    return json.dumps(document, ensure_ascii=False)


def test_no_secret_of_a_lab_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "raylab" / "secrets"
    folder.mkdir(parents=True)
    (folder / "ray.token").write_text("0123456789abcdef\n")
    shown = report(tmp_path, "refused 0123456789abcdef")
    assert "0123456789abcdef" not in shown
    assert HIDDEN in shown


def test_no_password_of_a_url_and_no_name_of_the_user_is_in_it(tmp_path: Path) -> None:
    shown = report(tmp_path, "/home/ann/.raylab: https://ann:hunter2@mirror.example/simple failed")
    assert "hunter2" not in shown
    assert "ann" not in shown
    assert "~/.raylab" in shown
    assert "mirror.example/simple failed" in shown


def test_it_has_the_versions_and_every_check(tmp_path: Path) -> None:
    document = json.loads(report(tmp_path, "no bucket"))
    assert document["labctl"] == __version__
    assert document["checks"][0]["detail"] == "no bucket"
    assert {"installed", "python", "system"} <= set(document)
