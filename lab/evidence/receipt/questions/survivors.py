"""The questions of a training whose survivors go on: none of them stopped, and the lost rank is back."""

from __future__ import annotations

from lab.evidence.receipt.case import NO_LEDGER, Answer, Case
from lab.evidence.receipt.questions.hit import hit_attempt
from lab.host.quantities import plural
from lab.topology import JOB_FINAL

NOT_LOST = "no rank was left out: the fault was over, or too weak, before the others had to go on without it"


def rank_lost(case: Case) -> Answer:
    """A rank was lost, while others trained, after at least one checkpoint."""
    hit, why = hit_attempt(case)
    if hit is None or case.survival is None:
        return None, why or NO_LEDGER
    fault, lost = case.fault, case.survival.lost
    if not lost:
        return None, fault.traits.too_short or NOT_LOST
    over = None if fault.traits.ends_node else fault.reverted_at
    if over is not None and case.survival.outlasted(over):
        why = f"{_ranks(lost)} went on after the fault was over: what was lost later may have another cause"
        return None, why
    detail = f"{fault.kind} on {fault.target} in attempt {hit.number} cost {_ranks(lost)}"
    noticed = min((at for at in hit.failures if fault.at <= at < case.until), default=None)
    acted = "did not have to act" if noticed is None else f"acted after {noticed - fault.at:.1f} s"
    return True, f"{detail}, after {plural(len(case.before_fault), 'checkpoint')}; Ray Train {acted}"


def went_on(case: Case) -> Answer:
    """Every other rank took steps without the lost one, in the same process."""
    if case.survival is None:
        return None, NO_LEDGER
    if case.after:
        return False, f"attempt {case.after[0].number} had to start: all ranks began again from a checkpoint"
    stood = [s.rank for s in case.survival.survivors if s.longest_gap is None]
    if stood:
        over = case.evidence.job_status in JOB_FINAL
        return (False if over else None), f"{_ranks(stood)} took no step after the fault"
    summary = ", ".join(
        f"rank {s.rank}: longest gap {s.longest_gap:.2f} s, {plural(s.steps_alone, 'step')} alone"
        for s in case.survival.survivors
    )
    absence = case.survival.full_strength
    if any(s.waited(absence) for s in case.survival.survivors):
        return False, f"{summary}: the others waited until the lost ranks were back"
    if any(s.undecided(absence) for s in case.survival.survivors):
        return None, f"{summary}: whether the others waited until the lost ranks were back is not known"
    return True, summary


def rejoined(case: Case) -> Answer:
    """Each lost rank trains again, with the state of a neighbour."""
    if case.survival is None:
        return None, NO_LEDGER
    back = {healing.rank: healing for healing in case.survival.healings}
    missing = [rank for rank in case.survival.lost if rank not in back]
    if missing:
        return False, f"{_ranks(missing)} never trained again"
    if not back:
        return None, NOT_LOST
    parts = [
        f"rank {h.rank} after {h.at - case.fault.at:.1f} s at step {h.step + 1}, with the state of "
        f"{h.source.replace('rank', 'rank ') or 'a neighbour'}"
        for h in back.values()
    ]
    full = case.survival.full_strength
    return True, "; ".join(parts) + ("" if full is None else f"; all trained together after {full:.1f} s")


def nothing_repeated(case: Case) -> Answer:
    """No rank took a step twice, also not in another process."""
    if case.survival is None or not case.survival.steps.stretches:
        return None, NO_LEDGER
    if repeated := case.survival.repeated:
        return False, f"rank {repeated[0]} took step {repeated[1]} again"
    last = max(stretch.last for stretch in case.survival.steps.stretches)
    return True, f"every rank's steps rise without a repetition, up to step {last}"


def same_state(case: Case) -> Answer:
    """Weights and optimizer of all ranks were equal at a step after the lost ranks were back."""
    compared = case.survival.compared if case.survival else None
    if compared is None:
        return None, "there is no step after the return of which every rank's state is known"
    step, sums = compared
    if len(set(sums.values())) > 1:
        return False, f"after step {step} the ranks' states differ: " + ", ".join(
            f"rank {rank} {sha256[:8]}" for rank, sha256 in sorted(sums.items())
        )
    same = f"have the same weights and optimizer, SHA-256 {next(iter(sums.values()))[:8]}"
    return True, f"after step {step} all {len(sums)} ranks {same}"


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    return "rank " + " and ".join(map(str, ranks))
