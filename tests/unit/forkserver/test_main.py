"""`python -m forkserver -- ray start`: what it takes for that command."""

from __future__ import annotations

import pytest

from forkserver.__main__ import USAGE, command_of, main

START = ["ray", "start", "--head"]


@pytest.mark.parametrize("arguments", [["--", *START], START])
def test_it_starts_a_node_of_ray(arguments: list[str]) -> None:
    assert command_of(arguments) == START


@pytest.mark.parametrize("arguments", [[], ["--"], ["--", "ray", "stop"], ["--", "python", "train.py"]])
def test_it_starts_nothing_else(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{USAGE}\n"
