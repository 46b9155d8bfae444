"""fault-inject, heal: breaking a lab on purpose, and the proof that training recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import documents, format, receipt_panel, values
from lab.cli.complete import fault_names, target_names
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import ProgressLines, Story
from lab.errors import ServiceError, UsageError, VerdictError

if TYPE_CHECKING:
    from lab.api.receipt import ReceiptDocument
    from lab.flows.recovery import FaultRequest, Outcome
    from lab.lab import Lab

NOT_WHOLE = {
    "recovered, lab not whole": "training recovered, but the lab is not whole",
    "as-expected, lab not whole": "training went as it should, but the lab is not whole",
}
"""Headline of a receipt (see lab.evidence.receipt.headline) -> what is wrong."""
NOT_STRICT = {
    "resumed": "training resumed, but its state was not compared",
    "recovered, not equal": "training recovered, but not as if nothing had happened",
}
"""Headline of a good receipt -> what it leaves open."""
MAX_EPOCH = 10_000_000

control_option = click.option(
    "--control/--no-control", default=False,
    help="Then repeat the job undisturbed, and compare every epoch and the weights. [default: no-control]",
)  # fmt: skip

strict_option = click.option(
    "--strict", is_flag=True,
    help="Exit with 10, too, where the state could not be compared (`resumed`), or where the training "
    "went on without the optimizer's own state, or differs from its control run.",
)  # fmt: skip


def warn_of_broken(app: App) -> None:
    """Say which faults of one's own could not be loaded; the others can be used."""
    from lab.faults import problems

    for problem in problems():
        app.out.warn(problem.message, problem.hint)


def _list(app: App) -> None:
    """List the faults, with their parameters and what is right after each."""
    from lab.faults import catalogue

    kinds = catalogue()
    if app.out.as_json({"faults": [documents.fault_kind(kind) for kind in kinds]}):
        return
    for kind in kinds:
        app.out.sentence(f"{kind.name}: {kind.summary}")
        for parameter in kind.parameters:
            default = "" if parameter.default is None else f" (default: {parameter.default:g})"
            needed = " (required)" if parameter.required else ""
            app.out.sentence(f"  {parameter.name} [{parameter.unit}]: {parameter.summary}{default}{needed}")
        app.out.sentence(f"  expected: {kind.expected.text}")
        app.out.sentence(f"  undone: {kind.revert}")
        if kind.needs:
            app.out.sentence(f"  only on the runtime {' and '.join(kind.runtimes)}")


@click.command("fault-inject", cls=LabCommand)
@click.argument(
    "target", type=values.Text(), required=False, shell_complete=target_names,
    help="The service to break, such as ray-worker-0. [default: where rank 0 trains; the store; the head]",
)  # fmt: skip
@click.option(
    "--fault", "kind", type=values.Text(), default="kill", show_default=True, metavar="FAULT",
    shell_complete=fault_names,
    help="Fault to inject; see `labctl fault-inject --list`.",
)  # fmt: skip
@click.option(
    "-p", "pairs", type=values.Text(), multiple=True, metavar="NAME=NUMBER",
    help="A parameter of the fault; see `labctl fault-inject --list`.",
)  # fmt: skip
@click.option(
    "--job", "job_id", type=values.Text(), metavar="ID",
    help="Job to watch. [default: the one that runs]",
)  # fmt: skip
@click.option(
    "--after-epoch", "--after-step", "after_epoch", type=values.WholeNumber(0, MAX_EPOCH), metavar="N",
    help="Wait for the checkpoint of this epoch or, in a run that counts those, step. "
    "[default: the first checkpoint]",
)  # fmt: skip
@click.option(
    "--after", type=values.Duration(zero=True), metavar="TIME", help="Wait this long instead, such as 10s."
)
@click.option("--for", "duration", type=values.Duration(), metavar="TIME", help="Duration of the fault.")
@click.option(
    "--timeout", type=values.Duration(), metavar="TIME",
    help="Longest wait for the moment to inject, and again for training to go on. "
    "[default: while the job makes progress]",
)  # fmt: skip
@click.option(
    "--detach", is_flag=True,
    help="Return as soon as the fault has been injected and undone: do not follow the recovery.",
)  # fmt: skip
@click.option(
    "--leave-down", is_flag=True,
    help="Leave the node down until somebody starts it (`labctl restart`); do not follow the recovery.",
)  # fmt: skip
@click.option(
    "--spare-others", is_flag=True,
    help="Refuse a node on which a job of another namespace is running too.",
)  # fmt: skip
@control_option
@strict_option
@click.option(
    "--list", "listing", is_flag=True,
    help="Break nothing: list the faults, what -p can set, and what should happen after each.",
)  # fmt: skip
@pass_app
def fault_inject(
    app: App,
    /,
    target: str | None,
    kind: str,
    pairs: tuple[str, ...],
    job_id: str | None,
    after_epoch: int | None,
    after: float | None,
    duration: float | None,
    timeout: float | None,
    detach: bool,
    leave_down: bool,
    spare_others: bool,
    control: bool,
    strict: bool,
    listing: bool,
    **place: str | None,
) -> None:
    """Break something and follow the recovery to its receipt.

    Breaks a node, a training process, a checkpoint, the object store, or the head. With --runtime kubernetes
    it breaks a pod of a cluster, through kubectl, and reads the recovery from the ledger of its job.

    Exits with 0 only when the verdict is `recovered`, `resumed` or `as-expected`, else with 10; see --strict.
    With --detach it exits with 0 once the fault has been injected and undone. The fault is undone whatever
    happens, Ctrl-C included; with --leave-down the node stays down, as after `docker stop`, until
    `labctl restart` or `labctl up`.
    """
    from lab.flows.recovery import FaultRequest, inject, inject_and_repeat

    warn_of_broken(app)
    if listing:
        _list(app)
        return
    if after_epoch is not None and after is not None:
        raise UsageError("--after-epoch and --after cannot be used together", "name one moment to inject at")
    if control and (detach or leave_down):
        other = "--detach" if detach else "--leave-down"
        raise UsageError(
            f"--control and {other} cannot be used together", "a control run follows the receipt"
        )
    request = FaultRequest(
        target=target or "",
        kind=kind,
        job=job_id or "",
        after_epoch=after_epoch,
        after_seconds=after,
        duration=duration,
        timeout=timeout,
        spare_others=spare_others,
        leave_down=leave_down,
        parameters=values.numbers(pairs),
    )
    if control and app.outside:
        raise UsageError(
            f"--control with --runtime {app.runtime}: labctl cannot submit the job there again",
            "leave --control out",
        )
    lab = app.open_anywhere(place)
    if lab.view.person:
        _ask_gateway(app, lab, request, wait=not detach, control=control, strict=strict)
        return
    with Story(app.out) as story:
        if control:
            outcome = inject_and_repeat(lab, request, story.moment)
        else:
            outcome = inject(lab, request, story.moment, wait=not detach)
    if outcome.receipt is None:
        _not_waited(app, outcome)
        return
    if not app.out.as_json(plain(outcome.receipt)):
        receipt_panel.show(app.out, outcome.receipt)
    judge(app, outcome.receipt, strict=strict)


def _ask_gateway(
    app: App, lab: Lab, request: FaultRequest, *, wait: bool, control: bool, strict: bool
) -> None:
    """A person of a class has its gateway inject the fault; what labctl says there is said here."""
    from lab.flows.recovery.asked import ask

    if control:
        raise lab.view.refusal("repeat a job undisturbed", "fault-inject --control")
    asked = ask(lab, request, app.out.note, wait=wait)
    if asked.receipt is not None:
        if not app.out.as_json(plain(asked.receipt)):
            receipt_panel.show(app.out, asked.receipt)
    elif not app.out.as_json({"node": asked.node, "left_down": request.leave_down}) and not asked.code:
        again = f"it stays down until: labctl restart {asked.node}" if request.leave_down else "labctl jobs"
        app.out.line(f"{request.kind} {asked.node}: {again}")
    if asked.code:
        raise click.exceptions.Exit(asked.code)
    if asked.receipt is not None and strict:
        _be_strict(app, asked.receipt)


@click.command(cls=LabCommand)
@pass_app
def heal(app: App, /, **place: str | None) -> None:
    """Revert faults left by a crashed labctl.

    Undoes what was broken on purpose: frozen or cut-off nodes, a stopped store, a damaged checkpoint.
    Exits with 8 when something could not be undone; run it again later.
    """
    from lab.flows.recovery.heal import heal as undo

    lab = app.open_anywhere(place)
    done = undo(
        lab,
        lambda entry: app.out.note(f"undoing {entry.kind} of {entry.target}, of {format.clock(entry.at)}"),
        ProgressLines(app.out).progress,
    )
    if app.out.json_wanted:
        app.out.document({"healed": [documents.healed(item) for item in done]})
    elif not done:
        app.out.line("nothing to heal")
    for item in () if app.out.json_wanted else done:
        state = f"NOT undone: {item.problem}" if item.problem else "undone"
        app.out.line(f"{item.kind} {item.target}: {state}")
    for item in done:
        if item.problem:
            what = f"{item.kind} of {item.target} could not be undone: {item.problem}"
            app.fail(ServiceError(what, _again(app, lab, item.target)))


def _again(app: App, lab: Lab, target: str) -> str:
    """The commands after which, or by which, a fault can be undone that could not be."""
    if app.outside:
        return "see what `kubectl describe` says of it, then labctl heal again"
    first = f"labctl restart {target}" if lab.status().up else "labctl up"
    return f"{first}; labctl heal again"


def _not_waited(app: App, outcome: Outcome) -> None:
    from lab.faults import find_fault

    fault = outcome.fault
    revert = find_fault(fault.kind).kind.revert
    bring_back = "" if fault.reverted_at is not None else app.out.about(f"labctl restart {fault.target}")
    if app.out.as_json({"fault": documents.fault(fault), "revert": revert, "next": bring_back}):
        return
    app.out.line(f"{fault.kind} {fault.target}: injected at {format.clock(fault.at)}")
    if fault.reverted_at is not None:
        app.out.sentence(f"undone {format.seconds(fault.reverted_at - fault.at)} later: {revert}")
    else:
        app.out.sentence(f"not undone yet; {revert}; bring it back: {bring_back}")
    app.out.note("to see what became of the job: labctl jobs")


def judge(app: App, receipt: ReceiptDocument, *, strict: bool = False) -> None:
    """Exit with 10 unless the receipt says what should have happened; with `strict`, if it leaves anything
    open."""
    from lab.evidence.receipt import headline

    if not receipt.verdict.good:
        other = f"recovery was not proven: {receipt.verdict.value}"
        wrong = NOT_WHOLE.get(headline(receipt), other)
        app.fail(VerdictError(wrong, receipt.reason or "the receipt says which check failed"))
    elif strict:
        _be_strict(app, receipt)


def _be_strict(app: App, receipt: ReceiptDocument) -> None:
    from lab.evidence.receipt import headline
    from lab.flows.labels import words

    if opened := NOT_STRICT.get(headline(receipt)):
        app.fail(VerdictError(f"--strict: {opened}", words(receipt).short))


COMMANDS = (fault_inject, heal)
CLUSTERS = (fault_inject, heal)
"""Those that take the runtimes of extensions."""
