"""A class: ann and ben submit with Ray's own tool, and neither reaches the other's job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.store import ObjectStore
from lab.store.base import AccessDeniedError
from lab.topology import REGION
from tests.e2e.harness import PATIENCE, UP, Bench

RAY = str(Path(sys.executable).parent / "ray")

SCRIPT = """
import os, sys, time
import ray
from pyarrow import fs
ray.init()
print("person", os.environ["RAYLAB_PERSON"])
store, path = fs.FileSystem.from_uri(os.environ["RAYLAB_STORAGE"])
store.create_dir(path + "/run")
with store.open_output_stream(path + "/run/result") as stream:
    stream.write(b"mine")
print("ranks", sum(ray.get([ray.remote(lambda: 1).remote() for _ in range(2)])), flush=True)
time.sleep(float(sys.argv[1]))
print("the end", flush=True)
"""


class Student:
    """Somebody at a terminal with a token of her own, and nothing else of the lab."""

    def __init__(self, gateway: str, token: str, folder: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY", "AWS_", "PYTHONPATH"))}
        own = {"RAY_ADDRESS": gateway, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        self._environment, self._folder = {**kept, **own}, folder

    def __call__(self, *argv: str) -> tuple[int, str]:
        """`ray job ...`: its exit code, and all that it prints."""
        ended = subprocess.run(
            (RAY, "job", *argv),
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.rare
def test_ann_and_ben(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    bench = make_bench()
    bench.labctl(*UP, "--class")
    handed = bench.labctl("class", "add", "ann", "ben", "--json").document
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    tokens = {one["name"]: one["token"] for one in handed["people"]}
    ann, ben = (Student(handed["gateway"], tokens[name], folder) for name in ("ann", "ben"))

    code, said = ann(
        "submit", "--submission-id", "first", "--working-dir", ".", "--", "python", "train.py", "1"
    )
    assert code == 0, said
    assert all(words in said for words in ("person ann", "ranks 2", "the end", "ann-first' succeeded")), said

    code, said = ben("submit", "--submission-id", "long", "--no-wait", "--working-dir", ".", "--", "python",
                     "train.py", "600")  # fmt: skip
    assert code == 0, said
    for argv in (("stop", "ben-long"), ("logs", "ben-long"), ("logs", "--follow", "ben-long")):
        code, said = ann(*argv)
        assert code != 0, said
        assert "this job is ben's" in said or "403" in said, said
    assert "ben-long" in ann("list")[1]
    assert ben("stop", "long")[0] == 0
    assert "STOPPED" in ben("status", "long")[1].upper()

    _check_keys(bench.lab)
    code, said = ann("list")
    again = bench.labctl("class", "reset", "ann", "--json").document["people"][0]["token"]
    assert ann("list")[0] != 0
    assert Student(handed["gateway"], again, folder)("list")[0] == 0
    gone = bench.labctl("class", "remove", "ann", "--json").document
    assert (gone["deleted"], gone["objects"] > 0) == (False, True)


def _check_keys(lab: Lab) -> None:
    """Her key of the store reaches her own part, and nothing else."""
    from lab.flows.people import Classroom

    key = Classroom(lab).registry.get("ann").key
    store = ObjectStore(lab.endpoints().s3, key, REGION)
    assert store.get("people/ann/run/result") == b"mine"
    for name in ("people/ben/x", "digits/x"):
        with pytest.raises(AccessDeniedError):
            store.put(name, b"hers")
