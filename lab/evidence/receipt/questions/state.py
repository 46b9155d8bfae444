"""The question of continuity of state: the training that goes on is the training that was there.

A rank goes on from its checkpoint if its state before a step is the one that it had when the checkpoint was
handed over to Ray Train, and from there to its next report nothing but steps changed it. What the files hold,
and how the script read them, does not matter. Where the state is another one, the states of other reports, of
other ranks and of the beginning, and the tensors in the files, tell what it is instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.evidence.ledger import CommittedCheckpoint, RunAttempt, State
from lab.evidence.receipt.case import NO_TAKEOVER, SKIPPED, Answer, Case, name
from lab.host.quantities import plural

NOT_COMPARED = "weights not compared"
NEW_MOMENTS = "the optimizer's state is new"

HABIT_SHARE, HABIT = 0.5, 8
"""Share of the steps before a report, or number of them, from which changes by hand are a script's habit."""

RANDOM_BYTES = 5056  # of the state of PyTorch's random numbers, which is a tensor, too

STILL = 3  # states with the same weights, one report after the other, from which on steps change nothing

FEW_BYTES = 256  # of parameters that may be there for an optimizer's sake alone


def same_state(case: Case) -> Answer:
    """Every rank went on from the state that was handed over with its checkpoint."""
    answers = [continues(case, attempt, rank) for attempt in case.resumed for rank in sorted(attempt.nodes)]
    if not answers:
        return None, NO_TAKEOVER
    for verdict in (False, None, SKIPPED):
        if (worst := next((answer for answer in answers if answer[0] is verdict), None)) is not None:
            return worst
    noted = (detail for _, detail in answers if detail.endswith(NEW_MOMENTS))
    return True, next(noted, answers[0][1])


def continues(case: Case, attempt: RunAttempt, rank: int) -> Answer:
    """Tell whether a rank of an attempt went on from the state that was handed over with its checkpoint."""
    begun, who = attempt.begun.get(rank, ()), f"rank {rank} of attempt {attempt.number}"
    if not any(state.gradients for state in begun):
        return _without_steps(case, attempt, rank, who)
    if (kept := case.remembered(attempt)) is not None:
        mine = {pair for state in begun for pair in state.own().items()}
        if other := {pair for pair in mine if pair[1] not in kept.tensors}:
            first = other <= _initial(case, rank)
            what = "those that training had begun with, not" if first else "others than"
            return (False if first else None), f"{who} went on with {what} those from {kept.source}"
        return True, f"{who} began with the state from {kept.source}"
    base = case.newest_for(attempt)
    if base is None:
        return None, f"no checkpoint is known to have been committed before attempt {attempt.number} started"
    handed, why = _handed(case, base, attempt, rank)
    if handed is None:
        return why
    if unknown := next((state.why for state in (*begun, handed) if state.why), ""):
        return SKIPPED, f"{NOT_COMPARED}: {unknown}"
    return _Comparison(case, attempt, rank, base, handed).answer()


def _without_steps(case: Case, attempt: RunAttempt, rank: int, who: str) -> Answer:
    """The answer for a rank of which no step with gradients is known, and no tree."""
    reports, before = attempt.by_rank.get(rank, ()), [a for a in case.attempts if a.number < attempt.number]
    states = [s for a in before for part in (a.begun, a.handed) for mine in part.values() for s in mine]
    trained = any(state.trained and state.gradients for state in states)
    if not trained:
        return SKIPPED, f"{NOT_COMPARED}: {who} has no optimizer of PyTorch and no boosted trees"
    if empty := max((report.empty_steps for report in reports), default=0):
        steps = plural(empty, "step")
        return None, f"{steps} of {who} had no gradients: its optimizer holds parameters that nothing trains"
    return None, f"{who} made no step of an optimizer, although an attempt before it did"


def _handed(
    case: Case, base: CommittedCheckpoint, attempt: RunAttempt, rank: int
) -> tuple[State | None, Answer]:
    """Return the state of a rank when a checkpoint was handed over; or None, and the answer instead."""
    states, label = base.states, case.label(base)
    if not states:
        return None, (None, f"the state that was handed over with {label} is not in the ledger")
    maker = next((a for a in case.attempts if a.number == base.attempt), None)
    ranks = len(maker.nodes) if maker is not None and maker.nodes else len(states)
    unknown = [r for r in range(ranks) if r not in states and not (maker is not None and _replica(maker, r))]
    alike = len({frozenset(state.parameters.items()) for state in states.values()}) == 1
    shared = alike and not any(state.sharded for state in states.values())
    if unknown and (rank in unknown or ranks != len(attempt.nodes)):
        return None, (None, f"the state of rank {unknown[0]} with {label} is not in the ledger")
    if ranks != len(attempt.nodes) and not shared:
        apart = f"each of {ranks} ranks had a state of its own, and there are {len(attempt.nodes)} now"
        return None, (SKIPPED, f"{NOT_COMPARED}: {apart}")
    if rank in states:
        return states[rank], (None, "")
    other = next(iter(states.values()))
    return replace(other, tensors=other.parameters, aside={}), (None, "")


def _replica(attempt: RunAttempt, rank: int) -> bool:
    """Tell whether a rank had the same state as another one whenever both are known."""
    mine = {state.report: state.parameters for state in attempt.handed.get(rank, ())}
    others = [s for other, states in attempt.handed.items() for s in states if other != rank]
    pairs = [(mine[s.report], s.parameters) for s in others if s.report in mine]
    return bool(pairs) and all(a == b for a, b in pairs)


class _Comparison:
    """The beginning of one rank, beside the state that was handed over with its checkpoint."""

    def __init__(
        self, case: Case, attempt: RunAttempt, rank: int, base: CommittedCheckpoint, handed: State
    ) -> None:
        self.case, self.attempt, self.rank, self.base, self.handed = case, attempt, rank, base, handed
        self.who, self.label = f"rank {rank} of attempt {attempt.number}", case.label(base)
        self.begun = attempt.begun[rank]
        self.before = [a for a in case.attempts if a.number < attempt.number]
        self.reports = [state for a in self.before for state in a.handed.get(rank, ())]
        self.earlier = [s for a in self.before for part in (a.begun, a.handed) for s in part.get(rank, ())]
        self.compared: dict[str, str] = {}  # key of what it goes on with -> its key in what was handed over
        self.other: dict[str, str] = {}  # key -> digest, of what differs
        self.equal: dict[str, State] = {}  # number of an optimizer -> the beginning that was the right one
        self.strange: set[str] = set()  # keys of parameters beside those that were handed over
        self.changes = 0  # of its parameters, other than by a step, after they were the right ones
        for number in dict.fromkeys(state.optimizer for state in self.begun):
            self._compare_optimizer([state for state in self.begun if state.optimizer == number])
        self._compare_rest()

    def _places(self, state: State) -> dict[str, str]:
        """Return key of each parameter of a beginning -> its key in the state that was handed over.

        Where the keys are others, as of a model that is held in another way, its place in its optimizer
        counts.
        """
        own, there = list(state.own()), self.handed
        theirs = there.order[state.optimizer] if state.optimizer < len(there.order) else ()
        if any(key not in there.tensors for key in own) and len(theirs) == len(own):
            return dict(zip(own, theirs, strict=True))
        return {key: key for key in own if key in there.tensors}

    def _differing(self, state: State, *, loaded: bool) -> dict[str, str]:
        """Return the parameters of a beginning, or what was loaded into them, that are others."""
        values = {**state.own(), **(state.loaded if loaded else {})}
        places, there = self._places(state), self.handed.tensors
        return {key: values[key] for key, place in places.items() if there[place] != values[key]}

    def _compare_optimizer(self, states: Sequence[State]) -> None:
        self.compared |= (places := self._places(states[-1]))
        self.strange |= {key for key in states[-1].own() if places and key not in places}
        for later, state in enumerate(reversed(states)):
            for loaded in (False, True):
                if not self._differing(state, loaded=loaded):
                    self.changes = max(self.changes, later + loaded)
                    self.equal[str(state.optimizer)] = state
                    return
        self.other |= self._differing(states[-1], loaded=False)

    def _compare_rest(self) -> None:
        """Compare what no optimizer changes; of what every batch changes, the count of batches beside it."""
        last, there = self.begun[-1], self.handed
        rest = sorted((last.tensors.keys() & there.tensors.keys()) - last.trained - self.compared.keys())
        self.compared |= {key: key for key in rest}
        differ = [k for k in rest if there.tensors[k] not in (last.tensors[k], last.loaded.get(k))]
        seen = {k: {s.tensors[k] for s in self.earlier if k in s.tensors} for k in differ}
        moving = [key for key in differ if key not in there.trained and len(seen[key]) > 1]
        self.other |= {key: last.tensors[key] for key in differ if key not in moving}
        both = sorted(there.counters.keys() & last.counters.keys())
        beside = {key.rpartition(".")[0] for key in both}
        self.uncounted = [key for key in moving if key.rpartition(".")[0] not in beside]
        copied = {key.rpartition(".")[2] for key in there.tensors}  # by a model for evaluations
        fallen = (key for key in both if last.counters[key] < there.counters[key])
        self.reset = [k for k in fallen if k in there.tensors or k.rpartition(".")[2] not in copied]

    # The answer

    def answer(self) -> Answer:
        """Return what the comparison has shown."""
        if not self.compared or self.strange:
            why = f"{self.who} trains other parameters than those that were handed over with {self.label}"
            return None, why
        if self.other:
            return self._instead()
        seen = (*self.begun, *self.attempt.handed.get(self.rank, ()))
        trained = {self.compared.get(key, key) for state in seen for key in state.trained}
        if lacking := self.handed.trained - trained:
            more = f"{len(lacking)} of {plural(len(self.handed.trained), 'parameter')}"
            return None, f"{more} that were trained before {self.label} are not trained by {self.who}"
        if self.reset:
            return None, f"the count {_some(self.reset)} of {self.who} began anew"
        if self.changes and not any(_changes(a, self.rank) for a in self.before):
            return None, f"{self.who} had the state of {self.label}, and then changed it other than by a step"
        if self._changed(self.attempt) and not any(map(self._changed, self.before)):
            why = f"the weights of {self.who} were changed, other than by a step, before its first report"
            return None, why
        if self._still(self.attempt, self.handed) and not any(map(self._still, self.before)):
            return None, f"{self.who} has the same weights at each of its reports: its steps change nothing"
        if (moments := self._moments()) not in ("", NEW_MOMENTS):
            return None, f"{self.who} went on with the weights of {self.label}, but {moments}"
        if lost := self._lost_aside():
            what = f"{plural(lost, 'tensor')} of modules without an optimizer, such as a mean of the weights"
            return None, f"{self.who} went on without those of {self.label} for {what}"
        if self.uncounted:
            return SKIPPED, f"{NOT_COMPARED}: every batch changes {_some(self.uncounted)}"
        if self._is_aside():
            why = f"{NOT_COMPARED}: most of {name(self.base.uri)} belongs to no optimizer of {self.who}"
            return SKIPPED, why
        detail = f"attempt {self.attempt.number} went on from the state handed over with {self.label}"
        return True, "; ".join(filter(None, (f"{detail}, on every rank", moments)))

    def _instead(self) -> Answer:
        """Return what the state is that a rank went on with instead."""
        some, mine = len(self.other) < len(self.compared), self.other.items()
        count = f"{len(self.other)} of {len(self.compared)} tensors, " if some else ""
        went_on = f"{self.who} went on with {count}"
        others = [r for r, s in self.base.states.items() if r != self.rank and mine <= s.tensors.items()]
        if others:
            return False, f"{went_on}those of rank {others[0]}, not its own of {self.label}"
        alike = [n for n, state in enumerate(self.reports) if mine <= state.tensors.items()]
        if alike:
            place = next((n for n, s in enumerate(self.reports) if s is self.handed), len(self.reports))
            older = alike[-1] < place - 1  # by one: a copy made before its report, or a stale one
            why = f"{went_on}those of {self._when(self.reports[alike[-1]])}, not of {self.label}"
            return (False if older else None), why
        if mine <= _initial(self.case, self.rank):
            return False, f"{went_on}those that training had begun with, not those of {self.label}"
        in_files = {t for load in self.case.restores(self.attempt) for t in load.tensors or ()}
        handed, now = self.handed.halves, self.begun[-1].halves
        halves = set[str]() if in_files & {*self.handed.tensors.values()} else in_files  # not beside a whole
        if all(now.get(key, frozenset()) & {*handed.get(key, ()), *halves} for key in self.other):
            return SKIPPED, f"{NOT_COMPARED}: {self.who} went on with those of {self.label} in half precision"
        if not self.other.keys() & self.handed.trained:
            return None, f"{_some(sorted(self.other))} of {self.who} are new: no optimizer had them"
        if set(self.other.values()) <= in_files:
            return None, f"{went_on}other tensors of {name(self.base.uri)} than those that it had"
        return None, f"{went_on}others than those of {self.label}"

    def _when(self, state: State) -> str:
        known = state.progress is not None
        return f"{self.case.word} {state.progress}" if known else f"its report {state.report}"

    def _moments(self) -> str:
        """Return a sentence where an optimizer did not go on with its own state; empty where all did."""
        had, now = self.handed.moments, {n: state.moments.get(n, "") for n, state in self.equal.items()}
        differ = [n for n in now if had.get(n, "") not in ("", now[n])]
        if not (other := [n for n in differ if now[n]]):
            return NEW_MOMENTS if differ else ""
        when = [self._when(s) for s in self.reports if s.moments.get(other[0]) == now[other[0]]]
        return f"the optimizer's state is {f'that of {when[-1]}' if when else 'another one'}"

    def _changed(self, attempt: RunAttempt) -> bool:
        return any(state.changed for state in attempt.handed.get(self.rank, ()))

    def _still(self, attempt: RunAttempt, *base: State) -> bool:
        """Tell whether nothing changed from a state on between the reports of an attempt."""
        states = (*base, *attempt.handed.get(self.rank, ()))
        return len(states) >= STILL and len({frozenset(state.parameters.items()) for state in states}) == 1

    def _lost_aside(self) -> int:
        """Return how many tensors beside those that are trained were replaced by others of their size.

        Copies of what was trained do not count: a script makes them when it needs them.
        """
        copies = {digest for state in self.earlier for digest in state.tensors.values()}
        there, now = {*self.handed.aside.values()}, {d for s in self.begun for d in s.aside.values()}
        sizes = {_bytes(digest) for digest in now - there}
        return sum(_bytes(digest) in sizes for digest in there - now - copies)

    def _is_aside(self) -> bool:
        """Tell whether optimizers train a parameter beside the model that the checkpoint is about."""
        sizes = [size for size in self.base.sizes if size != RANDOM_BYTES]
        if not sizes or self.handed.sharded:
            return False
        live = {key: _bytes(digest) for key, digest in self.handed.tensors.items()}
        trained = [live[key] for key in self.handed.trained if key in live]
        strange = sum(size for size in sizes if size not in live.values())
        few = not any(size in sizes for size in trained) or sum(trained) < FEW_BYTES
        return few and strange > sum(trained)


def _initial(case: Case, rank: int) -> frozenset[tuple[str, str]]:
    """Return the state that a rank began the run with: pairs of a key and a digest."""
    states = (state for attempt in case.attempts[:1] for state in attempt.begun.get(rank, ()))
    return frozenset(pair for state in states for pair in state.tensors.items())


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _bytes(digest: str) -> int:
    """Return the size of a tensor, which stands behind its digest; 0 where it does not."""
    size = digest.rpartition(":")[2]
    return int(size) if size.isdigit() else 0


def _changes(attempt: RunAttempt, rank: int) -> bool:
    """Tell whether a rank changed its weights by hand as a rule in an attempt, between its steps."""
    begun = attempt.begun.get(rank, ())
    again = [sum(s.optimizer == n for s in begun) - 1 for n in {s.optimizer for s in begun}]
    steps = next((r.optimizer_steps for r in attempt.by_rank.get(rank, ()) if r.optimizer_steps), None)
    often = HABIT if steps is None else min(HABIT, max(1.0, HABIT_SHARE * (steps - 1)))
    return max(again, default=0) >= often
