"""The folder of all labs, where what outlives a command lies; private files; locks.

Locks are by hand and not by the library filelock: the first one is taken before anything is installed, and
uv has to inherit it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from lab.errors import SetupError, UsageError
from lab.host.clock import MONOTONIC, Clock, settle

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: lab/, workspace/ and the others beside them."""
PROBE = ROOT / "lab" / "probe"
FORKSERVER = ROOT / "forkserver"
"""Import roots of nodes: what the lab adds to their processes, and the library that it forks them with."""

HOME_VARIABLE = "RAYLAB_HOME"
FOLDER = ".raylab"
STATE_VARIABLE, STATE = "XDG_STATE_HOME", "~/.local/state"
"""Variable of the folder in which programs keep a user's state, and that folder where it is not set."""
ROOM = 120
"""Length in characters that a name in that folder may have at least."""
DATA = "data"
"""Folder of data sets, beside the labs' own folders, so no lab can have this name."""

WRITABLE = f"choose a folder that you may write to: export {HOME_VARIABLE}=/some/where"
LOCK_POLL_SECONDS = 0.1


def home() -> Path:
    """The folder of all labs: $RAYLAB_HOME, else ~/.raylab; it need not be there yet.

    Raises SetupError where there can be none, UsageError for an empty name and for the home of no user.
    """
    chosen = os.environ.get(HOME_VARIABLE, f"~/{FOLDER}")
    if not chosen.strip():
        raise UsageError(f"{HOME_VARIABLE} is set, but empty", f"name a folder, or: unset {HOME_VARIABLE}")
    try:
        folder = Path(chosen).expanduser().absolute()
        str(folder).encode()
    except RuntimeError as error:
        raise UsageError(
            f"{HOME_VARIABLE} {chosen}: no such user, or one without a home", WRITABLE
        ) from error
    except UnicodeEncodeError as error:  # it has to go into state files and settings
        raise SetupError(f"{HOME_VARIABLE} {chosen}: not a valid name in UTF-8", WRITABLE) from error
    except OSError as error:
        raise SetupError(f"{HOME_VARIABLE} {chosen}: the current folder is gone", WRITABLE) from error
    try:
        os.lstat(folder / ("x" * ROOM))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SetupError(f"{HOME_VARIABLE} {chosen}: {error.strerror}", WRITABLE) from error
    return folder


def user_state() -> Path:
    """The folder of what all labs of a user share, whatever their home; it need not be there yet.

    Raises SetupError where there can be none.
    """
    chosen = os.environ.get(STATE_VARIABLE) or STATE
    try:
        return Path(chosen).expanduser().absolute() / "raylab"
    except (RuntimeError, OSError) as error:
        raise SetupError(
            f"{chosen}: this user has no home", f"name a folder: export {STATE_VARIABLE}=/some/where"
        ) from error


def user_cache() -> Path:
    """The folder of programs that `labctl test` builds: raylab in $XDG_CACHE_HOME, else in ~/.cache."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    return Path(chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache"), "raylab")


def data_folder(labs: Path | None = None) -> Path:
    """The folder of data sets, one for all labs below `labs` (default: `home()`)."""
    return (labs or home()) / DATA


def lock_of(folder: Path) -> Path:
    """The file that holds a folder, outside of what containers mount: whoever reads a lock can hold it."""
    return folder.with_name(f".{folder.name}.lock")


def make_private(folder: Path) -> Path:
    """`folder`, made if missing, readable by its owner only. Raises SetupError when that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(folder))
    except OSError as error:
        raise SetupError(f"cannot write to {error.filename or folder}: {error.strerror}", WRITABLE) from error
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
        raise SetupError(f"cannot make {folder}: {error.strerror}", WRITABLE) from error
    return folder


def write_private(path: Path, text: str, *, owned: bool = False) -> None:
    """Replace `path` by `text` in one step, mode 0600: a reader sees the old content or the new.

    With `owned` it is its folder's owner's by then. Raises SetupError.
    """
    make_private(path.parent)
    try:
        replace_file(path, text.encode(), owned=owned)
    except OSError as error:
        raise SetupError(
            f"cannot write {path}: {error.strerror}", "free some space or check its owner"
        ) from error


def replace_file(path: Path, data: bytes, *, flush: bool = False, owned: bool = False) -> None:
    """Replace `path` by `data` in one step, mode 0600; with `flush` once it is on disk.

    With `owned` it is its folder's owner's by then. Raises OSError.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if flush:
                stream.flush()
                os.fsync(stream.fileno())
        if owned:
            give_to_folders_owner(Path(temporary))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def give_to_folders_owner(path: Path) -> None:
    """Make the owner of a file's folder its owner; no-op for whoever may not, and owns the folder."""
    with contextlib.suppress(OSError):
        os.chown(path, path.parent.stat().st_uid, path.parent.stat().st_gid)


def hand_over(paths: Iterable[Path], uid: int, gid: int) -> None:
    """Make another user the owner of these, as whom containers run. Raises SetupError."""
    try:
        for path in paths:
            info = path.lstat()
            if (info.st_uid, info.st_gid) != (uid, gid):
                os.chown(path, uid, gid, follow_symlinks=False)
    except OSError as error:
        message = f"cannot give {error.filename} to user {uid}: {error.strerror}"
        raise SetupError(message, "run labctl as the owner of that folder") from error


def size_of(path: Path) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def remove(path: Path) -> None:
    """Remove a file, or what stands in its place, if there is anything. Raises SetupError."""
    try:
        if path.is_dir() and not path.is_symlink():
            delete_tree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot remove {path}: {error.strerror}", "check its owner") from error


def delete_tree(folder: Path) -> None:
    """Delete a folder and all in it, also in folders that are read-only, such as Go's of modules.

    What is written into it meanwhile is deleted in a second go. Raises OSError, also for a link to a folder.
    """
    if not folder.is_symlink():
        _make_writable(folder)
        for parent, names, _ in os.walk(folder):
            for name in names:
                _make_writable(Path(parent, name))
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        shutil.rmtree(folder)


def _make_writable(folder: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else's, or gone
        if not folder.is_symlink():
            folder.chmod(0o700)


def take_lock(
    path: Path,
    *,
    timeout: float = 0.0,
    on_wait: Callable[[], None] = lambda: None,
    clock: Clock = MONOTONIC,
    shared: bool = False,
) -> IO[bytes]:
    """Lock `path`, a file that only its owner may read, until what is returned is closed.

    With `shared` others may have it too, all shared. A process that inherits the descriptor holds the lock,
    too; its holder may delete the file. While another one has it, `on_wait` is called once. Raises
    BlockingIOError after `timeout` seconds, OSError where there can be no such file.
    """
    file = _open_lock(path)

    def locked() -> bool:
        nonlocal file
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_at(file, path):
                return True
            file.close()  # whoever held it has deleted it: a third one may have made another
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = _open_lock(path)
        return False

    try:
        if not locked():
            on_wait()
            if not settle(locked, bool, timeout=timeout, clock=clock, every=LOCK_POLL_SECONDS):
                raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", str(path))
    except BaseException:
        file.close()
        raise
    return file


def _open_lock(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def _is_at(file: IO[bytes], path: Path) -> bool:
    """True when this open file is the one with this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def lock(
    path: Path,
    what: str,
    *,
    patience: float = 0.0,
    on_wait: Callable[[str], None] = lambda holder: None,
    clock: Clock = MONOTONIC,
) -> Iterator[None]:
    """Hold `path` as a lock while doing `what`, such as `starting ray-worker-0`.

    While another labctl holds it, `on_wait` is called once with its name. Raises SetupError that says who is
    busy with what, when it still is after `patience` seconds.
    """

    def holder() -> str:
        try:
            pid, _, busy = path.read_text(encoding="utf-8").partition(" ")
        except (OSError, ValueError):
            pid = busy = ""
        return f"another labctl (process {pid}) is busy with {busy}" if busy else "another labctl is busy"

    make_private(path.parent)
    try:
        file = take_lock(path, timeout=patience, on_wait=lambda: on_wait(holder()), clock=clock)
    except BlockingIOError as error:
        raise SetupError(holder(), "wait until it is done, then try again") from error
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}", "check its owner") from error
    with file:
        with contextlib.suppress(OSError):  # a disk that is full must not keep anybody from `down`
            os.truncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()} {what}".encode())
        yield
