"""labctl answers quickly: nothing heavy is imported before a command needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "rich",
    "minio",
    "urllib3",
    "ray",
    "torch",
    "psutil",
    "python_on_whales",
    "pydantic",
    "pyarrow",
    "moto",
)

PROGRAM = """
import contextlib, io, sys
from lab.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["submit", "--help"], ["submit", "--list", "--json"]]
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True
    )
    modules = set(shown.stdout.split())
    assert "click" in modules
    assert not modules & set(HEAVY)


def test_a_command_is_imported_when_it_is_asked_for() -> None:
    program = "import sys; from lab.cli.main import main; main(sys.argv[1:]); print(*sorted(sys.modules))"
    for arguments, expected in ((["--help"], set()), (["submit", "--list", "--json"], {"submit"})):
        shown = subprocess.run(
            [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
        prefix = "lab.cli.commands."
        assert {name.removeprefix(prefix) for name in shown.split() if name.startswith(prefix)} == expected


def test_what_status_needs_imports_neither_receipts_nor_queues_nor_faults() -> None:
    needed = "lab.cli.commands.lab, lab.cluster.health, lab.runtime.active_faults"
    program = f"import sys, lab.lab, {needed}; print(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    slow = (
        "lab.evidence.ledger",
        "lab.evidence.receipt",
        "lab.faults",
        "lab.flows",
        "lab.api.queue",
        "lab.cluster.queues",
    )
    words = {"lab.flows", "lab.flows.labels"}  # they import nothing more
    assert {name for name in shown.stdout.split() if name.startswith(slow)} - words == set()
