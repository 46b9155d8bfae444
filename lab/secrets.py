"""The secrets of a lab: generated once, kept in files that only their owner may read."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import ServiceError
from lab.home import write_private
from lab.topology import Credentials


@dataclass(frozen=True)
class Secrets:
    """The keys and tokens of one lab."""

    store: Credentials
    ray_token: str = field(repr=False)
    jupyter_token: str = field(repr=False)


STORE_FILE = "s3.json"
RAY_FILE = "ray.token"
JUPYTER_FILE = "jupyter.token"


def load_or_make(folder: Path) -> Secrets:
    """The secrets in `folder`; what is missing is generated. Raises ServiceError when a file is damaged."""
    store = folder / STORE_FILE
    if not store.exists():
        key = {"access_key": secrets.token_hex(10), "secret_key": secrets.token_hex(20)}
        write_private(store, json.dumps(key))
    for name in (RAY_FILE, JUPYTER_FILE):
        if not (folder / name).exists():
            write_private(folder / name, secrets.token_hex(32))
    try:
        document = json.loads(store.read_text(encoding="utf-8"))
        credentials = Credentials(str(document["access_key"]), str(document["secret_key"]))
        tokens = [(folder / name).read_text(encoding="utf-8").strip() for name in (RAY_FILE, JUPYTER_FILE)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, str(error)) from error
    if not all((credentials.access_key, credentials.secret_key, *tokens)):
        raise _damaged(folder, "one is empty")
    return Secrets(credentials, *tokens)


def _damaged(folder: Path, why: str) -> ServiceError:
    hint = "`labctl down`, remove that folder, then `up`"
    return ServiceError(f"the secrets in {folder} cannot be read ({why})", hint)
