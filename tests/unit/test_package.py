"""The wheel, as pyproject.toml describes it: it has what labctl reaches for and needs what labctl needs."""

from __future__ import annotations

import re
import subprocess

from lab.host.environment.progress import pinned
from tests.conftest import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
OUTSIDE = {".pytest_cache", "pyproject.toml", "tests"}
"""What only a checkout has, and only `labctl test` reaches for."""


def strings(table: str, name: str) -> list[str]:
    """The list of strings called `name` in a table of pyproject.toml."""
    section = re.split(r"^\[", PROJECT.split(f"\n[{table}]\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    (listed,) = re.findall(rf"^{name} = \[(.*?)\]\n", section, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed)


def parts() -> list[str]:
    return strings("tool.hatch.build.targets.wheel", "only-include")


def test_the_wheel_needs_what_the_command_line_needs() -> None:
    lines = (ROOT / "requirements" / "cli.in").read_text(encoding="utf-8").splitlines()
    assert strings("project", "dependencies") == [line for line in lines if list(pinned(line))]


def test_every_part_of_the_wheel_is_in_the_checkout_and_in_the_sdist() -> None:
    assert all((ROOT / part).exists() for part in parts())
    assert set(parts()) <= set(strings("tool.hatch.build.targets.sdist", "only-include"))


def test_every_folder_that_labctl_reaches_for_is_in_the_wheel() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lab").rglob("*.py"))
    reached = set(re.findall(r"\bROOT / \"([\w.-]+)\"", source))
    assert {"compose", "lab"} <= reached
    assert reached - OUTSIDE <= set(parts())


def test_every_import_root_of_the_project_is_in_the_wheel() -> None:
    code = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "tests"}
    assert "lab" in code
    assert code <= set(parts())


def test_the_readme_of_the_index_leads_to_files_that_are_there_and_to_sections_of_its_own() -> None:
    argv = [str(ROOT / ".ci" / "readme"), "owner/name", "c0ffee"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    links = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
    place = re.compile(
        r"https://(?:github\.com/owner/name/blob|raw\.githubusercontent\.com/owner/name)/c0ffee/([^#]+)"
    )
    files = [match[1] for link in links if (match := place.match(link))]
    assert [link for link in links if not link.startswith(("#", "https://"))] == []
    assert {"docs/pictures/ladder-light.svg", "docs/recovery.md"} <= set(files)
    assert [file for file in files if not (ROOT / file).is_file()] == []
