"""Images in a file, for a machine that reaches no registry."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lab.errors import LabError, NotFoundError, RefusedError, SetupError, UsageError
from lab.host.environment.progress import Printer
from lab.host.reading import SMALL, open_file, parse_json
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images.model import ImageNeed, kept_name

LEVEL = 1
"""gzip's level: the images are mostly machine code; more takes many times as long for a tenth less."""

CHUNK = 1 << 20

GZIP_SUFFIXES = (".gz", ".tgz")


MANIFEST = "manifest.json"
"""File of an image archive that names the images."""

DESCRIBING = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Types of members that only describe the next one; tarfile reads them into memory, whatever their size."""

NAME = re.compile(r"[\w.\-:/@]{1,500}", re.ASCII)
"""Form of an image's name; its other rules are the engine's."""


class _Header(tarfile.TarInfo):
    """A member's header that makes sense: tarfile takes any number for a size (CVE-2025-8194)."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in DESCRIBING and header.size > SMALL):
            raise tarfile.HeaderError("a size that makes no sense")
        return header


@dataclass(frozen=True)
class Archive:
    """An image archive."""

    path: str
    size: int
    """Bytes of the file."""
    images: tuple[str, ...]
    """The names of the images in it."""


def save(
    path: Path,
    needs: Sequence[ImageNeed],
    engine: DockerEngine | None = None,
    progress: Printer | None = None,
) -> Archive:
    """Write the images, all of them present, into one file; compressed when its name ends in .gz or .tgz.

    The file appears when it is whole and was read back; a partial one is removed. A file of that name is
    replaced.
    Raises NotFoundError, RefusedError, SetupError, EngineError.
    """
    engine, progress = engine or DockerEngine(), progress or Printer()
    if absent := [need for need in needs if not need.present]:
        raise RefusedError(
            f"not on this machine: {', '.join(need.name for need in absent)}",
            "get them first: " + ", ".join(sorted({f"`{need.how}`" for need in absent})),
        )
    names = []
    for need in needs:
        name = kept_name(need.name)
        if name not in (need.name, need.local_name):
            engine.tag(need.name, name)
        names.append(name)
    try:
        _write(path, names, sum(need.size for need in needs), engine, progress)
        archive = Archive(str(path), path.stat().st_size, tuple(names))
    except OSError as error:
        raise _from_os(error, path) from error
    finally:
        progress.clear()
    return archive


def _write(path: Path, names: Sequence[str], expected: int, engine: DockerEngine, progress: Printer) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", "name a file, such as images.tar.gz")
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(os.fdopen(descriptor, "wb"))
            if path.name.endswith(GZIP_SUFFIXES):
                packed = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file)
                out: IO[bytes] = stack.enter_context(packed)  # type: ignore[arg-type]
            else:
                out = file
            done = 0
            for data in stack.enter_context(engine.saved(names)):
                out.write(data)
                done += len(data)
                progress.update(
                    f"saving {len(names)} images: {done / 1e9:.1f} of about {expected / 1e9:.1f} GB"
                )
        progress.update(f"reading {path.name} back")
        if missing := set(names) - set(read(Path(partial))):
            raise SetupError(
                f"{path} is incomplete: it lacks {', '.join(sorted(missing))}",
                "run `labctl images save` again",
            )
        mask = os.umask(0)
        os.umask(mask)
        Path(partial).chmod(0o666 & ~mask)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def read(path: Path) -> tuple[str, ...]:
    """The names of the images in an archive, read from its first byte to its last.

    Raises NotFoundError, UsageError when it is none or is damaged.
    """
    no_archive = UsageError(
        f"{path} is not an image archive, or an incomplete one",
        "make it with `labctl images save FILE`, or copy it again",
    )
    entries: Any = None
    try:
        with open_file(path) as file:
            if not any(file.read(tarfile.BLOCKSIZE)):  # zeros, of which lzma would read terabytes
                raise no_archive
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:*", tarinfo=_Header) as archive:
                for member in archive:
                    if member.size < 0:
                        raise no_archive
                    if member.name == MANIFEST and not member.isfile():
                        raise UsageError(f"{path}: its {MANIFEST} is not a regular file", no_archive.hint)
                    if member.name == MANIFEST and (content := archive.extractfile(member)):
                        entries = parse_json(content.read(SMALL))
                while entries and archive.fileobj is not None and archive.fileobj.read(CHUNK):
                    pass  # what follows the last member carries the checksum of a compressed file
    except FileNotFoundError:
        raise NotFoundError(
            f"there is no file {path}", "name the file that `labctl images save` wrote"
        ) from None
    except (tarfile.TarError, EOFError, ValueError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise no_archive from error
    except (LookupError, OverflowError, MemoryError) as error:  # tarfile believes what a header says
        raise no_archive from error
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise UsageError(
                f"{path} is not an image archive: it {error.strerror}", no_archive.hint
            ) from error
        raise _from_os(error, path) from error
    try:
        names = tuple(name for entry in entries for name in entry.get("RepoTags") or ())
        if not names or not all(map(NAME.fullmatch, names)):
            raise no_archive
    except (TypeError, AttributeError) as error:
        raise no_archive from error
    return names


def load(path: Path, engine: DockerEngine | None = None, progress: Printer | None = None) -> Archive:
    """Give the engine the images of an archive.

    Raises NotFoundError, UsageError (no archive, or damaged), SetupError, EngineError.
    """
    engine, progress = engine or DockerEngine(), progress or Printer()
    try:
        progress.update(f"reading {path.name}")
        names = read(path)
        progress.update(f"loading {len(names)} images")
        engine.docker("load", "--input", str(path), what=f"loading {path}", progress=progress)
        return Archive(str(path), path.stat().st_size, names)
    finally:
        progress.clear()


def _from_os(error: OSError, path: Path) -> LabError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"{path} cannot be written: the disk is full", "choose a file on another disk")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"there is no folder {path.parent}", "name a file in a folder that exists")
    return SetupError(f"{path}: {error.strerror or error}", "choose another file")
