"""The command: see the package's docstring."""

from __future__ import annotations

import argparse
import json

from benchmarks import false_deaths, recovery, startup
from benchmarks.measure import table


def main() -> None:
    """Run one benchmark and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Timings as ratios against a peer."
    )
    parser.add_argument("what", choices=["cli", "up", "submit", "recovery", "false-deaths"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--faults", default="kill,stop", help="for recovery, of kill, stop and pause")
    parser.add_argument("--minutes", type=float, default=10, help="for false-deaths")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.what == "false-deaths":
        false_deaths.main(args.minutes)
        return
    if args.what == "recovery":
        rows = recovery.run(args.runs, args.faults.split(","))
    else:
        rows = {"cli": startup.cli, "up": startup.up, "submit": startup.submit}[args.what](args.runs)
    print(json.dumps([row.document() for row in rows], indent=1) if args.json else table(rows))


if __name__ == "__main__":
    main()
