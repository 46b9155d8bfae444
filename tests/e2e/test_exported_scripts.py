"""The shell scripts of an export, on a machine that lacks what they need."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from lab.ext.kubernetes.compose_folder import compose_folder
from lab.ext.kubernetes.export.request import ExportRequest
from lab.ext.kubernetes.export.texts import render
from lab.topology import LabSpec

KUBECTL = """#!/bin/sh
# Knows no Secret, and keeps each one that is made.
case "$*" in
*"get secret"*) exit 1 ;;
*"apply"*) cat >/dev/null ;;
*) cat >"$MADE/$(echo "$*" | sed 's/.*generic \\([^ ]*\\).*/\\1/')" ;;
esac
"""
TOOLS = ("sh", "od", "tr", "cat", "sed", "openssl", "mkdir", "grep", "id", "dirname")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs, which a test takes some from."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        if place := shutil.which(name):
            (programs / name).symlink_to(place)
    (programs / "kubectl").write_text(KUBECTL)
    (programs / "kubectl").chmod(stat.S_IRWXU)
    return programs


def ran(script: Path, machine: Path, made: Path) -> subprocess.CompletedProcess[str]:
    made.mkdir(exist_ok=True)
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "MADE": str(made)}
    return subprocess.run(
        ["sh", str(script)],
        check=False,
        env={"PATH": str(machine), "HOME": os.environ["HOME"], **keys},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_tokens_of_a_cluster_are_random_without_openssl_and_never_empty(
    tmp_path: Path, machine: Path
) -> None:
    script, made = tmp_path / "secrets.sh", tmp_path / "made"
    script.write_text(render("secrets.sh.j2", ExportRequest(LabSpec(gcs_ft=True))))
    (machine / "openssl").unlink(missing_ok=True)
    done = ran(script, machine, made)
    assert done.returncode == 0, done.stderr
    tokens = [(made / f"raylab-{name}").read_text() for name in ("token", "redis")]
    assert [len(token) for token in tokens] == [64, 64]
    assert tokens[0] != tokens[1]
    (machine / "od").unlink()
    done = ran(script, machine, tmp_path / "none")
    assert (done.returncode, list((tmp_path / "none").iterdir())) == (1, [])
    assert "no random bytes" in done.stderr


def test_the_secrets_of_a_compose_folder_are_never_empty(tmp_path: Path, machine: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "compose").mkdir(parents=True)
    files = compose_folder(LabSpec())
    (folder / "secrets.sh").write_bytes(files["secrets.sh"])
    (folder / "compose" / ".env").write_bytes(files["compose/.env"])
    kept = folder / "compose" / "secrets"
    (machine / "openssl").rename(tmp_path / "openssl")
    done = ran(folder / "secrets.sh", machine, tmp_path / "made")
    assert (done.returncode, kept.exists()) == (1, False)
    assert "openssl is missing" in done.stderr
    (tmp_path / "openssl").rename(machine / "openssl")
    done = ran(folder / "secrets.sh", machine, tmp_path / "made")
    assert done.returncode == 0, done.stderr
    assert len((kept / "ray.token").read_text()) == 64
    assert all(path.stat().st_size for path in kept.iterdir())
    assert b"openssl" in files["secrets.sh"]
