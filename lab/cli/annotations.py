"""Retry policies in files: an AppWrapper, or only its annotations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.cluster.retries import of_annotations
from lab.errors import UsageError
from lab.host.reading import SMALL, read_text


def read_annotations(path: Path) -> tuple[dict[str, object], tuple[str, ...]]:
    """Fields of a retry policy that a YAML file names, and annotations of AppWrapper that are left out.

    The file is a manifest with `metadata.annotations`, or a mapping of annotations. Raises UsageError.
    """
    from lab.flows.kubernetes.manifests import values

    try:
        documents = values(read_text(path, SMALL))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    wrappers = [
        document
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == "AppWrapper"
    ]
    if len(wrappers or documents) != 1:
        raise UsageError(f"{path}: has {len(wrappers or documents)} documents; one AppWrapper is expected")
    (chosen,) = wrappers or documents
    if isinstance(chosen, Mapping) and "kind" in chosen:
        meta = chosen.get("metadata")
        chosen = (meta.get("annotations") if isinstance(meta, Mapping) else None) or {}
    if not isinstance(chosen, Mapping):
        raise UsageError(
            f"{path}: not a mapping of annotations", "workload.codeflare.dev.appwrapper/retryLimit: '3'"
        )
    return of_annotations(chosen, str(path))
