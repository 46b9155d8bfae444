"""Data sets, and the manifest in the folder of each."""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.api.light import restore
from lab.host.reading import SMALL, read_json

SPLITS = ("training", "validation", "evaluation")
MANIFEST = "dataset.json"
PICTURES = (".jpg", ".jpeg", ".png")

Counts = Mapping[str, Mapping[str, int]]
"""Split -> class folder -> pictures."""

OnProgress = Callable[[str, int, int], None]
"""(phase, done, total), a total of 0 being unknown: `download` and `verify` count bytes, `unpack` and `draw`
pictures."""


def ignore_progress(phase: str, done: int, total: int) -> None:
    """No-op."""


@dataclass(frozen=True)
class Dataset:
    """Pictures in `folder`/split/class, as they lie there now."""

    name: str
    folder: Path
    pictures: int
    """Number of pictures in all splits."""
    counts: Counts
    bytes: int
    """Size of the pictures."""
    source: str
    """The URL or file it came from, or how it was drawn; empty for a folder that labctl did not make."""
    sha256: str
    """SHA-256 of the archive, or of the pixels of drawn pictures; empty when unknown."""
    synthetic: bool
    missing: int = 0
    """Pictures that were there when it was made, and are not now."""

    def split(self, name: str) -> int:
        """Pictures in one split."""
        return sum(self.counts.get(name, {}).values())


@dataclass(frozen=True)
class Manifest:
    """What was written into a folder when it was made."""

    source: str = ""
    sha256: str = ""
    synthetic: bool = False
    counts: Counts = field(default_factory=dict)


def read(folder: Path) -> Dataset:
    """The data set in `folder`. A manifest that is not there or cannot be read says nothing."""
    counts, size = _look(folder)
    try:
        made = restore(Manifest, read_json(folder / MANIFEST, SMALL))
    except (OSError, ValueError):
        made = Manifest()
    then = ((split, kind, number) for split, row in made.counts.items() for kind, number in row.items())
    missing = sum(max(0, number - counts.get(split, {}).get(kind, 0)) for split, kind, number in then)
    pictures = sum(number for row in counts.values() for number in row.values())
    origin = (made.source, made.sha256, made.synthetic)
    return Dataset(folder.name, folder, pictures, counts, size, *origin, missing)


def write(folder: Path, *, source: str, sha256: str, synthetic: bool) -> None:
    """Write the manifest of `folder`: source and number of the pictures of each class."""
    made = Manifest(source, sha256, synthetic, _look(folder)[0])
    store(folder / MANIFEST, (json.dumps(asdict(made), indent=1) + "\n").encode())


def store(path: Path, content: bytes) -> None:
    """Write a file that every user may read, whatever the umask is: containers run as another user."""
    path.write_bytes(content)
    path.chmod(0o644)


def make_folder(path: Path) -> Path:
    """`path`, a folder that every user may read, with the folders above it that are missing."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
    return path


def _look(folder: Path) -> tuple[dict[str, dict[str, int]], int]:
    """Pictures of each split and class, and their bytes in all. What vanishes meanwhile does not count."""
    counts: dict[str, dict[str, int]] = {}
    size = 0
    for path in (path for split in SPLITS for path in sorted(folder.glob(f"{split}/*/*"))):
        with contextlib.suppress(OSError):  # such as a link that leads nowhere
            info = path.stat()
            if path.suffix.lower() in PICTURES and stat.S_ISREG(info.st_mode):
                row = counts.setdefault(path.parent.parent.name, {})
                row[path.parent.name] = row.get(path.parent.name, 0) + 1
                size += info.st_size
    return counts, size
