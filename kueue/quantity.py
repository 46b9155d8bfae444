"""Quantities of Kubernetes, such as `500m`, `3Gi` and `2000G`, as whole numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

CPU = "cpu"

LARGEST = 2**63 - 1
"""Kueue's largest amount; what is larger is cut down to it."""

BINARY = {name: 2 ** (10 * (place + 1)) for place, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?\d{1,3}))", re.ASCII)
LONGEST = 100
"""Characters of a quantity."""


def parse(text: str) -> Fraction:
    """The number behind a quantity. Raises ValueError."""
    match = FORM.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: write a number such as 4, 500m, 3Gi or 2000G")
    sign, number, binary, decimal, exponent = match.groups()
    value = Fraction(number)
    if binary:
        value *= BINARY[binary]
    else:
        value *= Fraction(10) ** (int(exponent) if exponent else DECIMAL[decimal or ""])
    return -value if sign == "-" else value


def amount(resource: str, text: str) -> int:
    """A quantity of a resource as a whole number, rounded up: thousandths of cpu, else whole units."""
    value = parse(text) * (1000 if resource == CPU else 1)
    return min(LARGEST, -((-value.numerator) // value.denominator))


def shown(resource: str, value: int) -> str:
    """An amount as Kubernetes writes it: 2, 500m, 10k, or 3Gi of memory."""
    if resource in ("memory", "ephemeral-storage"):
        return _in_steps(value, 1024, BINARY)
    if resource == CPU:
        if value % 1000:
            return f"{value}m"
        value //= 1000
    return _in_steps(value, 1000, {name: 10**power for name, power in DECIMAL.items() if power > 0})


def _in_steps(value: int, base: int, units: Mapping[str, int]) -> str:
    """The number in the largest of these units that leaves it whole."""
    if value and value % base == 0:
        for name, size in reversed(list(units.items())):
            if value % size == 0:
                return f"{value // size}{name}"
    return str(value)
