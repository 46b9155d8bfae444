"""The folders below /tmp for Ray's sockets and for temporary files: their names can be foreseen by anybody.

Ray opens its own folder to everybody (mode 0777). The parent protects it: only its owner may enter that.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from lab.errors import SetupError

ROOM = 60
"""Longest path for temporary files, in characters: libraries put Unix sockets there, as Ray does."""

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def of_lab(short: str) -> tuple[Path, Path]:
    """The folders of a lab, by a short name that is its own: of Ray's files, and of temporary files.

    The second is where TMPDIR says, unless that path is too long.
    """
    own = Path(f"raylab-{os.getuid()}")
    scratch = Path(tempfile.gettempdir()).absolute() / own / f"{short}-tmp"
    if len(str(scratch)) > ROOM:
        scratch = Path("/tmp") / own / f"{short}-tmp"
    return Path("/tmp") / own / short, scratch


def variables(scratch: Path | None, folder: Path) -> dict[str, str]:
    """Variables of services that put temporary files into `scratch`; none without it.

    What torch.compile has compiled would be there too, and gone with the lab: the lab's `folder` has it.
    """
    if scratch is None:
        return {}
    return {"TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(folder / "torchinductor")}


def make(folder: Path) -> None:
    """Make `folder` and its parent with mode 0700, unless they are there; nobody else may enter the parent.

    Raises SetupError when one of them is a link or is not this user's, or others can write to the parent.
    """
    for path in (folder.parent, folder):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise SetupError(
                f"cannot make {path}: {error.strerror}", "free some space or check the owner of its parent"
            ) from error
        problem = _problem(path, rays=path == folder)
        if problem:
            raise SetupError(
                f"{path}, for the lab's temporary files, {problem}",
                f"see who made it, then remove it: rm -r {path}",
            )
    os.chmod(folder.parent, 0o700)


def same(kept: str, usual: Path) -> Path:
    """The folder that a state file names, if it differs from the usual one only in where TMPDIR was."""
    return Path(kept) if Path(kept).is_absolute() and Path(kept).parts[-2:] == usual.parts[-2:] else usual


def remove(folder: Path) -> None:
    """Remove `folder` and what is in it; does nothing where it, or its parent, is not this user's alone."""
    if not _problem(folder.parent) and not _problem(folder, rays=True):
        shutil.rmtree(folder, ignore_errors=True)


def _problem(folder: Path, *, rays: bool = False) -> str:
    """The reason not to trust this folder, or nothing. The mode of Ray's own folder says nothing."""
    try:
        info = os.lstat(folder)
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if stat.S_ISLNK(info.st_mode):
        return "is a link to somewhere else"
    if not stat.S_ISDIR(info.st_mode):
        return "is not a folder"
    if info.st_uid != os.getuid():
        return f"belongs to another user (uid {info.st_uid})"
    if not rays and info.st_mode & OTHERS_MAY_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(info.st_mode):o})"
    return ""
