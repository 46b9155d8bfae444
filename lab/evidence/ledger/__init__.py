"""Reads ledgers: what training jobs recorded about themselves, as plain data. No input or output here.

The probe inside Ray writes one event per line (`lab.api.ledger` has the kinds and their fields); a job's
ledger is the union of many small objects, in no order. `parse_events` turns their lines into events,
`History.of` turns events into runs with their attempts and checkpoints.
"""

from lab.api.base import Number
from lab.api.lenient import number
from lab.evidence.ledger.counts import began, epochs_of, in_steps, warm_up
from lab.evidence.ledger.events import Event, in_order, of_kind, parse_events
from lab.evidence.ledger.history import EPOCH_KEYS, PROGRESS_KEYS, History, progress_in
from lab.evidence.ledger.model import (
    COUNTED,
    CommittedCheckpoint,
    Files,
    Load,
    Remembered,
    Report,
    Run,
    RunAttempt,
    State,
    manifest_sha256,
)
from lab.evidence.ledger.steps import Healing, Process, RecordedSteps, Stretch, steps_of

__all__ = [
    "COUNTED",
    "EPOCH_KEYS",
    "PROGRESS_KEYS",
    "CommittedCheckpoint",
    "Event",
    "Files",
    "Healing",
    "History",
    "Load",
    "Number",
    "Process",
    "RecordedSteps",
    "Remembered",
    "Report",
    "Run",
    "RunAttempt",
    "State",
    "Stretch",
    "began",
    "epochs_of",
    "in_order",
    "in_steps",
    "manifest_sha256",
    "number",
    "of_kind",
    "parse_events",
    "progress_in",
    "steps_of",
    "warm_up",
]
