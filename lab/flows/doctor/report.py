"""What a report of a bug needs: versions and checks, without secrets and without the path of the home."""

from __future__ import annotations

import contextlib
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.api.base import Plain
from lab.host import environment
from lab.host.files import home
from lab.host.reading import parse_json
from lab.version import __version__

HIDDEN = "[secret]"
SHORTEST = 8
"""Characters of the shortest secret; shorter words in a file of secrets are such as `default`."""


def bug_report(
    checks: Sequence[Mapping[str, Plain]], *, labs: Path | None = None, user: Path | None = None
) -> Plain:
    """The document of `doctor --report`. `labs` is the folder of all labs, `user` the user's home."""
    document = {
        "labctl": __version__,
        "installed": environment.packaged(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "checks": list(checks),
    }
    text = json.dumps(document, ensure_ascii=False)
    for secret in sorted(set(_secrets(labs or home())), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = re.sub(r"://[^/\s\"@]+@", f"://{HIDDEN}@", text)
    return parse_json(text.replace(str(user or Path.home()), "~"))


def _secrets(labs: Path) -> Iterator[str]:
    """Every word of every file of secrets, as far as they can be read."""
    for path in labs.glob("*/secrets/*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield from re.findall(rf"[\w./+=-]{{{SHORTEST},}}", path.read_text(encoding="utf-8"))
