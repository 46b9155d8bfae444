"""queue apply, delete, get: the objects that say who has which quota."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.api.queue_requests import Misfit, ObjectChange
from lab.cli import render, values
from lab.cli.commands.queue.files import NAMESPACE, check_namespace
from lab.cli.context import App, LabCommand, pass_app
from lab.cluster.controller import RefusedFilesError
from lab.cluster.queues import FIRST
from lab.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kueue.writing import Key, Object

EXAMPLES = ("classroom", "mlbatch", "two-teams")

KINDS = {
    "ClusterQueue": ("clusterqueue", "clusterqueues", "cq"),
    "LocalQueue": ("localqueue", "localqueues", "lq", "queue", "queues"),
    "ResourceFlavor": ("resourceflavor", "resourceflavors", "flavor", "flavors", "rf"),
    "Cohort": ("cohort", "cohorts"),
    "WorkloadPriorityClass": ("workloadpriorityclass", "workloadpriorityclasses"),
    "PriorityClass": ("priorityclass", "priorityclasses", "pc"),
    "Namespace": ("namespace", "namespaces", "ns"),
    "Configuration": ("configuration",),
}
"""Kind -> names of it, as kubectl and kueuectl take them."""


@click.command(cls=LabCommand)
@click.argument(
    "files", type=values.Place(dir_okay=False), nargs=-1, metavar="[FILE...]",
    help="YAML files with objects of Kueue; together they are one set.",
)  # fmt: skip
@click.option(
    "--example", "example_name", type=click.Choice(EXAMPLES), metavar="|".join(EXAMPLES),
    help="Queues to begin with, sized by this lab, instead of files.",
)  # fmt: skip
@NAMESPACE
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@pass_app
def apply(app: App, files: tuple[Path, ...], example_name: str | None, namespace: str, dry_run: bool) -> None:
    """Set quotas and queues from YAML files of Kueue: all of them, or nothing if anything is wrong.

    Objects that are there already are changed; jobs that run keep what they hold.
    """
    from lab.flows.queues.files import read_texts

    if bool(files) == (example_name is not None):
        raise UsageError("queue apply: name files, or an --example", FIRST)
    check_namespace(namespace)
    queues: tuple[str, ...] = ()
    texts = read_texts(files)
    lab = app.open()
    if example_name is not None:
        from lab.flows.queues.examples import example

        made = example(example_name, lab.view.spec())
        texts, queues = ((f"{example_name}.yaml", made.text),), made.queues
        app.out.note(made.note)
    try:
        applied = lab.queues.apply(texts, namespace, dry_run=dry_run)
    except RefusedFilesError as error:
        _refuse(app, error)
    for warning in applied.warnings:
        app.out.warn(_in_words(warning), warning.hint)
    if app.out.as_json({**vars(applied), "dry_run": dry_run}):
        return
    for change in applied.objects:
        app.out.line(f"{_name(change)} {change.change}{' (dry run)' if dry_run else ''}")
    if queues and not dry_run:
        app.out.note(f"submit: labctl submit digits --queue {queues[0]}   queues: {', '.join(queues)}")


def _refuse(app: App, error: RefusedFilesError) -> None:
    """Say everything that is wrong, and exit."""
    for problem in error.problems[1:]:
        app.out.ask(f"{_in_words(problem)}{f' ({problem.hint})' if problem.hint else ''}")
    app.out.complain(error, {"problems": error.problems})
    raise click.exceptions.Exit(error.exit_code)


def _in_words(problem: Misfit) -> str:
    path = f"{problem.path}: " if problem.path else ""
    return f"{problem.file}:{problem.line}: {path}{problem.message}"


def _name(item: ObjectChange) -> str:
    """`ClusterQueue classroom`, `LocalQueue ann/default`."""
    return " ".join(filter(None, (item.kind, "/".join(filter(None, (item.namespace, item.name))))))


@click.command(cls=LabCommand)
@click.argument(
    "objects", type=values.Text(), nargs=-1, metavar="[OBJECT...]",
    help="KIND/NAME, of a LocalQueue KIND/NAMESPACE/NAME, such as clusterqueue/red or lq/bob/default.",
)  # fmt: skip
@click.option(
    "--file", "files", type=values.Place(dir_okay=False), multiple=True, metavar="FILE",
    help="All objects of a YAML file, repeatable.",
)  # fmt: skip
@NAMESPACE
@pass_app
def delete(app: App, objects: tuple[str, ...], files: tuple[Path, ...], namespace: str) -> None:
    """Delete quotas and queues: all that are named, or none if one of them is still used."""
    check_namespace(namespace)
    wanted = [_key(text, namespace) for text in objects]
    if files:
        wanted += _in_files(files, namespace)
    if not wanted:
        raise UsageError("queue delete: name an object or a --file", "for example clusterqueue/red")
    deleted = app.open().queues.delete(dict.fromkeys(wanted))
    if app.out.as_json(deleted):
        return
    for item in deleted.objects:
        app.out.line(f"{_name(item)} {item.change}")


def _in_files(files: Sequence[Path], namespace: str) -> list[Key]:
    """Objects of these files. Raises UsageError for what cannot be read."""
    from lab.flows.queues.files import read_files

    read = read_files(files, namespace)
    if read.errors:
        raise UsageError(str(read.errors[0]), read.errors[0].hint)
    return [
        (place[0], place[1] if len(place) > 2 else "", place[-1] if len(place) > 1 else "")
        for place in read.places
        if place[0] != "Workload"
    ]


def _key(text: str, namespace: str) -> Key:
    """An object from KIND/NAME or KIND/NAMESPACE/NAME. Raises UsageError."""
    word, *rest = text.split("/")
    kind = _kind(word)
    if kind == "Configuration" and not rest:
        return kind, "", ""
    if len(rest) not in ((1, 2) if kind == "LocalQueue" else (1,)) or not all(rest):
        form = "localqueue/NAMESPACE/NAME" if kind == "LocalQueue" else f"{word}/NAME"
        raise UsageError(f"{text!r}: not the name of an object", f"write {form}")
    return kind, (rest[0] if len(rest) > 1 else namespace) if kind == "LocalQueue" else "", rest[-1]


def _kind(word: str) -> str:
    """The kind that a word stands for. Raises UsageError."""
    for kind, names in KINDS.items():
        if word.lower() in names:
            return kind
    raise UsageError(f"{word!r} is not a kind of object", f"known: {', '.join(KINDS)}")


@click.command(cls=LabCommand)
@click.argument(
    "what", type=values.Text(), metavar="[OBJECT]", required=False,
    help="A kind, or an object as for `queue delete`; all where it is left out.",
)  # fmt: skip
@NAMESPACE
@click.option("--yaml", is_flag=True, help="Print them as Kueue's v1beta2.")
@pass_app
def get(app: App, what: str | None, namespace: str, yaml: bool) -> None:
    """Print the quotas and queues of the lab, as `queue apply` takes them."""
    from kueue.writing import as_yaml, key_of

    check_namespace(namespace)
    if yaml and app.out.json_wanted:
        raise UsageError("--json and --yaml cannot be used together", "choose one")
    wanted = None if what is None else (_kind(what),) if "/" not in what else _key(what, namespace)
    matches = app.open().queues.objects()
    if wanted is not None:
        matches = tuple(item for item in matches if key_of(item)[: len(wanted)] == wanted)
    if wanted is not None and len(wanted) > 1 and not matches:
        raise NotFoundError(f"there is no {what}", "`labctl queue get` lists what there is")
    if yaml:
        app.out.raw_line(as_yaml(matches).rstrip("\n"))
        return
    if app.out.as_json({"objects": matches}):
        return
    if not matches:
        app.out.line("no queues yet" if what is None else f"no {what} yet")
        app.out.note(f"make some: {FIRST}")
        return
    app.out.show(render.table(("KIND", "NAMESPACE", "NAME", "SAYS"), _rows(matches)), width=render.SENTENCES)


def _rows(items: Sequence[Object]) -> Iterator[tuple[object, ...]]:
    from kueue.writing import key_of

    for item in items:
        spec = item.get("spec") or {}
        summary = {
            "ClusterQueue": spec.get("cohortName") and f"in cohort {spec['cohortName']}",
            "LocalQueue": spec.get("clusterQueue") and f"leads to {spec['clusterQueue']}",
            "Cohort": spec.get("parentName") and f"below {spec['parentName']}",
        }.get(item["kind"]) or (f"value {item['value']}" if "value" in item else "")
        yield (*key_of(item), summary)


COMMANDS = (apply, delete, get)
