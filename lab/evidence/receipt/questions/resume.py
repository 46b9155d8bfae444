"""The questions how training went on: where, from which checkpoint, and with how much work done again."""

from __future__ import annotations

from lab.evidence.ledger import CommittedCheckpoint, Load, Number, RunAttempt, manifest_sha256
from lab.evidence.receipt.case import NO_LEDGER, NO_TAKEOVER, Answer, Case, name
from lab.host.quantities import plural
from lab.topology import JOB_FINAL


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
    detail = f"attempt {new.number} ran on {case.names(new)}"
    if again:
        return True, f"{detail}, where {fault.target} is the restarted one (new node {again[0][:8]})"
    return True, f"{detail}, no longer on {fault.target}"


def new_processes(case: Case) -> Answer:
    """Every rank of the new attempt runs in a process that the old one had not."""
    hit, new = case.hit, case.new
    if hit is None or new is None:
        return None, NO_TAKEOVER
    if not new.pids or not hit.pids:
        return None, f"the ledger does not say in which processes attempt {new.number} ran"
    before = {(hit.nodes.get(rank), pid) for rank, pid in hit.pids.items()}
    same = [rank for rank, pid in new.pids.items() if (new.nodes.get(rank), pid) in before]
    if same:
        return False, f"rank {same[0]} of attempt {new.number} ran in a process of attempt {hit.number}"
    return True, f"attempt {new.number} ran in {plural(len(new.pids), 'new process', 'es')}" + (
        f" on {case.names(new)}"
    )


def right_checkpoint(case: Case) -> Answer:
    """The newest committed checkpoint was loaded, with the SHA-256 it was saved with."""
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
        loaded = name(wrong.uri)
        return False, f"rank {wrong.rank} loaded {loaded}, not the newest, {case.told(right)}"
    return _same_files(case, right, loads)


def newest_state(case: Case) -> Answer:
    """The state from memory was newer than the newest committed checkpoint."""
    new, right = case.new, case.right
    if new is None:
        return None, NO_TAKEOVER
    if new.remembered is None or not case.in_steps:
        return right_checkpoint(case)
    told = f"attempt {new.number} got the state of step {new.remembered.step} from {new.remembered.source}"
    if right is None or right.progress is None:
        return None, f"{told}; how far the newest checkpoint had come is not known"
    return new.remembered.step >= right.progress, f"{told}; the newest checkpoint is {case.told(right)}"


def intact_checkpoint(case: Case) -> Answer:
    """The newest checkpoint that is intact was loaded, and the ledger says that another was refused."""
    yes, detail = right_checkpoint(case)
    if not yes:
        return yes, detail
    refused = [
        e.fields.get("uri") for e in case.evidence.events
        if e.event == "checkpoint_refused" and e.at >= case.fault.at
    ]  # fmt: skip
    silent = [uri for uri in case.fault.damaged if uri not in refused]
    if silent:
        return False, f"{detail}; but nobody said that {name(silent[0])} is damaged"
    return True, f"{detail}; {name(case.fault.damaged[0])} was refused, and the job's log says so"


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
        if attempt.remembered is not None:
            began, step = case.began(attempt), attempt.remembered.step
            if began is None:
                return None, f"the optimizer's steps of attempt {attempt.number} were not counted"
            details.append(f"attempt {attempt.number} began with {case.word} {began}, its state is of {step}")
            if began != step + 1:
                return False, details[-1]
            continue
        base, first = case.newest_for(attempt), attempt.first.progress if attempt.first else None
        if base is None or base.progress is None or first is None:
            return None, f"how far the checkpoint before attempt {attempt.number} had come is not known"
        began, place = case.began(attempt), case.place(base)
        beginning = _beginning(case, first, began)
        details.append(f"attempt {attempt.number} {beginning}, its checkpoint is of {place}")
        apart = first - base.progress - run.stride if began is None else began - base.progress - 1
        if abs(apart) > 1e-6 * run.stride:
            return False, details[-1]
    return (True, "; ".join(details)) if details else (None, f"attempt {new.number} reported no progress")


def little_lost(case: Case) -> Answer:
    """Work repeated is at most one checkpoint interval."""
    if case.new is None:
        return None, NO_TAKEOVER
    lost = case.lost
    if lost is None or case.run is None or (case.run.progress_repeats and case.restarted is None):
        return None, f"how much work attempt {case.new.number} repeated is not known"
    work = case.lost_work
    assert work is not None
    more = f", and at most {work.unreported} that were not reported" if work.unreported else ""
    detail = (
        f"{plural(work.amount, work.unit)} repeated{more}; checkpoints are {work.checkpoint_interval} apart"
    )
    return lost <= case.interval, detail


def went_on(case: Case) -> Answer:
    """Training reported progress after the fault, and began nothing again; or the job failed, as it may."""
    if case.run is None:
        return None, NO_LEDGER
    if case.evidence.job_status == "FAILED" and not case.overtaken:
        newest = case.run.checkpoints[-1] if case.run.checkpoints else None
        place = f"; a new run could resume from {case.place(newest)}" if newest else ""
        return True, f"the job failed{place}"
    since = case.fault.reverted_at if case.fault.reverted_at is not None else case.fault.at
    finished = case.run.finished_at
    if finished is not None and case.fault.at < finished <= since and not case.run.error:
        return True, f"training went on to its end, {finished - case.fault.at:.1f} s after the fault"
    reports = [r for a in case.attempts for r in a.reports if since < r.at < case.until]
    if case.after and any(a.first for a in case.after):
        return resumed(case)
    if not reports:
        over = case.evidence.job_status in JOB_FINAL
        return (False if over else None), "nothing was reported after the fault"
    first = reports[0]
    waited = first.at - case.fault.at
    return True, f"the same attempt went on: {case.word} {first.progress} came {waited:.1f} s after the fault"


def _beginning(case: Case, first: Number, began: Number | None) -> str:
    """Return how an attempt began: its first step if that is known, else its first report."""
    if began is not None:
        return f"began with {case.word} {began}"
    if case.in_steps and case.run and case.run.stride != 1:
        return f"first reported {case.word} {first}, of every {case.run.stride}"
    return f"began with {case.word} {first}"


def likely_reason(case: Case, attempt: RunAttempt) -> str:
    """Explain why an attempt that had a checkpoint began from the start, as far as its calls tell."""
    if case.restores(attempt):
        return f"the script opened the checkpoint, but began with {case.word} {_first(attempt)} anyway"
    if any(r.uri for r in attempt.requests):
        return "the script called ray.train.get_checkpoint(), but never opened the checkpoint it was given"
    if attempt.requests:
        return "ray.train.get_checkpoint() gave the script none"
    return "the script never called ray.train.get_checkpoint()"


def _same_files(case: Case, right: CommittedCheckpoint, loads: tuple[Load, ...]) -> Answer:
    manifests = [load.files for load in loads if load.files is not None]
    where = case.told(right)
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


def _first(attempt: RunAttempt) -> Number | None:
    return attempt.first.progress if attempt.first else None
