"""Everything that labctl has written on this machine, and its removal.

A trace is a folder, or an image of an engine. What can be made again is removed as it is; what is a
person's is named apart, and goes only where that is asked for too. A folder counts as a trace by what
labctl put into it, not by its name alone: RAYLAB_HOME may be a folder with other things.

A lab is taken down as `down --volumes` does, so that no container, volume or lease of it stays. What labs
below other homes share with those of this one (folders for running processes, leases of GPUs) goes when it
is empty.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from lab.errors import LabError, RefusedError
from lab.extension import call, extensions
from lab.host import environment
from lab.host.environment.venv import LOCK as SETUP_LOCK
from lab.host.files import data_folder, home, lock_of, remove, user_cache, user_state
from lab.host.workspace import NAME, NOTE, changed
from lab.lab import Lab
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.local import temporary
from lab.runtime.ports import LOCK as PORTS_LOCK
from lab.runtime.stopping import refuse_down

IMAGES = "raylab/*"
"""The project's own images, as `docker image ls` takes it."""

CLUSTERS = ".clusters"
"""Folder with the notes on faults that last in clusters (lab/ext/kubernetes)."""

HOLDER = re.compile(rb"\d+ [a-z]")
"""What the lock of a lab begins with: the last process that held it, and what it did."""

NOT_LISTED = (
    "volumes of Docker, which go with their lab; its cache of builds, which `docker builder prune` empties; "
    "images that others publish; caches of uv, pip and Go, which other programs use too; completion scripts; "
    "your own modules in faults/; what is below another RAYLAB_HOME"
)


@dataclass(frozen=True)
class Trace:
    """One thing that labctl wrote."""

    what: str
    place: str
    size: int = 0
    """Bytes, links not followed; of an image as its engine counts, with layers that others have too."""
    yours: bool = False
    """True for what nobody but its owner can make again."""
    lab: str = ""
    """The lab whose folder this is."""
    image: bool = False
    shared: bool = False
    """True for a folder that labs below other homes use too: it goes when it is empty."""


@dataclass(frozen=True)
class Places:
    """Where to look; tests put in their own."""

    home: Path = field(default_factory=home)
    root: Path = Path(environment.ROOT)
    programs: Path = field(default_factory=user_cache)
    shared: tuple[Path, ...] = field(
        default_factory=lambda: (user_state(), *(path.parent for path in temporary.of_lab("any")))
    )
    engine: DockerEngine = field(default_factory=DockerEngine)
    opener: Callable[[str, str], Lab] = lambda runtime, name: Lab(runtime, name=name)


def traces(places: Places) -> tuple[Trace, ...]:
    """What there is, in the order in which it is removed: environments last, for labctl may run in one."""
    shared = (path for path in dict.fromkeys(places.shared) if path.is_dir())
    return (
        *_labs(places.home),
        *_things(places.home),
        *(Trace(_shared(path), str(path), size_of(path), shared=True) for path in shared),
        *_if_there("programs that were built for tests", places.programs),
        *(Trace("an image of the lab", name, size, image=True) for name, size in _images(places.engine)),
        *(
            Trace("Python, and what labctl installed for it", str(p), size_of(p))
            for p in _environments(places)
        ),
    )


def _shared(folder: Path) -> str:
    return "which lab has which GPU" if folder == user_state() else "files of labs while they run"


def _labs(folder: Path) -> Iterator[Trace]:
    for lock in sorted(folder.glob("[a-z]*/lock")):
        if lock.is_file() and HOLDER.match(lock.read_bytes()):
            what = "a lab: stored objects, ledgers, logs, secrets"
            yield Trace(what, str(lock.parent), size_of(lock.parent), True, lock.parent.name)


def _things(folder: Path) -> Iterator[Trace]:
    for path in (path for extension in extensions() for path in extension.traces):
        with contextlib.suppress(Exception, SystemExit):  # of somebody else's; the others are listed
            listing = cast("Iterable[tuple[str, Path, bool]]", call(path, folder))
            for what, place, yours in listing:
                yield from _if_there(what, place, yours=yours)
    yield from _if_there("notes on faults that last in clusters", folder / CLUSTERS, yours=True)
    if (folder / NAME / NOTE).is_file():
        yield from _if_there("recipes and notebooks", folder / NAME, yours=bool(changed(folder / NAME)))


def _if_there(what: str, path: Path, *, yours: bool = False) -> Iterator[Trace]:
    if path.is_dir():
        yield Trace(what, str(path), size_of(path), yours)


def _environments(places: Places) -> list[Path]:
    folders = [places.root / ".venv", *sorted((places.home / environment.ENVIRONMENTS).glob("*"))]
    return [folder for folder in folders if (folder / SETUP_LOCK).is_file()]


def _images(engine: DockerEngine) -> list[tuple[str, int]]:
    """Name and bytes of each."""
    try:
        names = engine.ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", IMAGES).split()
        if not names:
            return []
        sizes = engine.ask("image", "inspect", "--format", "{{.Size}}", *names).split()
    except LabError:  # none answers: it cannot be asked
        return []
    return [(name, int(size)) for name, size in zip(names, sizes, strict=True)]


def size_of(path: Path) -> int:
    """Bytes below a path, as far as they may be looked at."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def remove_traces(
    listed: Iterable[Trace], places: Places, *, yours: bool, say: Callable[[str], None]
) -> tuple[Trace, ...]:
    """Remove traces, those that are a person's only with `yours`; returns those that are gone.

    Raises RefusedError while a lab is up, or where its `down --volumes` is refused, before anything is
    removed; and what `Lab.down` raises.
    """
    listed = tuple(listed)
    for trace in (trace for trace in listed if trace.lab):
        if places.opener("auto", trace.lab).status().up:
            raise RefusedError(f"lab {trace.lab} is up", f"stop it: labctl down --lab {trace.lab}")
        for lab in _opened(trace, places) if yours else ():
            refuse_down(lab.runtime, volumes=True)
    gone = []
    for trace in (trace for trace in listed if yours or not trace.yours):
        if not trace.shared:
            say(f"removing {trace.place}")
        if _remove(trace, places):
            gone.append(trace)
    if all(trace in gone or trace.shared or trace.image for trace in listed):
        for lock in (lock_of(data_folder(places.home)), places.home / PORTS_LOCK):
            lock.unlink(missing_ok=True)
    for folder in (data_folder(places.home), places.home / environment.ENVIRONMENTS, places.home):
        _remove_empty(folder)
    return tuple(gone)


def _remove(trace: Trace, places: Places) -> bool:
    if trace.image:
        with contextlib.suppress(LabError):  # another lab runs on it
            places.engine.ask("image", "rm", trace.place)
            return True
        return False
    if trace.shared:
        return _remove_empty(Path(trace.place))
    for lab in _opened(trace, places) if trace.lab else ():
        lab.down(volumes=True)
    remove(Path(trace.place))
    return True


def _opened(trace: Trace, places: Places) -> Iterator[Lab]:
    """The lab of a trace on each runtime that may hold something of it."""
    yield places.opener("local", trace.lab)
    if _answers(places.engine):
        yield places.opener("compose", trace.lab)


def _answers(engine: DockerEngine) -> bool:
    try:
        engine.check_engine()
    except LabError:
        return False
    return True


def _remove_empty(folder: Path) -> bool:
    """Remove a folder in which there are, at most, empty folders; returns whether it is gone.

    One with a file is left as it is: a lab that runs needs its empty folders too.
    """
    with contextlib.suppress(OSError):
        if not any(files for _, _, files in os.walk(folder)):
            for inner, _, _ in os.walk(folder, topdown=False):
                os.rmdir(inner)
    return not folder.exists()
