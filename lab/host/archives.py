"""Archives that somebody made up: what the standard library raises for them."""

from __future__ import annotations

import lzma
import zipfile
import zlib

ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, LookupError, OSError),
    RuntimeError,  # a password, or a compression of its own
)
"""Errors of opening, listing and reading a zip."""
