"""Where labs keep what outlives a command: state, secrets, logs, and the objects of the local runtime."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import SetupError, UsageError

HOME_VARIABLE = "RAYLAB_HOME"
FOLDER = ".raylab"
ROOM = 120
"""Characters of a name in that folder, at the least."""
DATA = "data"
"""Beside the labs' own folders, so no lab can have this name."""

LOCK_POLL_SECONDS = 0.1


def home() -> Path:
    """The folder of all labs: $RAYLAB_HOME, else ~/.raylab; it need not be there yet.

    Raises SetupError where there can be none, UsageError for nothing, and for the home of nobody.
    """
    chosen = os.environ.get(HOME_VARIABLE, f"~/{FOLDER}")
    if not chosen.strip():
        raise UsageError(f"{HOME_VARIABLE} is set, but empty", f"name a folder, or: unset {HOME_VARIABLE}")
    hint = f"choose a folder that you may write to: export {HOME_VARIABLE}=/some/where"
    try:
        folder = Path(chosen).expanduser().absolute()
        str(folder).encode()
    except RuntimeError as error:
        raise UsageError(f"{HOME_VARIABLE} {chosen}: no such user, or one without a home", hint) from error
    except UnicodeEncodeError as error:  # it has to go into state files and settings
        raise SetupError(f"{HOME_VARIABLE} {chosen}: not a name in UTF-8", hint) from error
    except OSError as error:
        raise SetupError(f"{HOME_VARIABLE} {chosen}: the current folder is gone", hint) from error
    try:
        os.lstat(folder / ("x" * ROOM))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SetupError(f"{HOME_VARIABLE} {chosen}: {error.strerror}", hint) from error
    return folder


def data_folder(labs: Path | None = None) -> Path:
    """The folder of data sets, one for all labs below `labs` (default: `home()`)."""
    return (labs or home()) / DATA


def make_private(folder: Path) -> Path:
    """`folder`, made if missing, readable by its owner only. Raises SetupError when that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(folder))
    except OSError as error:
        raise SetupError(
            f"cannot write to {error.filename or folder}: {error.strerror}",
            f"choose a folder that you may write to: export {HOME_VARIABLE}=/some/where",
        ) from error
    return folder


def make_public(folder: Path) -> Path:
    """`folder`, made if missing, readable by everybody: containers run as another user than root.

    Raises SetupError when that cannot be. The folders above it stay private.
    """
    make_private(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    except OSError as error:
        raise SetupError(
            f"cannot make {folder}: {error.strerror}",
            f"choose a folder that you may write to: export {HOME_VARIABLE}=/some/where",
        ) from error
    return folder


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, mode 0600: a reader sees the old content or the new."""
    make_private(path.parent)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise SetupError(
            f"cannot write {path}: {error.strerror}", "free some space or check its owner"
        ) from error


def remove(path: Path) -> None:
    """Remove a file, or what stands in its place, if there is anything. Raises SetupError."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot remove {path}: {error.strerror}", "check its owner") from error


@contextlib.contextmanager
def lock(
    path: Path, what: str, *, patience: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold `path`, a file that only its owner may read, as a lock.

    Raises SetupError, saying `what` is busy, when another labctl still holds it after `patience` seconds.
    """
    import fcntl

    make_private(path.parent)
    try:
        stream = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+")
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}", "check its owner") from error
    with stream:
        waited = 0.0
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if waited >= patience:
                    hint = "wait until it is done, then try again"
                    raise SetupError(f"another labctl is busy with {what}", hint) from error
            sleep(LOCK_POLL_SECONDS)
            waited += LOCK_POLL_SECONDS
        yield
