"""JupyterLab's files, with the page that it opens on among them: no file has it, so no checkout changes.

Loaded by JupyterLab alone: compose/jupyter/jupyter_server_config.py names the class.
"""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from lab.ext.course.lessons.catalogue import lessons
from lab.ext.course.lessons.index import index
from lab.host.jupyter import INDEX

STARTED = datetime.now(timezone.utc)


class Contents(AsyncLargeFileManager):
    """The files of a workspace, and INDEX, which cannot be changed."""

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,
        format: str | None = None,
        require_hash: bool = False,
    ) -> dict[str, object]:
        """The model of a file or folder."""
        name = path.strip("/")
        if name == INDEX:
            return _page(content, require_hash)
        model: dict[str, object] = await super().get(path, content, type, format, require_hash)
        entries = model.get("content")
        if not name and isinstance(entries, list):
            entries.append(_page(content=False))
        return model

    async def file_exists(self, path: str) -> bool:
        """Tell if there is such a file."""
        return path.strip("/") == INDEX or bool(await super().file_exists(path))

    async def save(self, model: dict[str, object], path: str = "") -> dict[str, object]:
        """Save a file or folder."""
        if path.strip("/") == INDEX:
            raise HTTPError(
                403, f"{INDEX} is made anew each time that it is opened; save it under another name"
            )
        saved: dict[str, object] = await super().save(model, path)
        return saved


def _page(content: bool = True, require_hash: bool = False) -> dict[str, object]:
    text = index(os.environ, lessons())
    return {
        "name": INDEX,
        "path": INDEX,
        "type": "file",
        "mimetype": "text/markdown" if content else None,
        "format": "text" if content else None,
        "content": text if content else None,
        "size": len(text.encode()),
        "created": STARTED,
        "last_modified": STARTED,
        "writable": False,
        "hash": hashlib.sha256(text.encode()).hexdigest() if require_hash else None,
        "hash_algorithm": "sha256" if require_hash else None,
    }
