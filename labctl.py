#!/usr/bin/env python3
"""labctl: boots a small Ray cluster, breaks it on purpose, and proves that training resumed.

Needs nothing but Python 3.10 to 3.13. What else it needs goes into `.venv` beside this file, on first use.
With LABCTL_NO_VENV=1 it uses the interpreter it is called with, and installs nothing.

This file keeps to what Python 2.7 can read, so that an old Python prints a message and not a SyntaxError.
"""

import os
import subprocess
import sys

OLDEST = (3, 10)
NEWEST = (3, 13)
NEEDED = "3.10 to 3.13"
SETUP_FAILED = 12
INTERRUPTED = 130


def wrong_python(version, no_venv):
    # type: (tuple[int, int], bool) -> str
    """What is wrong with a Python of this (major, minor), or an empty string."""
    if version < OLDEST:
        return "too old"
    if version > NEWEST and not no_venv:
        return "too new: Ray has no package for it"
    return ""


def runs(command):
    # type: (str) -> bool
    """Whether this Python can be called; the launchers of version managers often cannot."""
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


def complain(code, message, hint):
    # type: (int, str, str) -> int
    """Say what is wrong and what to do, as lab.cli does, and return the exit code."""
    if "--json" in sys.argv[1:]:
        import json

        kind = "Interrupted" if code == INTERRUPTED else "SetupError"
        error = {"code": kind, "exit_code": code, "message": message, "hint": hint}
        sys.stdout.write(json.dumps({"error": error}, indent=2) + "\n")
    sys.stderr.write("error: %s\n" % message)
    if hint:
        sys.stderr.write("  -> %s\n" % hint)
    return code


def main():
    # type: () -> int
    """Hand over to lab.cli in the right interpreter; the exit code when that is not possible."""
    root = os.path.dirname(os.path.realpath(__file__))
    problem = wrong_python(sys.version_info[:2], os.environ.get("LABCTL_NO_VENV") == "1")
    if problem:
        found = "%d.%d.%d" % sys.version_info[:3]
        other = other_python() or "/path/to/python3.12"
        return complain(
            SETUP_FAILED,
            "Python %s (%s) is %s; %s is needed" % (found, sys.executable, problem, NEEDED),
            "call a Python that fits: %s %s" % (other, " ".join(sys.argv)),
        )
    if root not in sys.path:
        sys.path.insert(0, root)

    from lab import environment
    from lab.errors import SetupError

    try:
        python = environment.interpreter()
    except SetupError as error:
        return complain(SETUP_FAILED, error.message, error.hint)
    except KeyboardInterrupt:
        return complain(INTERRUPTED, "interrupted; the next call goes on where this one stopped", "")
    if python is None:
        import runpy

        runpy.run_module("lab.cli", run_name="__main__", alter_sys=True)
        return 0
    return environment.hand_over(python, [os.path.realpath(__file__)] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
