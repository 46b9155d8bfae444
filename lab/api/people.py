"""The document by which the gateway of a class says who somebody is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bearer:
    """The person whose token a request bears."""

    name: str
    role: str
