"""Breaking a lab from a program, see docs/python.md; the flow itself is in lab/flows/recovery."""

from lab.flows.recovery import FaultRequest, Moment, OnMoment, Outcome, inject, inject_and_repeat
from lab.flows.recovery.preempted import receipts

__all__ = ["FaultRequest", "Moment", "OnMoment", "Outcome", "inject", "inject_and_repeat", "receipts"]
