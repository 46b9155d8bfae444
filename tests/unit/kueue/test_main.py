"""`python -m kueue simulate`: the simulator without a lab."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kueue.__main__ import main
from tests.conftest import ROOT

README = (ROOT / "kueue" / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def queues(tmp_path: Path) -> str:
    """The file of the README's example."""
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "queues.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_example_tells_its_story(queues: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", queues]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if " Admitted " in line] == [
        ["0.000", "s", "Admitted", "alice/first", "in", "blue"],
        ["600.000", "s", "Admitted", "alice/second", "in", "blue"],
    ]
    assert lines[-1].startswith("after 900 s")


def test_a_document_ends_where_it_was_told_to(queues: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", queues, "--until", "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["end"] == 30


def test_what_is_wrong_is_told_with_file_and_line(
    tmp_path: Path, queues: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(Path(queues).read_text().replace("nominalQuota", "nominalQuoat"), encoding="utf-8")
    assert main(["simulate", str(bad)]) == 2
    assert f"{bad}:" in capsys.readouterr().err
    assert main(["simulate", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("until", ["soon", "nan", "-1"])
def test_an_end_is_a_length_of_time(queues: str, until: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", queues, f"--until={until}"])
    assert ended.value.code == 2
