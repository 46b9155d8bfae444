"""Import of notebooks, `from lab.lessons import Session`; the rest is in lab/flows/lessons."""

from lab.flows.lessons import Session

__all__ = ["Session"]
