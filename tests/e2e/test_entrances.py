"""Who comes through which entrance of a class: every cell of the table in docs/class.md.

With $RAYLAB_ENTRANCES=FILE the table of FILE is written anew:
`RAYLAB_ENTRANCES=docs/class.md labctl test --e2e --all -k entrance`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from lab.api.hub import homes
from lab.people.registry import FOLDER, Registry
from tests.e2e.classes import Course
from tests.e2e.entering import Place, dump, enter_all
from tests.e2e.harness import PATIENCE, ROOT, Bench
from tests.entrances import ENTRANCES, PEOPLE, write
from tests.waiting import eventually

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.mark.rare
def test_who_comes_through_which_entrance(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    course = Course(make_bench(), "ann", "ben")
    bench, endpoints = course.bench, course.endpoints
    course.tokens = {**course.tokens, **_staff(bench)}
    job = _furnish(course)
    server = psutil.Process(course.server("ben"))
    (port,) = {c.laddr.port for c in server.net_connections() if c.status == psutil.CONN_LISTEN}
    people = Registry(bench.folder / FOLDER)
    keys = {name: (one.key.access_key, one.key.secret_key) for name, one in people.people().items()}
    names = {
        "job": job,
        "homes": str(homes(bench.folder)),
        "people": str(people.path),
        "pid": str(server.pid),
        "key": keys["ben"][1],
        "apply": _unchanged(bench),
    }
    opened = {
        **{name: str(getattr(endpoints, name)) for name in ("hub", "gateway", "queue", "s3", "dashboard")},
        **{name: str(getattr(endpoints, name)) for name in ("prometheus", "grafana")},
        "server": f"http://127.0.0.1:{port}",
    }
    known = (endpoints.authority, names, course.tokens, keys, endpoints.ray_token_file)
    at_address = enter_all(Place(endpoints.address, {}, *known))

    file, answer = tmp_path / "place.json", tmp_path / "answer.json"
    file.write_text(dump(Place("", opened, *known)))
    code, printed = course.people["ann"].type(f"cd {ROOT} && python -m tests.e2e.entering {file} >{answer}")
    assert code == 0, printed
    in_terminal = json.loads(answer.read_text())

    assert sorted(PEOPLE[1:]) == sorted(keys), "the people of the table are those of the class"
    expected = [way.address for way in ENTRANCES], [way.terminal for way in ENTRANCES]
    assert _wrong(at_address, expected[0]) == {}
    assert _wrong(in_terminal, expected[1]) == {}
    if document := os.environ.get("RAYLAB_ENTRANCES"):
        write(Path(document))


def _staff(bench: Bench) -> dict[str, str]:
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
    (homes(course.bench.folder) / "ben" / "work" / "note.txt").write_text("of ben")
    course.bench.lab.store.put("people/ben/note", b"of ben")
    course.bench.lab.store.put("shared/note", b"of all")
    job = str(course.submit("ben", "first", "echo ben-first printed this").json()["job_id"])

    def ended() -> bool:
        return bool(course.ask("ben", "GET", f"/api/jobs/{job}").json()["status"] == "SUCCEEDED")

    eventually(ended, PATIENCE, f"{job} has ended")
    return job


def _unchanged(bench: Bench) -> str:
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
