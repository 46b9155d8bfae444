"""A folder written whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.errors import OutputError, RefusedError


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder with these files, path -> content; scripts may be run.

    Raises RefusedError for one that holds something, OutputError when it cannot be written.
    """
    if folder.is_dir():
        if any(folder.iterdir()):
            raise RefusedError(f"{folder} is not empty", "name a new folder, or remove that one")
    elif folder.exists() or folder.is_symlink():
        raise RefusedError(f"{folder} is not a folder", "name a new one")
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=parent, prefix=f".{folder.name}."))
        try:
            for path, content in files.items():
                target = made / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                if path.endswith(".sh"):
                    target.chmod(0o755)
            made.chmod(0o755)
            if folder.is_dir():
                folder.rmdir()
            os.replace(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"cannot write {error.filename or folder}: {error.strerror}", "nothing was written"
        ) from error
