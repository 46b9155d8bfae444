"""Rules, alerts and settings of compose/ as Prometheus' own tools read them; no lab is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.built import AMTOOL, PROMTOOL
from tests.conftest import ROOT
from tests.programs import needed

SETTINGS = ROOT / "compose" / "prometheus"
RULES = tuple(sorted(SETTINGS.glob("*.rules.yml")))
TESTS = Path(__file__).with_name("alerts.test.yml")


def promtool(*arguments: str) -> str:
    """What promtool says; it must accept."""
    ended = subprocess.run(
        (needed(PROMTOOL), *arguments), cwd=SETTINGS, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_amtool_accepts_the_settings() -> None:
    settings = ROOT / "compose" / "alertmanager" / "alertmanager.yml"
    check = (needed(AMTOOL), "check-config", str(settings))
    ended = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_promtool_accepts_the_settings() -> None:
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", "prometheus.yml")


@pytest.mark.parametrize("file", RULES, ids=lambda path: path.name)
def test_promtool_accepts_the_rules(file: Path) -> None:
    count = sum(len(group["rules"]) for group in yaml.safe_load(file.read_text())["groups"])
    assert f"{count} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", file.name)


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(TESTS))
