"""The seven questions after the loss of a node. Each answers from the evidence alone, in numbers."""

from __future__ import annotations

from collections.abc import Callable

from lab.evidence.ledger import CommittedCheckpoint, Load, Number, RunAttempt, manifest_sha256
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.ending import Answer, ended_where_it_should
from lab.topology import State

FINAL_FAULTS = ("kill", "stop", "crash-restart")
"""Faults after which the node can never be the same one again."""

OVER = ("SUCCEEDED", "FAILED", "STOPPED")
"""Job states in which nothing more will happen."""

DONE_TO = {
    "kill": "killed",
    "stop": "stopped",
    "pause": "frozen",
    "crash-restart": "killed",
    "partition": "cut off",
}

RESUMED = "resumed, not restarted"
WHOLE = "lab whole again"
"""Always the last question, and the only one that is not about the training."""

NO_LEDGER = "there is no ledger of what the job did"
NO_TAKEOVER = "no new attempt has started"

OVERTAKEN = "the job FAILED later, after another fault: training had gone on from this one"


def job_finished(case: Case) -> Answer:
    """Ray says SUCCEEDED and the run came to its end: that of its plan, its own, or the control run's."""
    status, message = case.evidence.job_status, case.evidence.job_message.strip()
    if status not in OVER:
        return None, f"the job is {status}" if status else "Ray did not say how the job stands"
    if status == "FAILED" and case.overtaken:
        return True, OVERTAKEN
    if status != "SUCCEEDED":
        return False, f"the job is {status}" + (f": {message.splitlines()[-1]}" if message else "")
    run = case.run
    if run is None:
        return None, f"the job SUCCEEDED, but {NO_LEDGER}"
    if run.error:
        return False, f"the job SUCCEEDED, although its run ended with {run.error}"
    if run.finished_at is None or run.plan is None:
        lacks = "start" if run.plan is None else "end"
        return None, f"the job SUCCEEDED, but its ledger lacks the {lacks} of the run"
    if run.last is None:
        return None, "the job SUCCEEDED, but its ledger lacks every report"
    return ended_where_it_should(case, run)


def real_fault(case: Case) -> Answer:
    """A node that ran the attempt died, froze or was cut off after at least one checkpoint."""
    fault, node = case.fault, case.node(case.fault.node_id)
    if case.run is None:
        return None, NO_LEDGER
    if case.hit is None:
        return None, not_hit(case)
    if not case.before_fault:
        return None, "no checkpoint had been committed before the fault"
    dead = node is not None and not node.alive
    if fault.kind in FINAL_FAULTS and not dead:
        return None, f"Ray lists the node of {fault.target} " + ("as alive" if node else "nowhere")
    if dead and node and node.ended_at is not None and node.ended_at < fault.at:
        return None, f"{fault.target} had been dead for {fault.at - node.ended_at:.1f} s when the fault came"
    detected = case.hit.failure_detected_at is not None
    if not case.after and not detected:
        return None, _went_on(case, case.hit)
    if not dead and not detected:
        return None, f"Ray noticed no failure of attempt {case.hit.number}"
    newest = case.before_fault[-1]
    detail = (
        f"{fault.target} was {DONE_TO.get(fault.kind, f'hit by {fault.kind!r}')} in attempt {case.hit.number}"
    )
    detail += f", after {count(len(case.before_fault), 'checkpoint')} (the newest of {place(case, newest)})"
    if dead and node and node.ended_at is not None:
        detail += f"; Ray declared its node dead after {node.ended_at - fault.at:.1f} s"
    return True, detail


def not_hit(case: Case) -> str:
    """Why no attempt counts as hit."""
    current, target = case.current, case.fault.target
    if current is None:
        return "the ledger shows no attempt that had started before the fault"
    if case.fault.node_id not in current.nodes.values():
        return f"attempt {current.number} ran on {names(case, current)}, not on {target}"
    return f"attempt {current.number} was already over when {target} was hit"


def _went_on(case: Case, hit: RunAttempt) -> str:
    reported = any(r.at > case.fault.at for r in hit.reports)
    if not reported and case.evidence.job_status not in OVER:
        return NO_TAKEOVER
    if case.fault.kind == "pause":
        return "the freeze ended before Ray noticed it; nothing had to recover"
    if case.fault.kind == "partition":
        return "the network was back before Ray noticed; nothing had to recover"
    return f"attempt {hit.number} went on undisturbed; nothing had to recover"


def moved(case: Case) -> Answer:
    """The new attempt ran on another node than the dead one, or on the restarted one."""
    new, fault = case.new, case.fault
    if new is None:
        return None, NO_TAKEOVER
    if not new.nodes:
        return None, f"the ledger does not say where attempt {new.number} ran"
    if fault.node_id in new.nodes.values():
        return False, f"attempt {new.number} ran on the very node of {fault.target} that was hit"
    again = sorted(n for n in set(new.nodes.values()) if case.service(n) == fault.target)
    detail = f"attempt {new.number} ran on {names(case, new)}"
    if again:
        return True, f"{detail}, where {fault.target} is the restarted one (new node {again[0][:8]})"
    return True, f"{detail}, no longer on {fault.target}"


def right_checkpoint(case: Case) -> Answer:
    """What was loaded is the newest committed checkpoint, with the SHA-256 it was saved with."""
    new, right = case.new, case.right
    if new is None:
        return None, NO_TAKEOVER
    if right is None:
        return None, f"no checkpoint is known to have been committed before attempt {new.number} started"
    loads = case.restores(new)
    if not loads:
        if case.restarted is new:
            return False, f"attempt {new.number} loaded nothing: {likely_reason(case, new)}"
        return None, f"nobody saw attempt {new.number} load a checkpoint"
    wrong = next((load for load in loads if load.uri != right.uri), None)
    if wrong is not None:
        loaded = wrong.uri.rsplit("/", 1)[-1]
        return (
            False,
            f"rank {wrong.rank} loaded {loaded}, not the newest, {name(right)} ({place(case, right)})",
        )
    return _same_files(case, new, right, loads)


def _same_files(case: Case, new: RunAttempt, right: CommittedCheckpoint, loads: tuple[Load, ...]) -> Answer:
    manifests = [load.files for load in loads if load.files is not None]
    where = f"{name(right)} ({place(case, right)})"
    if right.files is None or len(manifests) < len(loads):
        return None, f"the SHA-256 of {where} as {'saved' if right.files is None else 'loaded'} is not known"
    loaded = manifests[0]
    if any(files != loaded for files in manifests):
        return False, f"the ranks loaded different content from {where}"
    now = case.evidence.stored.get(right.uri) or None
    if not right.accepts(loaded):
        extra = all(loaded.get(path) in sums for path, sums in right.files.items())
        if extra and not _all_ranks_saved(case, right):
            return None, f"not every rank's part of {where} is known as it was saved"
        saved = right.sha256(loaded) or ""
        return False, f"SHA-256 of {where}: saved {saved[:8]}, loaded {manifest_sha256(loaded)[:8]}"
    if now is not None and now != loaded:
        return (
            False,
            f"SHA-256 of {where}: loaded {manifest_sha256(loaded)[:8]}, stored {manifest_sha256(now)[:8]}",
        )
    as_now = ", and as it is stored now" if now is not None else ""
    return True, f"loaded {where}, the newest, SHA-256 {manifest_sha256(loaded)[:8]} as it was saved{as_now}"


def _all_ranks_saved(case: Case, checkpoint: CommittedCheckpoint) -> bool:
    return any(
        a.nodes.keys() and a.nodes.keys() <= checkpoint.saved_by
        for a in case.attempts
        if a.number == checkpoint.attempt
    )


def resumed(case: Case) -> Answer:
    """The new attempt, and every later one, began right after its checkpoint."""
    run, new = case.run, case.new
    if run is None or new is None:
        return None, NO_TAKEOVER
    if run.progress_key is None:
        return None, "the script reports no progress value, such as `epoch`"
    if run.progress_repeats and case.restarted is None:
        return (
            None,
            f"`{run.progress_key}` does not grow with every report, so no report marks a place in the run",
        )
    details = []
    for attempt in (a for a in case.after if a.first):
        base, first = case.newest_for(attempt), attempt.first.progress if attempt.first else None
        if base is None or base.progress is None or first is None:
            return None, f"how far the checkpoint before attempt {attempt.number} had come is not known"
        began = f"attempt {attempt.number} began with {case.word} {first}"
        details.append(f"{began}, its checkpoint is of {place(case, base)}")
        if abs(first - base.progress - run.stride) > 1e-6 * run.stride:
            return False, details[-1]
    return (True, "; ".join(details)) if details else (None, f"attempt {new.number} reported no progress")


def little_lost(case: Case) -> Answer:
    """Work repeated is at most one checkpoint interval."""
    if case.new is None:
        return None, NO_TAKEOVER
    lost = case.lost
    if lost is None or case.run is None or (case.run.progress_repeats and case.restarted is None):
        return None, f"how much work attempt {case.new.number} repeated is not known"
    unit = case.word if case.run.stride == 1 else "report"
    return lost <= case.interval, f"{count(lost, unit)} repeated; checkpoints are {case.interval} apart"


def services_healthy(case: Case) -> Answer | None:
    """Why not every service is healthy, or the fault not reverted, if so."""
    sick = [s for s in case.evidence.services if s.state is not State.HEALTHY]
    if sick:
        return False, "; ".join(
            f"{s.service} is {s.state.value}" + (f": {s.detail}" * bool(s.detail)) for s in sick
        )
    if case.fault.reverted_at is None:
        return False, f"the fault on {case.fault.target} has not been reverted"
    if not case.evidence.services:
        return None, "the state of the services is not known"
    return None


def lab_whole(case: Case) -> Answer:
    """Every service is healthy, the fault is reverted, the node is back in the cluster."""
    fault, services, nodes = case.fault, case.evidence.services, case.evidence.nodes
    sick = services_healthy(case)
    if sick:
        return sick
    if not nodes:
        return None, "Ray's nodes are not known"
    back = [n for n in nodes if n.service == fault.target and n.alive]
    if fault.kind in FINAL_FAULTS:
        back = [n for n in back if n.node_id != fault.node_id]
    if not back:
        return False, f"{fault.target} is not back among Ray's nodes"
    detail = f"{count(len(services), 'service')} healthy, {fault.target} is in the cluster"
    if any(n.node_id == fault.node_id for n in back):
        return True, f"{detail} (the same node all along)"
    joined = case.rejoined
    return True, detail + (
        f" again after {joined.started_at - fault.at:.1f} s" if joined and joined.started_at else ""
    )


CHECKS: dict[str, Callable[[Case], Answer]] = {
    "job finished": job_finished,
    "a real fault": real_fault,
    "moved": moved,
    "right checkpoint": right_checkpoint,
    RESUMED: resumed,
    "little lost": little_lost,
    WHOLE: lab_whole,
}
"""The table of the architecture: name -> question."""


def likely_reason(case: Case, attempt: RunAttempt) -> str:
    """Why an attempt that had a checkpoint began from the start, as far as its calls tell."""
    if case.restores(attempt):
        return f"the script opened the checkpoint, but began with {case.word} {_first(attempt)} anyway"
    if any(r.uri for r in attempt.requests):
        return "the script called ray.train.get_checkpoint(), but never opened the checkpoint it was given"
    if attempt.requests:
        return "ray.train.get_checkpoint() gave the script none"
    return "the script never called ray.train.get_checkpoint()"


def _first(attempt: RunAttempt) -> Number | None:
    return attempt.first.progress if attempt.first else None


def place(case: Case, checkpoint: CommittedCheckpoint) -> str:
    """How far a checkpoint had come."""
    unknown = checkpoint.progress is None
    return f"an unknown {case.word}" if unknown else f"{case.word} {checkpoint.progress}"


def name(checkpoint: CommittedCheckpoint) -> str:
    """Its folder's name."""
    return checkpoint.uri.rsplit("/", 1)[-1]


def names(case: Case, attempt: RunAttempt) -> str:
    """The services that an attempt ran on."""
    return " and ".join(dict.fromkeys(case.service(attempt.nodes[rank]) for rank in sorted(attempt.nodes)))


def count(n: Number, noun: str, ending: str = "s") -> str:
    """Such as `2 checkpoints`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{ending}"
