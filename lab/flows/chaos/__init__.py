"""Chaos: one fault after another while a job trains, by a plan that can be repeated; and what came of it."""

from lab.flows.chaos.plan import Plan, Step, random_plan
from lab.flows.chaos.result import ChaosResult, StepResult
from lab.flows.chaos.run import run_chaos
from lab.flows.chaos.schedule import read_schedule

__all__ = ["ChaosResult", "Plan", "Step", "StepResult", "random_plan", "read_schedule", "run_chaos"]
