"""Folders of a job as Ray 2.60's own client packs them: the same files are left out, by the same patterns.

Ray's client is not used for it: importing Ray takes half a second, and labctl runs without Ray. The package
pathspec of PyPI has newer rules than the copy in Ray: there `!keep` brings back what is below keep, too.
tests/unit/cluster/test_packing.py compares with Ray's own functions.
"""

from __future__ import annotations

import io
import os
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL, TooLargeError, read_bytes, read_text

DEFAULT_EXCLUDES = ".git,.venv,venv,__pycache__"
DEFAULT_EXCLUDES_VARIABLE = "RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES"
"""What Ray leaves out by itself, and its variable with a list to use instead (ray_constants.py, ray 2.60)."""

CACHES = (".ipynb_checkpoints", ".mypy_cache", ".ruff_cache", ".pytest_cache")
"""Folders of tools that labctl leaves out, too."""

NO_GITIGNORE_VARIABLE = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Ray's variable: with 1 what .gitignore names is sent."""

MAX_PACKAGE_BYTES = 100 * 1024**2
"""Largest folder, zipped: that of a request which Ray's dashboard takes (DASHBOARD_CLIENT_MAX_SIZE)."""

MAX_UNPACKED_BYTES = 1024**3
"""Most bytes of files in it: what takes no room on a disk or when zipped would still be read."""


@dataclass(frozen=True)
class Patterns:
    """Patterns of one list or file, for paths below `folder`: the last one that matches a path decides."""

    source: str
    folder: Path
    patterns: tuple[tuple[str, re.Pattern[str], bool], ...]
    """Each as it is written and compiled, and if it leaves out what it matches."""

    def reason(self, path: Path) -> str:
        """The pattern that leaves out a path, with its source; empty where none does."""
        name, last = path.relative_to(self.folder).as_posix(), ""
        for text, pattern, excludes in self.patterns:
            if pattern.match(name):
                last = f"{self.source}: {text}" if excludes else ""
        return last


def patterns(lines: Iterable[str], folder: Path, source: str) -> Patterns:
    """Compile patterns as those of .gitignore. Raises UsageError for one that cannot be."""
    compiled = []
    for line in lines:
        text = line.strip()
        if not text or text == "/" or text.startswith("#"):
            continue
        excludes = not text.startswith("!")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a `[` in brackets, of which Python says that it may change
                pattern = re.compile(_expression(text.removeprefix("!"), excludes))
        except (re.error, IndexError) as error:
            raise UsageError(f"{source}: {text}: not a pattern: {error}") from error
        compiled.append((text, pattern, excludes))
    return Patterns(source, folder, tuple(compiled))


def packed(folder: Path, excludes: Sequence[str] = (), what: str = "the working directory") -> Iterator[Path]:
    """Yield the files below a folder, which is `what`, that are sent, and its empty folders, sorted.

    Links are followed, but for one to a folder that it lies in. Raises UsageError for what cannot be read.
    """
    own = _own_excludes(folder, excludes)
    waiting: list[tuple[Path, tuple[Patterns, ...], tuple[tuple[int, int], ...]]] = [(folder, (own,), ())]
    while waiting:
        path, active, above = waiting.pop()
        is_folder = path.is_dir()
        if is_folder:
            active = (*active, *_ignore_files(path))
        if any(rules.reason(path) for rules in active):
            continue
        if is_folder:
            try:
                info, names = path.stat(), sorted((entry.name for entry in os.scandir(path)), reverse=True)
            except OSError as error:
                raise UsageError(f"cannot read {path} of {what}: {error.strerror}") from error
            identity = (info.st_dev, info.st_ino)
            if not names and path != folder:
                yield path
            if identity not in above:
                waiting += [(path / name, active, (*above, identity)) for name in names]
        elif path.is_file():
            yield path


def left_out(path: Path, folder: Path, excludes: Sequence[str] = ()) -> str:
    """The reason for which a file is not sent with a folder: the pattern, with its source; empty if it is."""
    path, folder = Path(os.path.abspath(path)), Path(os.path.abspath(folder))
    if not path.is_relative_to(folder):
        return f"it is not in {folder}"
    active = [_own_excludes(folder, excludes)]
    for parent in (*reversed(path.parents), path):
        if parent == folder or folder in parent.parents:
            active += _ignore_files(parent)
            if reasons := [reason for rules in active if (reason := rules.reason(parent))]:
                return reasons[0]
    return ""


def package(
    folder: Path,
    excludes: Sequence[str] = (),
    parent: str = "",
    what: str = "the working directory",
) -> bytes:
    """`folder`, which is `what`, as a zip, equal bytes for equal content, all of it below `parent` in there.

    One that is a .zip file is that file. Raises NotFoundError, UsageError when too large.
    """
    if folder.is_file() and folder.suffix == ".zip":
        return _content(folder)
    if not folder.is_dir():
        raise NotFoundError(f"{what} {folder} does not exist, or is neither a folder nor a .zip file")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        left = MAX_UNPACKED_BYTES
        for path in packed(folder, excludes, what):
            try:
                name = (parent / path.relative_to(folder)).as_posix()
                if path.is_dir():
                    archive.writestr(zipfile.ZipInfo(f"{name}/"), b"")
                    continue
                entry = zipfile.ZipInfo(name)  # a fixed date, so that only content counts
                entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
                content = read_bytes(path, left)
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            except TooLargeError as error:
                raise _too_large(what, folder, f"{MAX_UNPACKED_BYTES >> 20} MiB: {path}") from error
            except OSError as error:
                raise UsageError(f"cannot read {path} of {what}: {error.strerror}") from error
            except UnicodeEncodeError as error:
                raise UsageError(f"the name of {str(path)!a} in {what} is not UTF-8") from error
            left -= len(content)
            if buffer.tell() > MAX_PACKAGE_BYTES:
                break
    if buffer.tell() > MAX_PACKAGE_BYTES:
        raise _too_large(what, folder, f"{MAX_PACKAGE_BYTES >> 20} MiB zipped")
    return buffer.getvalue()


def module_package(path: Path, excludes: Sequence[str] = ()) -> tuple[str, bytes]:
    """The name that a module's package ends with, and the package: a folder, a .py file or a wheel.

    Raises NotFoundError, UsageError.
    """
    if path.suffix == ".whl":
        return path.name, _content(path)
    if path.suffix != ".py" or path.is_dir():
        return ".zip", package(path, excludes, path.name, "the module")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(path.name), _content(path), zipfile.ZIP_DEFLATED)
    return ".zip", buffer.getvalue()


def _content(path: Path) -> bytes:
    """A file that is sent as it is. Raises UsageError."""
    try:
        return read_bytes(path, MAX_PACKAGE_BYTES)
    except OSError as error:
        raise UsageError(f"cannot send {path}: {error.strerror}") from error


def _too_large(what: str, folder: Path, limit: str) -> UsageError:
    return UsageError(
        f"{what} {folder} is larger than {limit}",
        "name what it does not need in .rayignore, or choose a smaller one with --working-dir; "
        "put data into the object store or a volume",
    )


def _own_excludes(folder: Path, excludes: Sequence[str]) -> Patterns:
    """What is left out whatever lies in the folder: Ray's list, that of tools, and `excludes`."""
    rays = os.environ.get(DEFAULT_EXCLUDES_VARIABLE, DEFAULT_EXCLUDES).split(",")
    return patterns([*rays, *CACHES, *excludes], folder, "excludes")


def _ignore_files(folder: Path) -> Iterator[Patterns]:
    """The patterns of the ignore files that lie in a folder. Raises UsageError."""
    use_gitignore = os.environ.get(NO_GITIGNORE_VARIABLE, "0") != "1"
    for name in (".gitignore", ".rayignore") if use_gitignore else (".rayignore",):
        path = folder / name
        if path.is_file():
            try:
                lines = re.split(r"\r\n|\r|\n", read_text(path, SMALL))
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}") from error
            except ValueError as error:
                raise UsageError(f"{path}: {error}") from error
            yield patterns(lines, folder, str(path))


def _expression(text: str, excludes: bool) -> str:
    """The regular expression of a pattern, as Ray's copy of pathspec 0.8.1 makes it (gitwildmatch.py)."""
    parts = text.removeprefix("\\").split("/")
    if not parts[0]:
        del parts[0]
    elif (len(parts) == 1 or (len(parts) == 2 and not parts[1])) and parts[0] != "**":
        parts.insert(0, "**")
    if not parts[-1] and len(parts) > 1:
        parts[-1] = "**"
    last, made, slash = len(parts) - 1, "^", False
    for number, part in enumerate(parts):
        if part == "**":
            if number == 0:
                made += ".+" if number == last else "(?:.+/)?"
            else:
                made += "/.*" if number == last else "(?:/.+)?"
            slash = number not in (0, last)
            continue
        made += "/" if slash else ""
        slash = True
        if part == "*":
            made += "[^/]+"
        else:
            made += _glob(part) + ("(?:/.*)?" if number == last and excludes else "")
    return f"{made}$"


_BRACKET = re.compile(r"(?:!|(?!!))(?:\][^\]]*|[^\]]+)\]")
"""The rest of an expression in brackets, in which a `]` may stand first."""


def _glob(part: str) -> str:
    """The regular expression of one part of a path with wildcards."""
    made, at = "", 0
    while at < len(part):
        character, at = part[at], at + 1
        if character == "\\":
            made, at = made + re.escape(part[at : at + 1]), at + 1
        elif character == "[" and (match := _BRACKET.match(part, at)):
            first = {"!": "^", "^": "\\^"}.get(match[0][0], "")
            made += f"[{first}" + match[0][bool(first) :].replace("\\", "\\\\")
            at = match.end()
        else:
            made += {"*": "[^/]*", "?": "[^/]", "[": "\\["}.get(character, re.escape(character))
    return made
