"""The questions how training went on: where, from which checkpoint, and with how much work done again.

Every rank of every attempt that trained afterwards is asked, since each of them had to resume.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from lab.api.ledger import CheckpointRefused
from lab.evidence.ledger import (
    CommittedCheckpoint,
    Load,
    Number,
    RunAttempt,
    began,
    in_steps,
    manifest_sha256,
    of_kind,
    steps_of,
)
from lab.evidence.receipt import work
from lab.evidence.receipt.case import NO_LEDGER, NO_TAKEOVER, Answer, Case, name
from lab.evidence.receipt.questions.weights import same_as_loaded
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
    detail = f"attempt {new.number} ran on {case.names(new)}"
    if fresh:
        return True, f"{detail}, where {fault.target} is the restarted one (new node {fresh[0][:8]})"
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
    """Every rank loaded the newest committed checkpoint, with the SHA-256 it was saved with; or its attempt
    was given a newer state from memory.

    One that loaded none may have been given the state by another, if its weights show that.
    """
    return _worst(_given_newest(case, attempt) for attempt in case.resumed)


def intact_checkpoint(case: Case) -> Answer:
    """The newest checkpoint that is intact was loaded, and the ledger says that another was refused."""
    yes, detail = right_checkpoint(case)
    if not yes:
        return yes, detail
    if not case.fault.damaged:
        return None, f"{detail}; it is not known which checkpoint was damaged"
    refused = [
        said.uri for e, said in of_kind(case.evidence.events, CheckpointRefused) if e.at >= case.fault.at
    ]
    silent = [uri for uri in case.fault.damaged if uri not in refused]
    if silent:
        return False, f"{detail}; but nobody said that {name(silent[0])} is damaged"
    return True, f"{detail}; {name(case.fault.damaged[0])} was refused, and the job's log says so"


def resumed(case: Case) -> Answer:
    """Every rank of the new attempt, and of every later one, began right after its checkpoint."""
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
    reported = [attempt for attempt in case.resumed if attempt.first]
    if not reported:
        return None, f"attempt {new.number} reported no progress"
    return _worst((_began_right(case, attempt) for attempt in reported), every=True)


def little_lost(case: Case) -> Answer:
    """Work repeated is at most one checkpoint interval."""
    if case.new is None:
        return None, NO_TAKEOVER
    again = work.lost_work(case)
    if again is None or case.run is None or (case.run.progress_repeats and case.restarted is None):
        return None, f"how much work attempt {case.new.number} repeated is not known"
    unseen, little = work.unseen(case), again.amount <= again.checkpoint_interval
    if little and unseen is None:
        return None, f"how many {again.unit}s were done before the fault is not known"
    if little and unseen and again.checkpoint_interval < work.with_unseen(case, again, unseen):
        return None, f"whether {plural(unseen, again.unit)} more were done before the fault is not known"
    more = f", and at most {again.unreported} that were not reported" if again.unreported else ""
    detail = f"{plural(again.amount, again.unit)} repeated{more}; "
    return little, f"{detail}checkpoints are {again.checkpoint_interval} apart"


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
    silent = [rank for rank in sorted(case.current.nodes) if not _reported(case, case.current, rank, since)]
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


def _reported(case: Case, attempt: RunAttempt, rank: int, since: float) -> bool:
    return any(since < r.at < case.until for r in attempt.by_rank.get(rank, ()))


def _worst(answers: Iterable[Answer], *, every: bool = False) -> Answer:
    """Return the first answer that is wrong, else the first that is not known, else the first of all.

    With `every` the details of all stand in it, up to the one that is wrong.
    """
    known = list(answers)
    if not known:
        return None, NO_TAKEOVER
    place = next((n for verdict in (False, None) for n, (yes, _) in enumerate(known) if yes is verdict), None)
    if every:
        considered = known if place is None else known[: place + 1]
        return known[place or 0][0], considered[-1][1] if place is not None else "; ".join(
            d for _, d in considered
        )
    return known[place or 0]


def _loaded_newest(case: Case, attempt: RunAttempt) -> Answer:
    right = case.newest_for(attempt)
    if right is None:
        return None, f"no checkpoint is known to have been committed before attempt {attempt.number} started"
    loads = {load.rank: load for load in case.restores(attempt)}
    if not loads:
        began_again = case.restarted is not None and case.restarted[0] is attempt
        return (False if began_again else None), (
            f"attempt {attempt.number} loaded nothing: {likely_reason(case, attempt, 0)}"
        )
    wrong = next((load for load in loads.values() if load.uri != right.uri), None)
    if wrong is not None:
        loaded = name(wrong.uri)
        return False, f"rank {wrong.rank} loaded {loaded}, not the newest, {case.label(right)}"
    yes, detail = _same_files(case, right, tuple(loads.values()))
    without = [rank for rank in sorted(attempt.nodes) if rank not in loads]
    if yes and without and (unproven := _not_given(case, attempt, without)):
        return None, unproven
    if yes and without:
        detail += f"; rank {' and '.join(map(str, without))} was given its state by another rank"
    return yes, detail


def _not_given(case: Case, attempt: RunAttempt, ranks: Iterable[int]) -> str:
    """Return a sentence on the first of these ranks that may have its state from elsewhere."""
    for rank in ranks:
        if same_as_loaded(case, attempt, rank)[0] is not True:
            why = likely_reason(case, attempt, rank)
            return f"rank {rank} of attempt {attempt.number} loaded nothing: {why}"
    return ""


def _given_newest(case: Case, attempt: RunAttempt) -> Answer:
    state, right = case.remembered(attempt), case.newest_for(attempt)
    if state is None or not in_steps(case.run):
        return _loaded_newest(case, attempt)
    detail = f"attempt {attempt.number} got the state of step {state.step} from the memory of {state.source}"
    if right is None or right.progress is None:
        return None, f"{detail}; how far the newest checkpoint had come is not known"
    taken = all(same_as_loaded(case, attempt, rank)[0] is True for rank in attempt.nodes)
    if not taken and not case.in_time(state, attempt):
        return None, f"{detail}, which was given at another time"
    return state.step >= right.progress, f"{detail}; the newest checkpoint is {case.label(right)}"


def _began_right(case: Case, attempt: RunAttempt) -> Answer:
    """Answer for rank 0, unless another rank that says how far it is began elsewhere."""
    answers = [
        _rank_began_right(case, attempt, rank)
        for rank in (sorted(attempt.by_rank) if case.restarted is None else _restarted_first(case, attempt))
        if attempt.first_of(rank) is not None
    ]
    return _worst(answers) if answers else _rank_began_right(case, attempt, 0)


def _restarted_first(case: Case, attempt: RunAttempt) -> list[int]:
    """Return the ranks of an attempt, the one that began again before the others."""
    again = case.restarted[1] if case.restarted is not None and case.restarted[0] is attempt else -1
    return sorted(attempt.by_rank, key=lambda rank: (rank != again, rank))


def _rank_began_right(case: Case, attempt: RunAttempt, rank: int) -> Answer:
    who = f"rank {rank} of attempt {attempt.number}" if rank else f"attempt {attempt.number}"
    step = began(case.run, attempt, rank)
    if (state := case.remembered(attempt)) is not None:
        if step is None:
            return None, f"the optimizer's steps of {who} were not counted"
        detail = f"{who} began with {case.word} {step}, its state is of {state.step}"
        return step == state.step + 1, detail
    base, report = case.newest_for(attempt), attempt.first_of(rank) if rank else attempt.first
    first = report.progress if report else None
    if base is None or base.progress is None or first is None or case.run is None:
        return None, f"how far the checkpoint before attempt {attempt.number} had come is not known"
    detail = f"{who} {_beginning(case, first, step)}, its checkpoint is of {case.place(base)}"
    apart = first - base.progress - case.run.stride if step is None else step - base.progress - 1
    return abs(apart) <= 1e-6 * case.run.stride, detail


def _beginning(case: Case, first: Number, step: Number | None) -> str:
    """Return how an attempt began: its first step if that is known, else its first report."""
    if step is not None:
        return f"began with {case.word} {step}"
    if in_steps(case.run) and case.run and case.run.stride != 1:
        return f"first reported {case.word} {first}, of every {case.run.stride}"
    return f"began with {case.word} {first}"


def likely_reason(case: Case, attempt: RunAttempt, rank: int) -> str:
    """Explain why a rank that had a checkpoint did not go on from it, as far as its calls tell."""
    if any(load.rank == rank for load in case.restores(attempt)):
        report = attempt.first_of(rank)
        first = report.progress if report else None
        return f"the script opened the checkpoint, but began with {case.word} {first} anyway"
    requests = [request for request in attempt.requests if request.rank == rank]
    if any(request.uri for request in requests):
        return "the script called ray.train.get_checkpoint(), but never opened the checkpoint it was given"
    if requests:
        return "ray.train.get_checkpoint() gave the script none"
    return "the script never called ray.train.get_checkpoint()"


def _same_files(case: Case, right: CommittedCheckpoint, loads: tuple[Load, ...]) -> Answer:
    manifests = [load.files for load in loads if load.files is not None]
    where = case.label(right)
    if right.files is None or len(manifests) < len(loads):
        return None, f"the SHA-256 of {where} as {'saved' if right.files is None else 'loaded'} is not known"
    loaded = manifests[0]
    if any(files != loaded for files in manifests):
        return False, f"the ranks loaded different content from {where}"
    now = (case.evidence.stored.get(right.uri) or None) if case.is_last_of_its_name(right) else None
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
