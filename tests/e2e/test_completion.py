"""Completion in a shell in which labctl is an alias, and no command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cli.commands.own import completion_script
from lab.cli.main import cli
from tests.conftest import ROOT

TYPED = """
shopt -s expand_aliases
alias labctl="{root}/labctl.py"
. {script}
COMP_WORDS=({words}) COMP_CWORD={place}
_labctl_completion labctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("labctl statu", ["status"]),
        ("labctl submit digi", ["digits"]),
        ("labctl --lab other restart ray-h", ["ray-head"]),
        ("labctl queue simu", ["simulate"]),
    ],
)
def test_bash_completes_an_alias(tmp_path: Path, words: str, completed: list[str]) -> None:
    script = tmp_path / "labctl.bash"
    script.write_text(completion_script("bash", cli))
    place = len(words.split()) - 1
    typed = TYPED.format(root=ROOT, script=script, words=words, place=place)
    done = subprocess.run(
        ["bash", "-c", typed],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "LABCTL_NO_VENV": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")
