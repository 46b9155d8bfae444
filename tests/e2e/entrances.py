"""Who comes through which entrance of a class: every cell of the table in docs/class.md.

`EntranceTests` holds for every runtime. With $RAYLAB_ENTRANCES=FILE the table of FILE is written anew:
`RAYLAB_ENTRANCES=docs/class.md labctl test --e2e --all -k entrance`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from lab.people.registry import FOLDER, Registry
from tests.e2e.browser import Browser
from tests.e2e.classes import Course
from tests.e2e.entering import Place, dump, enter_all
from tests.e2e.harness import PATIENCE, Shell
from tests.entrances import ENTRANCES, PEOPLE, write
from tests.waiting import eventually

TALK = """\
import sys; from jupyter_client.blocking.client import BlockingKernelClient as Client; kernel = Client(); \
kernel.load_connection_file(sys.argv[1]); kernel.start_channels(); \
kernel.execute("import time\\nwhile True: print('ben prints this', flush=True); time.sleep(0.2)"); \
kernel.get_iopub_msg(timeout=120)"""
"""Lets the kernel of this file print for ever."""


class EntranceTests:
    """`course` is that of ann and ben."""

    expected: ClassVar[Sequence[str]]
    """Of every entrance the names of those who come through in ann's terminal."""

    def test_who_comes_through_which_entrance(self, course: Course, tmp_path: Path) -> None:
        bench, endpoints = course.bench, course.endpoints
        course.tokens = {**course.tokens, **_staff(bench)}
        job = _furnish(course)
        people = Registry(bench.folder / FOLDER).people()
        keys = {name: (one.key.access_key, one.key.secret_key) for name, one in people.items()}
        kernels = _talk(course.people["ben"])
        own = {"job": job, "key": keys["ben"][1], "apply": _unchanged(bench), "kernels": kernels}
        names = {**own, **self.names(course)}
        known = (endpoints.authority, names, course.tokens, keys)
        at_address = enter_all(Place(endpoints.address, {}, *known, endpoints.ray_token_file))

        file = tmp_path / "place.json"
        file.write_text(dump(Place("", self.ports(course), *known, self.ray_token_file(course))))
        ann = course.people["ann"]
        code, printed = ann.type(f"{self.command(course, file)} > ~/answer.json")
        assert code == 0, printed
        in_terminal = json.loads(ann.type("cat ~/answer.json")[1])

        assert sorted(PEOPLE[1:]) == sorted(keys), "the people of the table are those of the class"
        assert _wrong(at_address, [way.address for way in ENTRANCES]) == {}
        assert _wrong(in_terminal, self.expected) == {}
        if document := os.environ.get("RAYLAB_ENTRANCES"):
            write(Path(document))

    def names(self, course: Course) -> Mapping[str, str]:
        """Where the people's `homes`, the list of `people` and, by its `pid`, ben's server are."""
        raise NotImplementedError

    def ports(self, course: Course) -> Mapping[str, str]:
        """Name of a port -> its URL in ann's terminal."""
        raise NotImplementedError

    def ray_token_file(self, course: Course) -> str:
        """Where Ray's own token is, or would be, for who types in ann's terminal."""
        raise NotImplementedError

    def command(self, course: Course, file: Path) -> str:
        """What tries all in ann's terminal, knowing the Place in this file."""
        raise NotImplementedError


def _staff(bench: Shell) -> dict[str, str]:
    """The tokens of an assistant and a teacher."""
    added = [
        bench.labctl("class", "add", role, "--role", role, "--json").document["people"][0]
        for role in ("assistant", "teacher")
    ]
    return {one["name"]: one["token"] for one in added}


def _furnish(course: Course) -> str:
    """Open the JupyterLabs of ann and ben; give ben a file, objects and a job that has ended: its name."""
    course.all(course.sign_in)
    course.all(lambda person: person.open_lab())
    assert course.people["ben"].type("echo of ben > ~/work/note.txt")[0] == 0
    course.bench.lab.store.put("people/ben/note", b"of ben")
    course.bench.lab.store.put("shared/note", b"of all")
    job = str(course.submit("ben", "first", "echo ben-first printed this").json()["job_id"])

    def ended() -> bool:
        return bool(course.ask("ben", "GET", f"/api/jobs/{job}").json()["status"] == "SUCCEEDED")

    eventually(ended, PATIENCE, f"{job} has ended")
    return job


def _talk(ben: Browser) -> str:
    """Let a kernel of ben's print for ever; the folder of the files of his kernels."""
    kernel = ben.api("POST", "kernels", {"name": "python3"}).json()["id"]
    folder = ben.type("jupyter --runtime-dir")[1].strip()
    code, printed = ben.type(shlex.join(("python", "-c", TALK, f"{folder}/kernel-{kernel}.json")))
    assert code == 0, printed
    return folder


def _unchanged(bench: Shell) -> str:
    """A request for another state of ben's queue that is the one it has."""
    objects = json.loads(json.dumps([*bench.lab.queues.objects()]))
    queues = [one for one in objects if one["kind"] == "LocalQueue"]
    (queue,) = (one for one in queues if one["metadata"]["namespace"] == "ben")
    return json.dumps({"files": [{"name": "queue.yaml", "text": json.dumps(queue)}]})


def _wrong(seen: Sequence[str], expected: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Entrances through which others come than was expected: who came, and who was expected."""
    assert len(seen) == len(expected)
    pairs = zip(ENTRANCES, seen, expected, strict=True)
    return {f"{way.name}: {way.what}": (came, awaited) for way, came, awaited in pairs if came != awaited}
