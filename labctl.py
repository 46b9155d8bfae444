#!/usr/bin/env python3
"""labctl: boots a small Ray cluster, breaks it on purpose, and proves that training resumed.

Needs nothing but Python 3.10 to 3.13. What else it needs goes into `.venv` beside this file, on first use;
where this file is a part of an installed package, into an environment below $RAYLAB_HOME.
With LABCTL_NO_VENV=1 it uses the interpreter it is called with, and installs nothing.

This file keeps to what Python 2.7 can read, so that an old Python prints a message and not a SyntaxError.
"""

import os
import sys

try:
    import signal
except KeyboardInterrupt:  # it imports others, before an interrupt can be handled
    os._exit(130)

OLDEST = (3, 10)
NEWEST = (3, 13)
NEEDED = "3.10 to 3.13"
SETUP_FAILED = 12
INTERRUPTED = 130


def wrong_python(version, no_venv):
    # type: (tuple[int, int], bool) -> str
    """The reason why a Python of this (major, minor) will not do, or an empty string."""
    if version < OLDEST:
        return "too old"
    if version > NEWEST and not no_venv:
        return "too new: Ray has no package for it"
    return ""


def runs(command):
    # type: (str) -> bool
    """True if this Python can be called; the launchers of version managers often cannot."""
    import subprocess

    try:
        process = subprocess.Popen(
            [command, "-c", "import venv"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        process.communicate()
    except OSError:
        return False
    return process.returncode == 0


def other_python():
    # type: () -> str
    """The newest Python on PATH that would do, or an empty string."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = "python3.%d" % minor
        if runs(name):
            return name
    return ""


def complain(code, message, hint, kind="SetupError"):
    # type: (int, str, str, str) -> int
    """Say what is wrong and what to do, as lab.cli does, and return the exit code."""
    if "--json" in sys.argv[1:]:
        import json

        kind = "Interrupted" if code > 128 else kind
        error = {"code": kind, "exit_code": code, "message": message, "hint": hint}
        tell(1, json.dumps({"error": error}, indent=2))
    tell(2, "error: %s" % message)
    if hint:
        tell(2, "  -> %s" % hint)
    return code


def tell(number, line):
    # type: (int, str) -> None
    """Write a line to stdout (1) or stderr (2); if that fails, let Python still end without an error."""
    stream = sys.stdout if number == 1 else sys.stderr
    try:
        stream.write(line + "\n")
        stream.flush()
    except EnvironmentError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def open_streams():
    # type: () -> None
    """Open substitutes for closed standard streams: else the next file gets their number.

    Nothing can be read from it; to stdout nothing can be written, as it must be; on stderr all is lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR if number == 2 else os.O_RDONLY), number)
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, "w" if number else "r", closefd=False))


def leave(_number, _frame):
    # type: (int, object) -> None
    """Handle SIGINT while modules are imported: there is nothing to clean up yet."""
    try:
        complain(INTERRUPTED, "interrupted", "")
    finally:
        os._exit(INTERRUPTED)


def main():
    # type: () -> int
    """Hand over to lab.cli in the right interpreter; the exit code when that is not possible."""
    open_streams()
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):  # nohup
        signal.signal(signal.SIGINT, leave)
    if os.name == "nt":
        return complain(
            SETUP_FAILED,
            "labctl runs on Linux and macOS; on Windows it runs in WSL",
            "`wsl --install`, then run this again in the Linux that it opens",
        )
    root = os.path.dirname(os.path.realpath(__file__))
    problem = wrong_python(sys.version_info[:2], os.environ.get("LABCTL_NO_VENV") == "1")
    if problem:
        version = "%d.%d.%d" % sys.version_info[:3]
        other = other_python() or "/path/to/python3.12"
        return complain(
            SETUP_FAILED,
            "Python %s (%s) is %s; %s is needed" % (version, sys.executable, problem, NEEDED),
            "run it with a Python that fits: %s %s" % (other, " ".join(sys.argv)),
        )
    if root not in sys.path:
        sys.path.insert(0, root)

    from lab.errors import LabError
    from lab.host import environment, interrupts

    try:
        with interrupts.raised():
            python = environment.interpreter()
    except LabError as error:
        return complain(error.exit_code, error.message, error.hint, type(error).__name__)
    except KeyboardInterrupt as error:
        again = "interrupted; the next run continues where this one stopped"
        return complain(interrupts.exit_code(error), again, "")
    if python is None:
        import runpy

        runpy.run_module("lab.cli", run_name="__main__", alter_sys=True)
        return 0
    return environment.hand_over(python, [os.path.realpath(__file__)] + sys.argv[1:])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(complain(INTERRUPTED, "interrupted", ""))
