"""The page that JupyterLab opens on: links to the lab's own pages, and the lessons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.ext.course.lessons.model import Lesson
from lab.host.jupyter import CLASS_PAGE, CONTAINERS, DASHBOARD, PERSON
from lab.topology import DEFAULT_LAB


def index(environ: Mapping[str, str], lessons: Sequence[Lesson]) -> str:
    """The page as Markdown, for the JupyterLab that has this environment."""
    place = "on the host" if environ.get("RAYLAB_RUNTIME") == "inside" else "in a terminal"
    links = _links(environ, place)
    return "\n".join((*links, "", *_lessons(lessons, environ, place)))


def _links(environ: Mapping[str, str], place: str) -> Iterator[str]:
    person, page, dashboard = (environ.get(name, "") for name in (PERSON, CLASS_PAGE, DASHBOARD))
    yield f"# {f'Welcome, {person}' if person else 'Start here'}"
    yield ""
    yield f"This JupyterLab belongs to lab `{environ.get('RAYLAB_NAME', DEFAULT_LAB)}`."
    yield ""
    if page:
        token = " It asks for your name and the token that your teacher gave you." if person else ""
        yield f"- [The class's page]({page}): jobs, queues, nodes, and what you have passed.{token}"
    if dashboard and not person:
        yield f"- [Ray's dashboard]({dashboard}) asks for a token: `cat $RAY_AUTH_TOKEN_PATH` in a terminal."
    yield "- A terminal: *File, New, Terminal*. There you type `ray job submit` and `ray job list`."
    yield f"- The queue: `labctl queue` {place}; `labctl queue why JOB` says what a job waits for."


def _lessons(lessons: Sequence[Lesson], environ: Mapping[str, str], place: str) -> Iterator[str]:
    in_class = bool(environ.get(PERSON))
    yield "## Lessons"
    yield ""
    yield "Each is a notebook: run its cells from top to bottom (Shift+Enter), and answer its questions."
    yield ""
    yield f"| lesson | | minutes |{' in this class |' if in_class else ''}"
    yield f"| --- | --- | --- |{' --- |' if in_class else ''}"
    for lesson in lessons:
        link = f"[{lesson.title}](notebooks/{lesson.notebook})"
        where = f" {_where(lesson, environ)} |" if in_class else ""
        yield f"| {lesson.number} | {link} | {lesson.minutes} |{where}"
    yield ""
    yield f"What you have passed: `labctl lesson list` {place}. To hand in:"
    yield '`labctl lesson report --student "Your Name" --output report.json`.'
    yield ""
    yield f"To begin a lesson again, run its first cell. `labctl lesson restore 2` {place} puts the notebook"
    yield "of lesson 2 back as it came, and keeps yours beside it."


def _where(lesson: Lesson, environ: Mapping[str, str]) -> str:
    """Where a person of a class does a lesson, unless it is here."""
    if not lesson.in_class:
        return "in a lab of your own"
    return "your teacher shows it" if lesson.breaks_node and environ.get(CONTAINERS) else ""
