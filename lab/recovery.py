"""Breaking a lab from a program, see docs/python.md; the flow itself is in lab/flows/recovery."""

from lab.flows.recovery import FaultRequest, Moment, OnMoment, Outcome, inject
from lab.flows.recovery.preempted import receipts
from lab.flows.recovery.repeated import inject_and_repeat

__all__ = ["FaultRequest", "Moment", "OnMoment", "Outcome", "inject", "inject_and_repeat", "receipts"]
