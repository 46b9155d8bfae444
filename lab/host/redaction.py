"""What is taken out of texts that others are to read: secrets, and what names this machine or its user."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from lab.host.files import FOLDER, home

T = TypeVar("T")

HIDDEN = "…"

SHORTEST = 8
"""Characters of the shortest secret; shorter words in a file of secrets are such as `default`."""
SHORTEST_NAME = 4
"""Characters of the shortest name of a machine that is hidden: `ray` stands for more than a machine."""

SECRET = re.compile(rf"[\w./+=-]{{{SHORTEST},}}(?![\w./+=-]|[\"\s]*[:=])")
"""A word in a file of secrets, but for names of fields, which a colon or an equals sign follows."""

USER_OF_URL = re.compile(r"(?<=://)[^/\s\"'@]+@")
QUERY_OF_URL = re.compile(r"(\b\w+://[^\s?\"'<>]+\?)[^\s\"'<>]+")
"""A query holds tokens and signatures."""
ADDRESS = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]*\w)")
"""An IPv4 address, with its port; those of loopback are the same on every machine."""
TOKEN = re.compile(r"(?<!sha256:)\b[0-9a-fA-F]{32,}\b")
"""What may be a token; a digest that says so is none."""
FOLDERS = re.compile(rf"(?<![\w/.{HIDDEN}])~?/(?:[\w.+-]+/)+")
"""The folders of a path that is absolute, or of a home. An address such as s3://ray/run has none of them."""
SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var")
"""Folders below / that are the same on every machine."""


@dataclass(frozen=True)
class Redaction:
    """What is hidden beside what is recognised by its form; `of_this_machine` is that of this one."""

    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    names: tuple[str, ...] = ()
    """Of machines: hidden where they stand as a word of their own."""
    user: Path | None = None
    """The user's home, which becomes `~`; of the folders in it `.raylab` alone is named."""

    def text(self, text: str) -> str:
        """`text` without secrets, passwords and queries of URLs, addresses, folders, and these names."""
        for secret in sorted({*self.secrets} - {""}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        text = USER_OF_URL.sub(f"{HIDDEN}@", text)
        text = QUERY_OF_URL.sub(rf"\g<1>{HIDDEN}", text)
        text = TOKEN.sub(HIDDEN, ADDRESS.sub(HIDDEN, text))
        if self.user and self.user.name:
            text = re.sub(rf"(?<![\w/]){re.escape(str(self.user))}(?![\w-])", "~", text)
        text = FOLDERS.sub(_folders, text)
        for name in self.names:
            if len(name) >= SHORTEST_NAME:
                text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", HIDDEN, text)
        return text

    def everything(self, value: T) -> T:
        """The same of every text in a value of dataclasses, mappings, lists and tuples.

        Fields that are called a SHA-256 stay as they are.
        """
        return cast("T", self._everything(value))

    def _everything(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(value, **self._fields(vars(value)))
        if isinstance(value, Mapping):
            return self._fields(value)
        if isinstance(value, (tuple, list)):
            parts = [self._everything(part) for part in value]
            return tuple(parts) if isinstance(value, tuple) else parts
        return value

    def _fields(self, fields: Mapping[str, object]) -> dict[str, object]:
        return {
            name: value if name.endswith("sha256") else self._everything(value)
            for name, value in fields.items()
        }


def of_this_machine(*secrets: str, labs: Path | None = None, user: Path | None = None) -> Redaction:
    """What is hidden of this machine: secrets of every lab, these besides, its name, its user's home.

    `labs` is the folder of all labs, `user` the user's home. Files that cannot be read are left out.
    """
    return Redaction((*secrets, *_secrets(labs or home())), (platform.node(),), user or Path.home())


def _folders(match: re.Match[str]) -> str:
    """The folders of a path if they say nothing of a person, else nothing of them."""
    folders = match[0]
    named = folders.split("/")[1] in SYSTEM and folders[0] == "/"
    return folders if named or folders.startswith(f"~/{FOLDER}/") else f"{HIDDEN}/"


def _secrets(labs: Path) -> Iterator[str]:
    for path in labs.glob("*/secrets/*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield from SECRET.findall(path.read_text(encoding="utf-8"))
