"""Files as ConfigMaps: the recorder with the patches, a job's code, dashboards."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from functools import cache

from lab.errors import UsageError
from lab.ext.kubernetes.export.request import Object
from lab.extension import probes

MOST_BYTES = 1024**2
"""The API server takes no larger ConfigMap."""

KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")


@cache
def probe_files() -> Mapping[str, bytes]:
    """What the lab puts on PYTHONPATH of its nodes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for root in probes()
        for path in sorted(root.rglob("*.py"))
    }


def key_of(path: str) -> str:
    """The key of a file: a ConfigMap has no folders."""
    return path.replace("/", ".")


def items_of(paths: Iterable[str]) -> list[Object]:
    """The files of a volume, each at its path."""
    return [{"key": key_of(path), "path": path} for path in paths]


def config_map(
    name: str, namespace: str, files: Mapping[str, bytes], labels: Mapping[str, str], what: str
) -> Object:
    """A ConfigMap with these files. Raises UsageError for more than it can hold, which `what` names."""
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for path, content in files.items():
        if not KEY.fullmatch(key_of(path)) or key_of(path) in {*texts, *others}:
            message = f"{what}: a ConfigMap has no key of its own for {path!r}"
            raise UsageError(message, "rename it, or --code image")
        try:
            texts[key_of(path)] = content.decode()
        except UnicodeDecodeError:
            others[key_of(path)] = base64.b64encode(content).decode()
    size = sum(map(len, files.values()))
    if size > MOST_BYTES:
        raise UsageError(
            f"{what}: {size} bytes of files, a ConfigMap holds {MOST_BYTES}",
            "put it into an image: --code image",
        )
    manifest: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
    }
    return {**manifest, **({"data": texts} if texts else {}), **({"binaryData": others} if others else {})}
