"""The oracle: Kueue's scheduler, built from its source, in a process that decides about scenarios."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.golang import go_build
from tests.oracle.draw import drawn
from tests.oracle.judged import Decision, decided, differences, in_numbers
from tests.oracle.objects import NOW, Object
from tests.oracle.smallest import smallest

SOURCE = Path(__file__).parent
TRIES = 40
"""Times that Kueue is asked again about a scenario, before another decision of the lab counts as wrong."""


def built() -> Path:
    """The oracle, built from tests/oracle. Skips the test where Go, or a module, is not to be had."""
    return go_build(SOURCE, "oracle", ".")


class Oracle:
    """The process, for as long as the block lasts."""

    def __init__(self, program: Path) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Oracle:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it: without input it ends by itself."""
        self._process.communicate(timeout=60)

    def begin(self, objects: list[Object], cycles: Sequence[Object]) -> None:
        """Let it begin to decide about a scenario."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"objects": objects, "cycles": cycles}) + "\n")
        self._process.stdin.flush()

    def decisions(self) -> list[Decision]:
        """What it decided about the scenario begun first. Raises ValueError where Kueue does not take it."""
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ValueError(f"Kueue does not take the scenario: {answer['error']}")
        return [in_numbers(decision) for decision in answer["cycles"]]

    def compare(self, objects: list[Object], cycles: Sequence[Object], tries: int = TRIES) -> list[str]:
        """What the lab decides otherwise, asked again too: Kueue may go by the order of a map."""
        self.begin(objects, cycles)
        try:
            ours = decided(objects, cycles, NOW.timestamp())
        finally:
            theirs = self.decisions()
        wrong = differences(ours, theirs)
        for _ in range(tries if wrong else 0):
            self.begin(objects, cycles)
            if not differences(ours, self.decisions()):
                return []
        return wrong


def differing(oracle: Oracle, numbers: Iterable[int], cycles: int = 1) -> Iterator[str]:
    """Each scenario about which the lab decides otherwise: number, differences, and its smallest form."""
    for number in numbers:
        objects, events = drawn(number, cycles)
        wrong = oracle.compare(objects, events)
        if wrong:
            kept = wrong[0].partition(":")[0]  # of the things that may differ, the same one

            def differs(smaller: list[Object], events: list[Object] = events, kept: str = kept) -> bool:
                return any(line.startswith(kept) for line in oracle.compare(smaller, events, tries=2))

            least = map(json.dumps, smallest(objects, differs))
            yield "\n".join((f"scenario {number}:", *wrong, "its smallest form:", *least))
