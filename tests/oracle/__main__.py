"""Scenarios by the hundred thousand, decided by Kueue and by the lab: `python -m tests.oracle 0 100000`.

It prints each difference and a count every thousand; where it is interrupted or ended (SIGTERM), also the
command that goes on. Exit code: 0 without a difference, 1 with one, 130 where it was interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time

from tests.oracle.process import Oracle, built, differing

EVERY = 1_000
"""Scenarios between two counts."""


def main() -> int:
    """Compare and print; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle", description="Compare the lab's queues with Kueue."
    )
    parser.add_argument("first", type=int, help="number of the first scenario")
    parser.add_argument("end", type=int, help="number after that of the last one")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun, differences, reached = time.monotonic(), 0, args.first

    def count(word: str) -> str:
        seconds = time.monotonic() - begun
        return (
            f"{word} {reached - args.first} of {args.end - args.first}, {differences} differ, {seconds:.0f} s"
        )

    with Oracle(built()) as oracle:
        try:
            while reached < args.end:
                for text in differing(oracle, [reached]):
                    differences += 1
                    print(text, flush=True)
                reached += 1
                if reached % EVERY == 0:
                    print(count("compared"), flush=True)
        except KeyboardInterrupt:
            print(
                count("interrupted:"),
                f"goes on with: python -m tests.oracle {reached} {args.end}",
                flush=True,
            )
            return 130
    print(count("compared"))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
