"""The questions how training went on: where, and from which checkpoint.

Every rank of every attempt that trained afterwards is asked, since each of them had to resume.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from lab.api.ledger import CheckpointRefused
from lab.evidence.ledger import (
    CommittedCheckpoint,
    Load,
    Remembered,
    RunAttempt,
    in_steps,
    manifest_sha256,
    of_kind,
    steps_of,
)
from lab.evidence.receipt.case import NO_LEDGER, NO_TAKEOVER, Answer, Case, name
from lab.evidence.receipt.questions.state import continues
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
        node = case.node(fault.node_id)
        lost = fault.traits.ends_node or (node is not None and node.alive is False)
        again = f"attempt {new.number} ran on the very node of {fault.target} that was hit"
        return (False if lost else None), again + ("" if lost else ", which is not known to have been lost")
    fresh = sorted(n for n in set(new.nodes.values()) if case.service(n) == fault.target)
    where = f"attempt {new.number} ran on {case.names(new)}"
    if fresh:
        return True, f"{where}, where {fault.target} is the restarted one (new node {fresh[0][:8]})"
    return True, f"{where}, no longer on {fault.target}"


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
    processes = plural(len(new.pids), "new process", "es")
    return True, f"attempt {new.number} ran in {processes} on {case.names(new)}"


def right_checkpoint(case: Case) -> Answer:
    """Every rank went on from the newest committed checkpoint, with the SHA-256 it was saved with; or its
    attempt was given a newer state from memory.

    One that is not known to have loaded any may have been given the state by another, if its state shows
    that.
    """
    return worst(_went_on_from_newest(case, attempt) for attempt in case.resumed)


def intact_checkpoint(case: Case) -> Answer:
    """The newest checkpoint that is intact was loaded, and the ledger says that another was refused."""
    yes, detail = right_checkpoint(case)
    if not yes:
        return yes, detail
    if not case.fault.damaged:
        return None, f"{detail}; it is not known which checkpoint was damaged"
    refusals = of_kind(case.evidence.events, CheckpointRefused)
    refused = [said.uri for e, said in refusals if e.at >= case.fault.at]
    silent = [uri for uri in case.fault.damaged if uri not in refused]
    if silent:
        return False, f"{detail}; but nobody said that {name(silent[0])} is damaged"
    return True, f"{detail}; {name(case.fault.damaged[0])} was refused, and the job's log says so"


def went_on(case: Case) -> Answer:
    """Every rank reported progress after the fault, in the same attempt; or the job failed, as it may."""
    if case.run is None:
        return None, NO_LEDGER
    if case.failed_as_it_may:
        newest = case.run.checkpoints[-1] if case.run.checkpoints else None
        place = f"; a new run could resume from {case.place(newest)}" if newest else ""
        return True, f"the job failed{place}"
    since = case.fault.reverted_at if case.fault.reverted_at is not None else case.fault.at
    if case.current is None:
        return None, "the ledger shows no attempt that had started before the fault"
    finished = case.run.finished_at
    later = [r for r in case.current.reports if since < r.at < case.until]
    gone = _not_back(case, case.current)
    if not later and finished is not None and case.fault.at < finished < case.until and not case.run.error:
        if gone:
            return None, gone
        return True, f"training went on to its end, {finished - case.fault.at:.1f} s after the fault"
    if not later:
        over = case.evidence.job_status in JOB_FINAL and case.until == inf
        soon = ", before the next one" if case.until < inf else ""
        return (False if over else None), f"nothing was reported after the fault{soon}"
    alone = case.run.plan is not None and case.run.plan.replica_groups  # whichever rank is there reports
    heard = {
        rank for rank, mine in case.current.by_rank.items() if any(since < r.at < case.until for r in mine)
    }
    silent = sorted(case.current.nodes.keys() - heard)
    if silent and not alone:
        return None, f"rank {silent[0]} reported nothing after the fault"
    before = [r.progress for r in case.current.reports if r.at <= since and r.progress is not None]
    first = later[0]
    if before and first.progress is not None and first.progress < max(before):
        return False, f"{case.word} {first.progress} came after {case.word} {max(before)}: it began again"
    if gone:
        return None, gone
    waited = first.at - case.fault.at
    return True, f"the same attempt went on: {case.word} {first.progress} came {waited:.1f} s after the fault"


def _not_back(case: Case, attempt: RunAttempt) -> str:
    """Return a sentence on the first rank that the fault cost an attempt which went on without it, and that
    nobody healed; empty where there is none."""
    lost = {r.rank: r for r in attempt.replacements if case.fault.at <= r.given_up_at < case.until}
    mine = (e for e in case.evidence.events if case.run is not None and e.run == case.run.name)
    healings = steps_of(mine).healings if lost else ()
    for rank, gone in lost.items():
        healed = any(h.rank == rank and h.at >= gone.given_up_at for h in healings)
        if gone.at is None or not healed:
            return f"rank {rank} was given up after the fault, and is not known to have come back"
    return ""


def worst(answers: Iterable[Answer], *, every: bool = False) -> Answer:
    """Return the first answer that is wrong, else the first that is not known, else the first of all.

    With `every` the details of all stand in it, if all are right.
    """
    known = list(answers)
    if not known:
        return None, NO_TAKEOVER
    place = next((n for verdict in (False, None) for n, (yes, _) in enumerate(known) if yes is verdict), None)
    if every and place is None:
        return True, "; ".join(detail for _, detail in known)
    return known[place or 0]


def _went_on_from_newest(case: Case, attempt: RunAttempt) -> Answer:
    states = {rank: continues(case, attempt, rank) for rank in attempt.nodes}
    proven = [rank for rank, (answer, _) in states.items() if answer is True]
    right, kept = case.newest_for(attempt), case.remembered(attempt)
    if kept is not None and in_steps(case.run):
        return _from_memory(case, attempt, kept, len(proven) == len(attempt.nodes))
    if right is None:
        return None, f"no checkpoint is known to have been committed before attempt {attempt.number} started"
    loads = {load.rank: load for load in case.restores(attempt)}
    files = _same_files(case, right, tuple(load for load in loads.values() if load.uri == right.uri))
    if attempt.nodes and len(proven) == len(attempt.nodes):
        seen = loads and files[0] is True
        return True, files[1] if seen else f"every rank went on from {case.label(right)}, the newest"
    if not loads:
        unknown = "".join(f"; {why}" for answer, why in list(states.values())[:1] if answer is None)
        why = f"attempt {attempt.number}: {likely_reason(case, attempt, 0)}{unknown}"
        return (False if case.restarted and case.restarted[0] is attempt else None), why
    wrong = next((load for load in loads.values() if load.uri != right.uri), None)
    if wrong is not None:
        return False, f"rank {wrong.rank} loaded {name(wrong.uri)}, not the newest, {case.label(right)}"
    unseen = [rank for rank in sorted(attempt.nodes) if rank not in loads and rank not in proven]
    if files[0] is not True or not unseen:
        return files
    return None, f"rank {unseen[0]} of attempt {attempt.number}: {likely_reason(case, attempt, unseen[0])}"


def _from_memory(case: Case, attempt: RunAttempt, state: Remembered, proven: bool) -> Answer:
    right = case.newest_for(attempt)
    detail = f"attempt {attempt.number} got the state of step {state.step} from the memory of {state.source}"
    if right is None or right.progress is None:
        return None, f"{detail}; how far the newest checkpoint had come is not known"
    if not proven and not case.in_time(state, attempt):
        return None, f"{detail}, which was given at another time"
    return state.step >= right.progress, f"{detail}; the newest checkpoint is {case.label(right)}"


def likely_reason(case: Case, attempt: RunAttempt, rank: int) -> str:
    """Explain why a rank that had a checkpoint did not go on from it, as far as its calls tell."""
    if any(load.rank == rank for load in case.restores(attempt)):
        report = attempt.first_of(rank)
        first = report.progress if report else None
        return f"the script opened the checkpoint, but began with {case.word} {first} anyway"
    if error := next((load.error for load in attempt.loads if load.rank == rank and load.error), ""):
        return f"opening its checkpoint failed: {error}"
    requests = [request for request in attempt.requests if request.rank == rank]
    if any(request.uri for request in requests):
        return "labctl saw no read of the checkpoint that ray.train.get_checkpoint() gave it"
    if requests:
        return "ray.train.get_checkpoint() gave the script none"
    return "the script never called ray.train.get_checkpoint()"


def _same_files(case: Case, right: CommittedCheckpoint, loads: tuple[Load, ...]) -> Answer:
    manifests = [load.files for load in loads if load.files is not None]
    where = case.label(right)
    if right.files is None or not manifests or len(manifests) < len(loads):
        return None, f"the SHA-256 of {where} as {'saved' if right.files is None else 'loaded'} is not known"
    loaded = manifests[0]
    if any(files != loaded for files in manifests):
        return False, f"the ranks loaded different content from {where}"
    now = (case.evidence.stored.get(right.uri) or None) if case.is_last_of_its_name(right) else None
    if not right.accepts(loaded):
        extra = all(loaded.get(path) in sums for path, sums in right.files.items())
        ranks = next((a.nodes.keys() for a in case.attempts if a.number == right.attempt), None)
        if extra and not (ranks and ranks <= right.saved_by):
            return None, f"not every rank's part of {where} is known as it was saved"
        saved = right.sha256(loaded) or ""
        return False, f"SHA-256 of {where}: saved {saved[:8]}, loaded {manifest_sha256(loaded)[:8]}"
    if now is not None and now != loaded:
        hashes = [manifest_sha256(files)[:8] for files in (loaded, now)]
        return False, f"SHA-256 of {where}: loaded {hashes[0]}, stored {hashes[1]}"
    as_now = ", and as it is stored now" if now is not None else ""
    return True, f"loaded {where}, the newest, SHA-256 {manifest_sha256(loaded)[:8]} as it was saved{as_now}"
