"""Where labs keep what outlives a command: state, secrets, logs, and the objects of the local runtime."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.errors import SetupError

HOME_VARIABLE = "RAYLAB_HOME"


def home() -> Path:
    """The folder of all labs: $RAYLAB_HOME, else ~/.raylab."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".raylab"


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
        raise SetupError(f"cannot write {path}: {error.strerror}", "free some space or check its owner") from error


@contextlib.contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold `path` as a lock. Raises SetupError at once when another labctl holds it, saying `what` is busy."""
    import fcntl

    make_private(path.parent)
    with path.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SetupError(f"another labctl is busy with {what}", "wait until it is done, then try again") from error
        yield
