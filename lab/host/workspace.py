"""The workspace: recipes, examples and notebooks, which people change.

A checkout has its own. What pip installed is replaced by the next version, so an installed labctl works on a
copy below `home()`. A newer version brings its files there; a file that somebody changed stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.errors import SetupError
from lab.host import environment
from lab.host.files import ROOT, home, make_public, write_private
from lab.host.reading import SMALL, read_json

NAME = "workspace"
NOTE = ".raylab.json"
"""File in the copy: path -> SHA-256 of each file as it was brought."""


def workspace_path(root: Path = ROOT) -> Path:
    """Where the workspace is, or will be. Raises what `home()` raises."""
    return home() / NAME if environment.packaged(str(root)) else root / NAME


def workspace(root: Path = ROOT) -> Path:
    """The workspace; that of an installed labctl is made, or brought up to date. Raises SetupError."""
    place = workspace_path(root)
    if place != root / NAME:
        try:
            bring(root / NAME, place)
        except OSError as error:
            raise SetupError(
                f"{error.filename or place}: {error.strerror}", "check its owner and the disk"
            ) from error
    return place


def copy(source: Path, place: Path) -> None:
    """Copy a workspace for somebody who may change all of it, unless she has one. Raises OSError.

    Links are copied as what they lead to; those that lead nowhere are left out, and so is what is hidden.
    """
    if place.exists():
        return
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for folder, folders, names in os.walk(source, onerror=_raise, followlinks=True):
        folders[:] = (name for name in folders if name != "__pycache__" and not name.startswith("."))
        into = partial / Path(folder).relative_to(source)
        into.mkdir()
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.is_file():
                shutil.copy2(path, into)  # those of an installed labctl may be read-only
                (into / path.name).chmod(path.stat().st_mode | 0o200)
    partial.rename(place)


def _raise(error: OSError) -> None:
    raise error


def bring(source: Path, place: Path) -> tuple[str, ...]:
    """Copy what is new in `source` to `place`; returns the paths of files kept because somebody changed them.

    A file that was deleted stays away until another version of it comes. Raises OSError, SetupError.
    """
    brought, wanted = note_of(place), digests(source)
    if brought == wanted:
        return ()
    make_public(place)
    kept = []
    for name in (name for name, digest in wanted.items() if brought.get(name) != digest):
        target = place / name
        if target.exists() and digest_of(target) not in (brought.get(name), wanted[name]):
            kept.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copy(source / name, partial)
        partial.replace(target)
    write_private(place / NOTE, json.dumps(wanted, indent=1))
    return tuple(kept)


def changed(place: Path) -> tuple[str, ...]:
    """Paths of the files in `place` that are a person's: added, or changed after they were brought."""
    brought = note_of(place)
    return tuple(name for name, digest in digests(place).items() if brought.get(name) != digest)


def note_of(place: Path) -> Mapping[str, str]:
    """What was brought to `place`; nothing where there is no note that can be read."""
    with contextlib.suppress(OSError, ValueError):
        note = read_json(place / NOTE, SMALL)
        return note if isinstance(note, dict) else {}
    return {}


def digests(folder: Path) -> dict[str, str]:
    """Path below `folder` -> SHA-256 of every file, but for what Python compiles and the note."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): digest_of(path) for path in files if path.name != NOTE}


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
