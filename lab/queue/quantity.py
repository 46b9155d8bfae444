"""Quantities of Kubernetes, such as `500m`, `3Gi` and `2000G`, as whole numbers."""

from __future__ import annotations

import re
from fractions import Fraction

CPU = "cpu"

LARGEST = 2**63 - 1
"""Kueue's largest amount; what is larger is cut down to it."""

BINARY = {name: 2 ** (10 * (place + 1)) for place, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?\d{1,3}))", re.ASCII)
LONGEST = 100
"""Characters of a quantity."""
STEPS = ("Ki", "Mi", "Gi", "Ti", "Pi")


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
    """An amount as Kubernetes writes it."""
    if resource == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") and value and value % 1024 == 0:
        for step in reversed(STEPS):
            if value % BINARY[step] == 0:
                return f"{value // BINARY[step]}{step}"
    return str(value)
