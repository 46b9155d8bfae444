"""The command line of the benchmarks; the package's docstring describes it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence

from benchmarks import checkpoints, false_deaths, growth, recovery, startup, states
from benchmarks.compare import Found, Row, table
from lab.host.interrupts import HELD, exit_code

IN_TURN = {"demos": startup.demos, "up": startup.up}
OTHERS = ("checkpoints", "recovery", "growth", "false-deaths", "states")


def main() -> None:
    """Run one benchmark and print its table. Its labs are taken down after a signal, too."""
    args = _parser().parse_args()
    for number in HELD:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        _measure(args)
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))


def _measure(args: argparse.Namespace) -> None:
    if args.what == "false-deaths":
        false_deaths.main(args.minutes, args.busy, args.runtime, hard=args.hard)
    elif args.what == "recovery":
        measured, lost = recovery.run(args.runs, args.cases.split(",") if args.cases else ())
        _show(measured, lost, args.json)
        if not args.json:
            print()
            print(recovery.stage_table(measured))
    elif args.what == "growth":
        curves = growth.run(args.parts.split(",") if args.parts else ())
        documents = [curve.document() for curve in curves]
        print(json.dumps({"curves": documents}, indent=1) if args.json else growth.table(curves))
    elif args.what in IN_TURN:
        _show(*IN_TURN[args.what](args.runs), args.json)
    elif args.what == "checkpoints":
        _show(checkpoints.run(args.runs, args.size), Found(), args.json)
    else:
        _show(states.run(args.runs), Found(), args.json)


def _show(measured: Sequence[Row], turns: Found, as_json: bool) -> None:
    if as_json:
        document = {"rows": [row.document() for row in measured], "lost": turns.lost}
        print(json.dumps(document, indent=1))
    else:
        print(table(measured, turns.lost))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure this lab and a peer in the same run."
    )
    parser.add_argument("what", choices=[*IN_TURN, *OTHERS])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", help="for recovery, some of: " + ", ".join(c.name for c in recovery.CASES))
    parser.add_argument("--parts", help="for growth, some of: " + ", ".join(growth.parts()))
    parser.add_argument("--runtime", choices=["local", "compose"], default="local", help="for false-deaths")
    parser.add_argument(
        "--size", choices=checkpoints.SIZES, default="0.8m", help="for checkpoints: of the model of llm"
    )
    parser.add_argument("--minutes", type=float, default=10, help="for false-deaths")
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 1, help="for false-deaths: busy loops [one per core]"
    )
    parser.add_argument(
        "--hard",
        action="store_true",
        help="for false-deaths: busy disks, little memory, a stand-still",
    )
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    main()
