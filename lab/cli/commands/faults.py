"""faults, fault-inject, demo: breaking a lab on purpose, and the proof that training recovered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from lab.cli import documents, receipt_panel, render, text, values
from lab.cli.commands.services import prepare
from lab.cli.complete import target_names
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.gpu_options import gpu_options
from lab.cli.live import ProgressLines, Story
from lab.errors import LabError, ServiceError, UsageError, VerdictError

if TYPE_CHECKING:
    from lab.flows.demo import DemoResult
    from lab.flows.recovery import Outcome
    from lab.lab import Lab
    from lab.spec import Asked

NOT_WHOLE = {
    "recovered, lab not whole": "training recovered, but the lab is not whole",
    "as-expected, lab not whole": "training went as it should, but the lab is not whole",
}
"""Headline of a receipt (see lab.evidence.receipt.headline) -> what is wrong."""
WEIGHTS = {"equal": "identical, bit for bit"}
DEFAULT_TIMEOUT = 120.0
MAX_EPOCH = 10_000_000
MAX_DEMO_EPOCHS = 1000


def fault_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The faults of the catalogue, for the shell."""
    from lab.faults import catalogue

    return [kind.name for kind in catalogue() if kind.name.startswith(incomplete)]


def warn_of_broken(app: App) -> None:
    """Say which faults of one's own could not be loaded; the others can be used."""
    from lab.faults import problems

    for problem in problems():
        app.out.warn(problem.message, problem.hint)


@click.command(cls=LabCommand)
@pass_app
def faults(app: App) -> None:
    """List the faults and what is right after each.

    Parameters are given with -p NAME=NUMBER, in the unit that stands beside them; `for` also as --for TIME.
    """
    warn_of_broken(app)
    kinds = app.core.faults()
    if app.out.json_wanted:
        app.out.document({"faults": [documents.fault_kind(kind) for kind in kinds]})
        return
    for kind in kinds:
        app.out.line(f"{kind.name}: {kind.summary}")
        for parameter in kind.parameters:
            default = "" if parameter.default is None else f" (default: {parameter.default:g})"
            needed = " (required)" if parameter.required else ""
            app.out.line(f"  {parameter.name} [{parameter.unit}]: {parameter.summary}{default}{needed}")
        app.out.line(f"  expected: {kind.expected.text}")
        app.out.line(f"  undone: {kind.revert}")
        if kind.needs:
            app.out.line(f"  only on the runtime {' and '.join(kind.runtimes)}")


@click.command("fault-inject", cls=LabCommand)
@click.argument(
    "target", type=values.Text(), required=False, shell_complete=target_names,
    help="The service to break, such as ray-worker-0. [default: where rank 0 trains; the store; the head]",
)  # fmt: skip
@click.option(
    "--fault", "kind", type=values.Text(), default="kill", show_default=True, metavar="FAULT",
    shell_complete=fault_names,
    help="What to do to it; see `labctl faults`.",
)  # fmt: skip
@click.option(
    "-p", "pairs", type=values.Text(), multiple=True, metavar="NAME=NUMBER",
    help="A parameter of the fault; see `labctl faults`.",
)  # fmt: skip
@click.option(
    "--job", "job_id", type=values.Text(), metavar="ID",
    help="Which job to watch. [default: the one that runs]",
)  # fmt: skip
@click.option(
    "--after-epoch", type=values.WholeNumber(0, MAX_EPOCH), metavar="N",
    help="Wait for the checkpoint of this epoch. [default: the first checkpoint]",
)  # fmt: skip
@click.option(
    "--after", type=values.Duration(zero=True), metavar="TIME", help="Wait this long instead, such as 10s."
)
@click.option("--for", "duration", type=values.Duration(), metavar="TIME", help="How long the fault lasts.")
@click.option(
    "--timeout", type=values.Duration(), metavar="TIME",
    help="Longest wait for the moment to inject, and again for training to go on. "
    "[default: as long as the job gets on]",
)  # fmt: skip
@click.option(
    "--wait/--no-wait", default=True, help="Follow the recovery to its receipt, or do not. [default: wait]"
)
@click.option(
    "--control/--no-control", default=False,
    help="Then repeat the job undisturbed, and compare every epoch and the weights. [default: no-control]",
)  # fmt: skip
@pass_app
def fault_inject(
    app: App,
    target: str | None,
    kind: str,
    pairs: tuple[str, ...],
    job_id: str | None,
    after_epoch: int | None,
    after: float | None,
    duration: float | None,
    timeout: float | None,
    wait: bool,
    control: bool,
) -> None:
    """Break something and follow the recovery to its receipt.

    A node, a training process, a checkpoint, the object store, or the head.

    Exits with 0 only when the verdict is `recovered` or `as-expected`, else with 10. With --no-wait it exits
    with 0 once the fault has been injected and undone. The fault is undone whatever happens, Ctrl-C included.
    """
    from lab.flows.recovery import FaultRequest

    if after_epoch is not None and after is not None:
        raise UsageError("--after-epoch and --after exclude each other", "name one moment to inject at")
    if control and not wait:
        raise UsageError("--control and --no-wait exclude each other", "a control run follows the receipt")
    request = FaultRequest(
        target=target or "",
        kind=kind,
        job=job_id or "",
        after_epoch=after_epoch,
        after_seconds=after,
        duration=duration,
        timeout=timeout,
        parameters=values.numbers(pairs),
    )
    warn_of_broken(app)
    lab = app.open().lab
    with Story(app.out) as story:
        outcome = app.core.inject(lab, request, story.moment, wait=wait, control=control)
    if outcome.receipt is None:
        _not_waited(app, outcome)
        return
    _finish(app, outcome.receipt.to_json())


@click.command(cls=LabCommand)
@pass_app
def heal(app: App) -> None:
    """Undo what a labctl that died has broken.

    Frozen or cut-off nodes, a store that is down, a damaged checkpoint: what was being done on purpose is
    undone. Exits with 8 when something could not be undone; it can be called again.
    """
    lab = app.open().lab
    done = app.core.heal(
        lab,
        lambda entry: app.out.note(f"undoing {entry.kind} of {entry.target}, of {text.clock(entry.at)}"),
        ProgressLines(app.out).progress,
    )
    if app.out.json_wanted:
        app.out.document({"healed": [documents.healed(item) for item in done]})
    elif not done:
        app.out.line("nothing to heal")
    else:
        for item in done:
            state = f"NOT undone: {item.problem}" if item.problem else "undone"
            app.out.line(f"{item.kind} {item.target}: {state}")
    problem = next((item for item in done if item.problem), None)
    if problem is not None:
        error = ServiceError(
            f"{problem.kind} of {problem.target} could not be undone: {problem.problem}",
            f"labctl restart {problem.target}; labctl heal again"
            if lab.status().up
            else "labctl up; labctl heal again",
        )
        app.out.complain(error, document=False)
        raise click.exceptions.Exit(error.exit_code)


def _not_waited(app: App, outcome: Outcome) -> None:
    fault = outcome.fault
    revert = next((kind.revert for kind in app.core.faults() if kind.name == fault.kind), "")
    bring_back = "" if fault.reverted_at is not None else f"labctl restart {fault.target}"
    if app.out.json_wanted:
        app.out.document({"fault": documents.fault(fault), "revert": revert, "next": bring_back})
        return
    app.out.line(f"{fault.kind} {fault.target}: injected at {text.clock(fault.at)}")
    if fault.reverted_at is not None:
        app.out.line(f"undone {text.seconds(fault.reverted_at - fault.at)} later: {revert}")
    else:
        app.out.line(f"not undone yet; {revert}; bring it back: {bring_back}")
    app.out.note("what became of the job: labctl jobs")


def _finish(app: App, document: Mapping[str, Any]) -> None:
    """Print the receipt, and exit with 10 unless it says what should have happened."""
    if app.out.json_wanted:
        app.out.document(document)
    else:
        receipt_panel.show(app.out, document)
    _judge(app, document)


def _judge(app: App, document: Mapping[str, Any]) -> None:
    from lab.evidence.receipt import Verdict, headline

    verdict = document["verdict"]
    if Verdict(verdict).good:
        return

    error = VerdictError(
        NOT_WHOLE.get(headline(document), f"recovery was not proven: {verdict}"),
        str(document.get("reason") or "the receipt says which check failed"),
    )
    app.out.complain(error, document=False)
    raise click.exceptions.Exit(error.exit_code)


@click.command(cls=LabCommand)
@gpu_options
@click.option(
    "--fault", "kind", type=values.Text(), default="kill", show_default=True, metavar="FAULT",
    shell_complete=fault_names,
    help="What happens; a fault of a node or a training process. See `labctl faults`.",
)  # fmt: skip
@click.option(
    "--workers", type=values.WholeNumber(1, 2), default=1, show_default=True, metavar="N",
    help="Ray Train workers (ranks) of the job: 1 or 2.",
)  # fmt: skip
@click.option("--epochs", type=values.WholeNumber(2, MAX_DEMO_EPOCHS), metavar="N", help="Epochs to train.")
@click.option("--down", is_flag=True, help="Stop the lab afterwards.")
@click.option(
    "--control/--no-control", default=True,
    help="Train once more without a fault and compare the weights, or do not. [default: control]",
)  # fmt: skip
@pass_app
def demo(
    app: App,
    asked: Asked,
    kind: str,
    workers: int,
    epochs: int | None,
    down: bool,
    control: bool,
) -> None:
    """Start the lab, train, lose a node, and prove the recovery.

    Exits with 0 only when the verdict is `recovered`. With --json, stdout has two documents, one a line: how
    the demo went, and last the receipt.
    """
    from lab.flows.demo import DemoRequest

    if kind not in [known.name for known in app.core.faults()]:
        from lab.faults import find_fault

        find_fault(kind)
    warn_of_broken(app)
    lab, spec = prepare(app, asked)
    chosen: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    wanted = DemoRequest(fault=kind, workers=workers, control=control, **chosen)
    try:
        with Story(app.out) as story:
            result = app.core.demo(lab, spec, wanted, story.progress, story.moment)
        _told(app, lab, result, down)
    finally:
        if down:
            lab.down(on_progress=ProgressLines(app.out).progress)


def _told(app: App, lab: Lab, result: DemoResult, down: bool) -> None:
    document = result.receipt.to_json()
    comparison = result.comparison
    address = "" if down else dashboard(lab)
    if app.out.json_wanted:
        same = None if comparison is None else {"weights": comparison.weights, "detail": comparison.detail}
        app.out.document(
            {"demo": {"seconds": dict(result.seconds), "comparison": same, "dashboard": address}},
            compact=True,
        )
        app.out.document(document, compact=True)
        _judge(app, document)
        _uncompared(app, result.problem)
        return
    receipt_panel.show(app.out, document)
    if comparison is not None:
        app.out.line()
        weights = WEIGHTS.get(comparison.weights, comparison.weights)
        app.out.line(f"weights, compared with an undisturbed run: {weights}")
        if comparison.detail:
            app.out.line(f"  {comparison.detail}")
    if result.seconds:
        app.out.line()
        rows = [(name, f"{value:.1f} s") for name, value in result.seconds.items()]
        app.out.show(render.table(("PHASE", "TOOK"), rows))
    if not down:
        app.out.line()
        job_id = document["job"]["submission_id"]
        render.pairs(
            app.out,
            (
                ("dashboard", address),
                ("its token", "labctl services" if address else ""),
                ("break it again", "labctl submit digits --detach, then labctl fault-inject ray-worker-0"),
                ("the job's log", f"labctl job logs {job_id}"),
                ("what was saved", f"labctl checkpoints {job_id}"),
                ("stop the lab", "labctl down"),
            ),
        )
    _judge(app, document)
    _uncompared(app, result.problem)


def _uncompared(app: App, problem: LabError | None) -> None:
    """Exit with the error of a control run that failed: what was asked for is not all there."""
    if problem is not None:
        app.out.complain(problem, document=False)
        raise click.exceptions.Exit(problem.exit_code)


def dashboard(lab: Lab) -> str:
    """Address of Ray's dashboard, or empty when the lab is gone."""
    try:
        return lab.endpoints().dashboard
    except LabError:
        return ""


COMMANDS = (faults, fault_inject, heal, demo)
