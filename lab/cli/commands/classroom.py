"""class: the people of a class, with a token each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import documents, format, render, values
from lab.cli.context import App, LabGroup, pass_app
from lab.errors import NotFoundError, RefusedError, UsageError
from lab.host.files import write_private
from lab.host.quantities import plural
from lab.people import roster
from lab.people.links import MOST_DAYS, as_csv, as_page, csv_text
from lab.people.policy import Role

if TYPE_CHECKING:
    from lab.flows.people import Classroom
    from lab.people.registry import Invitation, Newcomer

name_argument = click.argument("name", type=values.Text(), help="A person of the class.")
out_option = click.option(
    "--output", "out", type=values.Place(dir_okay=False), metavar="FILE",
    help="Write the tokens to this CSV file, which only you can read, instead of the terminal.",
)  # fmt: skip


@click.group("class", cls=LabGroup)
def class_() -> None:
    """Add, list and remove the people of a class.

    Each has a token of her own. A lab that was started with `labctl up --class` serves jobs and queues to
    them; docs/class.md explains it.
    """


@class_.command()
@click.argument("names", type=values.Text(), nargs=-1, metavar="[NAME...]", help="Such as ann ben.")
@click.option(
    "--file", type=values.Place(dir_okay=False), metavar="FILE",
    help="A CSV file with the columns name and, if wanted, role.",
)  # fmt: skip
@click.option("--count", type=int, metavar="N", help="Add this many people, called student01, student02, ...")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), default=Role.STUDENT.value, show_default=True,
    help="Role of all who are named or counted.",
)  # fmt: skip
@out_option
@pass_app
def add(
    app: App, names: tuple[str, ...], file: Path | None, count: int | None, role: str, out: Path | None
) -> None:
    """Add people: all of them, or nobody if anything is wrong.

    Each gets a token, which is shown once, a queue and a key of the object store.
    """
    classroom = _open(app)
    newcomers = _newcomers(names, file, count, Role(role), classroom)
    with _new_files(out) as write:
        invitations = classroom.add(newcomers, lambda made: write([_as_csv(made)]))
    _hand_out(app, invitations, out, classroom)


def _newcomers(
    names: Sequence[str], file: Path | None, count: int | None, role: Role, classroom: Classroom
) -> tuple[Newcomer, ...]:
    if sum((bool(names), file is not None, count is not None)) != 1:
        raise UsageError("class add: give names, or a --file, or a --count", "labctl class add ann ben")
    taken = classroom.registry.people()
    if file is not None:
        return roster.read_csv(file, taken)
    if count is not None:
        return roster.counted(count, taken, role)
    return roster.checked(names, role)


@class_.command("list")
@pass_app
def list_(app: App) -> None:
    """List the people with role, token's date and unfinished jobs."""
    classroom = _open(app)
    people, jobs = classroom.registry.people().values(), classroom.jobs()
    if app.out.as_json(documents.persons(people, jobs)):
        return
    if not people:
        app.out.line("nobody is in the class yet: labctl class add NAME")
        return
    rows = (
        (
            one.name,
            one.role.value,
            "removal not finished" if one.leaving else format.clock(one.token_at),
            str(jobs.get(one.name, 0)),
        )
        for one in people
    )
    app.out.show(render.table(("NAME", "ROLE", "TOKEN OF", "JOBS"), rows))


@class_.command()
@name_argument
@click.option(
    "--keep-work/--delete-work", "keep", default=True, show_default="--keep-work",
    help="Keep her stored objects, checkpoints too, or delete them.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@pass_app
def remove(app: App, name: str, keep: bool, yes: bool) -> None:
    """Remove a person: her token ends, her jobs are stopped. Her work is kept, unless --delete-work is given.

    Somebody who is added later under the same name gets the work that was kept.
    """
    classroom = _open(app)
    classroom.registry.get(name)
    if not keep and not yes:
        count = plural(classroom.objects(name), "stored object")
        home = ", and her home in JupyterHub" if classroom.has_home(name) else ""
        app.confirm(f"--delete-work deletes, for good: {count} of {name}{home}")
    done = classroom.remove(name, delete=not keep)
    if app.out.as_json(done):
        return
    stopped = f"stopped {', '.join(done.stopped)}" if done.stopped else "no job of hers was unfinished"
    app.out.line(f"{name} was removed: {stopped}")
    fate = "deleted" if done.deleted else "kept"
    app.out.line(f"{plural(done.objects, 'stored object')} of hers: {fate}")


@class_.command()
@click.argument("names", type=values.Text(), nargs=-1, required=True, metavar="NAME...", help="Such as ann.")
@out_option
@pass_app
def reset(app: App, names: tuple[str, ...], out: Path | None) -> None:
    """Give people new tokens; the old ones end at once. Their jobs go on."""
    classroom = _open(app)
    with _new_files(out) as write:
        invitations = classroom.reset(names, lambda made: write([_as_csv(made)]))
    _hand_out(app, invitations, out, classroom)


@class_.command()
@click.option("--csv", "as_csv", is_flag=True, help="Print it as CSV, for a spreadsheet.")
@pass_app
def progress(app: App, as_csv: bool) -> None:
    """Show, lesson by lesson, what each person has passed by the reports that were collected.

    `claimed` is a lesson whose report says so, and of which the lab has no trace.
    """
    from lab.people.progress import read_progress

    registry = _open(app).registry
    kept = read_progress(registry.path.parent)
    if app.out.as_json(documents.progress(kept)):
        return
    head = ("name", *map(str, kept.lessons))
    rows = []
    for name in registry.people():
        states = {one.lesson: one.state for one in kept.people.get(name, ())}
        rows.append((name, *(states.get(number, "") for number in kept.lessons)))
    if as_csv:
        app.out.line(csv_text(head, rows).rstrip())
    elif not kept.lessons:
        app.out.line("no report was collected yet: labctl class collect DIR")
    else:
        app.out.show(render.table(tuple(text.upper() for text in head), rows))


@class_.command()
@click.argument("names", type=values.Text(), nargs=-1, metavar="[NAME...]", help="Such as ann.")
@click.option("--all", "everybody", is_flag=True, help="Everybody of the class.")
@click.option(
    "--days", type=values.WholeNumber(1, MOST_DAYS), default=7, show_default=True, metavar="N",
    help="Days after which a link that was not used ends.",
)  # fmt: skip
@click.option(
    "--output", "out", type=values.Place(dir_okay=False), metavar="FILE",
    help="Write the links to this CSV file, which only you can read, instead of the terminal.",
)  # fmt: skip
@click.option(
    "--page", type=values.Place(dir_okay=False), metavar="FILE",
    help="Write a page of HTML to print, a card for each person, which only you can read.",
)  # fmt: skip
@pass_app
def invite(
    app: App, names: tuple[str, ...], everybody: bool, days: int, out: Path | None, page: Path | None
) -> None:
    """Make a link for each person, with which she signs in to JupyterHub once.

    It ends when it is used, with its last day, with another link of hers, and with `class reset` and
    `class remove`.
    """
    classroom = _open(app)
    if bool(names) == everybody:
        raise UsageError("class invite: give names, or --all", "labctl class invite ann ben")
    if everybody:
        people = classroom.registry.people().values()
        if not (names := tuple(one.name for one in people if not one.leaving)):
            raise NotFoundError("nobody is in the class yet", "labctl class add NAME")
    with _new_files(out, page) as write:
        links = classroom.invite(
            names, days, lambda made: write([as_csv(made), as_page(f"Lab {app.name}", made)])
        )
    hidden = out is not None or page is not None
    if app.out.as_json(documents.links(links, hidden=hidden)):
        return
    if not hidden:
        rows = ((one.name, one.last_minute, one.address) for one in links)
        app.out.show(render.table(("NAME", "UNTIL", "LINK"), rows))
        app.out.note("each link is shown this once, and works once; `labctl class invite NAME` makes another")
    for file in filter(None, (out, page)):
        app.out.line(f"{plural(len(links), 'link')} in {file}, which only you can read")


def _open(app: App) -> Classroom:
    from lab.flows.people import Classroom

    return Classroom(app.open(), clock=app.clock, say=app.out.note)


@contextlib.contextmanager
def _new_files(*files: Path | None) -> Iterator[Callable[[Sequence[str]], None]]:
    """Yield what writes a text into each of these files that is wanted; what fails leaves none of them.

    Raises RefusedError for one that is there, before anybody gets a token, SetupError.
    """
    written: list[Path] = []

    def refuse(file: Path) -> None:
        if file.exists():
            raise RefusedError(f"{file} is there already", "choose another name for the file")

    def write(texts: Sequence[str]) -> None:
        for file, text in zip(files, texts, strict=True):
            if file is not None:
                refuse(file)
                write_private(file, text)
                written.append(file)

    for file in filter(None, files):
        refuse(file)
    try:
        yield write
    except Exception:
        for file in written:
            file.unlink(missing_ok=True)
        raise


def _as_csv(invitations: Sequence[Invitation]) -> str:
    return csv_text(("name", "role", "token"), map(_row, invitations))


def _row(invitation: Invitation) -> tuple[str, str, str]:
    return invitation.person.name, invitation.person.role.value, invitation.token


def _hand_out(app: App, invitations: Sequence[Invitation], out: Path | None, classroom: Classroom) -> None:
    """Show the tokens, or where they are."""
    address = classroom.address
    rows = [*map(_row, invitations)]
    if app.out.as_json(documents.invited(address, rows, hidden=out is not None)):
        return
    if out is not None:
        app.out.line(f"{plural(len(rows), 'token')} in {out}, which only you can read")
    else:
        app.out.show(render.table(("NAME", "ROLE", "TOKEN"), rows))
        app.out.note("each token is shown this once; `labctl class reset NAME` makes another one")
    trust = (
        " SSL_CERT_FILE=$PWD/class.pem REQUESTS_CA_BUNDLE=$PWD/class.pem" if classroom.own_authority else ""
    )
    variables = f"RAY_ADDRESS={address} RAY_AUTH_MODE=token RAY_AUTH_TOKEN=...{trust}"
    app.out.note(f"each person types: export RAYLAB_RUNTIME=class {variables}, then `ray job` or `labctl`")


COMMANDS = (class_,)
