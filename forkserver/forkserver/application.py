"""What a program that has its processes forked adds to the fork server's own rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass


def no_doubt(wanted: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Find no reason against a fork."""
    return ""


def follow_forks() -> None:
    """Let the psutil that Ray has imported find forks where their launchers are."""
    from forkserver import children

    if "psutil" in sys.modules:
        children.follow(sys.modules["psutil"])


@dataclass(frozen=True)
class Application:
    """A program whose processes are forked."""

    program: tuple[str, ...] = ("-m", "forkserver.server")
    """Arguments of the Python that begins anew as this server; its folder and its forks follow."""

    modules: tuple[str, ...] = ()
    """Modules that its trainings import beside those of `modules.TRAIN`."""

    learnt: str = ""
    """File with the names of further ones (`modules.remember`); empty for none."""

    read_at_start: tuple[str, ...] = ()
    """Prefixes of its variables that count when a process starts, beside `refusal.READ_AT_START`."""

    read_later: frozenset[str] = frozenset()
    """Exceptions, beside `refusal.READ_LATER`."""

    doubt: Callable[[Mapping[str, str], Mapping[str, str]], str] = no_doubt
    """The reason why a process with this environment is no fork of a server with that one; empty for none."""

    prepare: Callable[[], None] = follow_forks
    """Is called in every fork before its program runs, in that program's environment."""

    lasts: bool = True
    """False for a server that ends, and removes its folder, some seconds after its last fork has."""


DEFAULT = Application()
"""The fork server's own rules alone."""
