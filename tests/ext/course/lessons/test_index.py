"""The page that JupyterLab opens on: its links, its lessons, and that no file of the workspace has it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.ext.course.lessons import lessons
from lab.ext.course.lessons.index import index
from lab.host.jupyter import INDEX
from tests.conftest import ROOT

OWN = {
    "RAYLAB_NAME": "mine",
    "RAYLAB_RUNTIME": "local",
    "RAYLAB_DASHBOARD_URL": "http://127.0.0.1:8265",
    "RAYLAB_CLASS_URL": "",
}
ANNS = {
    "RAYLAB_RUNTIME": "class",
    "RAYLAB_PERSON": "ann",
    "RAYLAB_CLASS_URL": "https://class.example.org/class/",
}


def test_every_lesson_is_linked_and_is_there() -> None:
    links = re.findall(r"\]\((notebooks/[^)]+)\)", index(OWN, lessons()))
    assert links == [f"notebooks/{lesson.notebook}" for lesson in lessons()]
    assert all((ROOT / "workspace" / link).is_file() for link in links)


def test_the_page_of_ones_own_lab_leads_to_the_dashboard_and_says_where_its_token_is() -> None:
    page = index(OWN, lessons())
    assert "lab `mine`" in page
    assert "[Ray's dashboard](http://127.0.0.1:8265)" in page
    assert "$RAY_AUTH_TOKEN_PATH" in page
    assert "`labctl queue` in a terminal" in page
    assert "class" not in page


def test_the_teachers_own_page_leads_to_the_class_too() -> None:
    page = index({**OWN, "RAYLAB_CLASS_URL": "http://127.0.0.1:8280/class/"}, lessons())
    assert "(http://127.0.0.1:8280/class/)" in page
    assert "(http://127.0.0.1:8265)" in page


def test_a_container_has_no_labctl() -> None:
    assert "on the host" in index({**OWN, "RAYLAB_RUNTIME": "inside"}, lessons())


def test_the_page_of_a_person_leads_to_the_class_and_says_which_lessons_she_can_do() -> None:
    page = index({**ANNS, "RAYLAB_DASHBOARD_URL": "http://127.0.0.1:8265"}, lessons())
    assert page.startswith("# Welcome, ann\n")
    assert "(https://class.example.org/class/)" in page
    assert "8265" not in page
    where = dict(re.findall(r"^\| (\d+) \|.*\| ([^|]*)\|$", page, re.MULTILINE))
    assert where["0"].strip() == where["2"].strip() == ""
    assert where["7"] == where["2"]
    assert where["10"].startswith("in a lab of your own")
    assert "the token that your teacher gave you" in page


def test_where_the_class_is_containers_the_teacher_shows_the_lessons_that_break_a_node() -> None:
    page = index({**ANNS, "RAYLAB_CLASS_CONTAINERS": "1"}, lessons())
    assert re.findall(r"^\| (\d+) \|.*\| your teacher shows it \|$", page, re.MULTILINE) == ["7", "11"]


def test_jupyterlab_is_set_to_open_on_it_as_a_page() -> None:
    config = SimpleNamespace(ServerApp=SimpleNamespace(), LabApp=SimpleNamespace())
    file = ROOT / "compose" / "jupyter" / "jupyter_server_config.py"
    exec(compile(file.read_text(), file, "exec"), {"get_config": lambda: config})
    assert config.LabApp.default_url == f"/lab/tree/{INDEX}"
    module, _, name = config.ServerApp.contents_manager_class.rpartition(".")
    assert (module, name) == ("lab.ext.course.lessons.contents", "Contents")
    overrides = ROOT / "compose" / "jupyter" / "labconfig" / "default_setting_overrides.json"
    viewers = json.loads(overrides.read_text())["@jupyterlab/docmanager-extension:plugin"]
    assert viewers == {"defaultViewers": {"markdown": "Markdown Preview"}}


def test_the_page_is_among_the_files_though_none_has_it(tmp_path: Path) -> None:
    pytest.importorskip("jupyter_server", reason="needs the group `jupyter`")
    from tornado.web import HTTPError

    from lab.ext.course.lessons.contents import Contents

    (tmp_path / "README.md").write_text("hello")
    files = Contents(root_dir=str(tmp_path))
    top: dict[str, Any] = asyncio.run(files.get("", content=True))
    assert sorted(entry["name"] for entry in top["content"]) == ["README.md", INDEX]
    page = asyncio.run(files.get(INDEX))
    assert "## Lessons" in str(page["content"])
    assert (page["type"], page["format"], page["writable"]) == ("file", "text", False)
    assert asyncio.run(files.get(INDEX, content=False))["content"] is None
    assert asyncio.run(files.file_exists(INDEX))
    assert not asyncio.run(files.file_exists("other.md"))
    assert asyncio.run(files.get("README.md"))["content"] == "hello"
    with pytest.raises(HTTPError, match="made anew"):
        asyncio.run(files.save({"type": "file", "format": "text", "content": "x"}, INDEX))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
