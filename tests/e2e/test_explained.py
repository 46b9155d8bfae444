"""Failures that a class meets first, as Ray really tells them, and the examples of the page on them."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.e2e.harness import PATIENCE, SCRIPTS, Bench

FAILED = 9


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("trains_without_a_module.py", "module"),
        ("reads_a_laptop.py", "path"),
        pytest.param("shares_a_gpu.py nccl", "gpu-twice", marks=pytest.mark.rare),
    ],
)
def test_a_failure_is_explained_where_it_is_met(bench: Bench, script: str, cause: str) -> None:
    argv = ("submit", "--json", "--", "python", *script.split())
    ended = bench.start(*argv, cwd=SCRIPTS).end(2 * PATIENCE)
    assert ended.code == FAILED, ended
    explained = ended.document["explanation"]
    assert explained, ended.document["last_lines"]
    assert explained["cause"] == cause
    assert f"cause: {explained['title']} (" in ended.err
    assert explained["docs"] in ended.err
    shown = bench.labctl("jobs", "show", ended.document["submission_id"], "--json").document
    assert shown["explanation"] == explained


def test_the_example_with_a_function_for_ray_tune_works(bench: Bench) -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = page.partition("### `tune.Tuner was given a trainer")[2]
    block = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert block is not None
    folder = bench.home / "tuner-example"
    folder.mkdir()
    (folder / "train.py").write_text(block[1])
    ended = bench.labctl("submit", "--", "python", "train.py", cwd=folder, timeout=2 * PATIENCE)
    assert "{'lr': 0.1}" in ended.out
