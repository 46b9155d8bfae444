"""The simulator, without a lab: what would happen to these workloads in these queues, and when.

python -m kueue simulate FILE...
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kueue.reading import DEFAULT_NAMESPACE, Read, read
from kueue.simulate import Simulation, endless, simulate
from kueue.story import story
from kueue.trace import document


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The options of this call; ends the process where they are wrong."""
    parser = argparse.ArgumentParser("python -m kueue", description="Queues and quotas as Kueue has them.")
    command = parser.add_subparsers(dest="command", required=True).add_parser(
        "simulate", help="let workloads through queues on a virtual clock"
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="YAML with objects of Kueue")
    command.add_argument("-n", "--namespace", default=DEFAULT_NAMESPACE, help="for objects that name none")
    command.add_argument("--until", type=seconds, metavar="SECONDS", help="stop this long after the start")
    command.add_argument("--json", action="store_true", help="write the whole run as one document")
    return parser.parse_args(words)


def seconds(text: str) -> float:
    """A length of time. Raises ValueError for what is none."""
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(text)
    return value


def problems(understood: Read, *, forever: bool) -> list[str]:
    """All that keeps these objects from being simulated, a line each."""
    lines = [f"{problem}{f' ({problem.hint})' if problem.hint else ''}" for problem in understood.errors]
    if not lines and forever and (name := endless(understood.setup, understood.workloads)):
        lines.append(f"{name} is never ready and may be tried again for ever: give --until")
    return lines


def shown(result: Simulation, *, as_json: bool) -> str:
    """The run as text."""
    return json.dumps(asdict(document(result))) if as_json else "\n".join(story(result))


def main(words: Sequence[str]) -> int:
    """Simulate; the exit code, 2 for what is wrong with the files."""
    options = arguments(words)
    try:
        texts = [(name, Path(name).read_text(encoding="utf-8")) for name in options.files]
    except (OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    understood = read(texts, options.namespace)
    for warning in understood.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    wrong = problems(understood, forever=options.until is None)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if wrong:
        return 2
    result = simulate(understood.setup, understood.workloads, until=options.until)
    print(shown(result, as_json=options.json))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
