"""The command: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import signal

from benchmarks import false_deaths, recovery, soak, startup
from benchmarks.measure import table


def main() -> None:
    """Run one benchmark and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Timings as ratios against a peer."
    )
    parser.add_argument("what", choices=["cli", "up", "submit", "recovery", "false-deaths", "soak"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", help="for recovery, some of: " + ", ".join(c.name for c in recovery.CASES))
    parser.add_argument(
        "--runtime", choices=["local", "compose"], default="local", help="for recovery and soak"
    )
    parser.add_argument("--seed", type=int, default=7, help="for soak")
    parser.add_argument(
        "--every", type=float, default=20, help="for soak: seconds from one fault to the next"
    )
    parser.add_argument("--minutes", type=float, default=10, help="for false-deaths and soak")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its labs are taken down then, too
    if args.what == "false-deaths":
        false_deaths.main(args.minutes)
        return
    if args.what == "soak":
        found = soak.run(args.minutes, args.runtime, args.seed, args.every)
        print(json.dumps(found, indent=1) if args.json else soak.table(found))
        return
    if args.what == "recovery":
        names = [case.name for case in recovery.CASES]
        possible = [name for name in names if args.runtime == "compose" or name != "partition"]
        rows = recovery.run(args.runs, args.cases.split(",") if args.cases else possible, args.runtime)
    else:
        rows = {"cli": startup.cli, "up": startup.up, "submit": startup.submit}[args.what](args.runs)
    if args.json:
        print(json.dumps([row.document() for row in rows], indent=1))
    else:
        print(table(rows))
        if args.what == "recovery":
            print()
            print(recovery.stage_table(rows))


if __name__ == "__main__":
    main()
