"""The job of a RayJob, as it is submitted here: its command, and the files that were in ConfigMaps."""

from __future__ import annotations

import shlex
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import ManifestError
from lab.flows.kubernetes.clusters import RayCluster
from lab.flows.kubernetes.export.pods import PROBE_FOLDER
from lab.flows.kubernetes.manifests import Manifest, items, mapping, text, value_of


@dataclass(frozen=True)
class Job:
    """The job of a RayJob, as it is submitted here."""

    command: tuple[str, ...]
    files: Mapping[str, bytes]
    """Path in the job's folder -> content, of what was in ConfigMaps."""
    runtime_env: Mapping[str, Any]


def job_of(cluster: RayCluster, manifests: Sequence[Manifest], differs: list[str]) -> Job | None:
    job = cluster.job
    entry = text(job.get("entrypoint")) if job else ""
    if job is None or not entry.strip():
        return None
    folders = _mounted(cluster, manifests)
    try:
        words = shlex.split(entry)
        env = value_of(text(job.get("runtimeEnvYAML"))) or {}
    except ValueError as error:
        raise ManifestError(f"the job of {cluster.manifest.name} cannot be read: {error}") from None
    if not isinstance(env, dict):
        raise ManifestError(f"runtimeEnvYAML of {cluster.manifest.name} is no mapping")
    variables = mapping(env.get("env_vars"))
    kept = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    rest = {name: value for name, value in env.items() if name != "env_vars"}
    files = {path: content for each in folders.values() for path, content in each.items()}
    command = tuple(_here(word, folders) for word in words)
    script = next((word for word in command[1:] if word.endswith(".py")), "")
    if script and script not in files and "working_dir" not in rest:
        differs.append(f"{script} is not among these files: it is in the image, or nowhere")
    return Job(command, files, rest | ({"env_vars": kept} if kept else {}))


def _mounted(cluster: RayCluster, manifests: Sequence[Manifest]) -> dict[str, dict[str, bytes]]:
    """Folder on the head -> files of the ConfigMap that is mounted there, but the lab's own recorder."""
    head, space = cluster.groups[0], cluster.manifest.namespace
    maps = {each.name: each for each in manifests if (each.kind, each.namespace) == ("ConfigMap", space)}
    volumes = {
        text(mapping(v).get("name")): mapping(mapping(v).get("configMap"))
        for v in items(head.pod.get("volumes"))
    }
    found: dict[str, dict[str, bytes]] = {}
    for each in items(head.container.get("volumeMounts")):
        volume = volumes.get(text(mapping(each).get("name")), {})
        source = maps.get(text(mapping(volume).get("name")))
        folder = text(mapping(each).get("mountPath")).rstrip("/")
        if source is None or mapping(each).get("subPath") or folder == PROBE_FOLDER:
            continue
        contents = {
            key: value.encode()
            for key, value in mapping(source.value.get("data")).items()
            if isinstance(value, str)
        }
        contents |= _decoded(source)
        listed = {
            text(mapping(i).get("key")): text(mapping(i).get("path")) for i in items(volume.get("items"))
        }
        paths = listed or {key: key for key in contents}
        found[folder] = {
            path: contents[key] for key, path in paths.items() if key in contents and _inside(path)
        }
    return found


def _decoded(source: Manifest) -> dict[str, bytes]:
    try:
        return {key: b64decode(value) for key, value in mapping(source.value.get("binaryData")).items()}
    except (ValueError, TypeError):
        raise ManifestError(f"binaryData of ConfigMap {source.name} is not base64") from None


def _inside(path: str) -> bool:
    """Tell if a path stays in its folder."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and ".." not in parts and "" not in parts


def _here(word: str, folders: Mapping[str, Mapping[str, bytes]]) -> str:
    for folder, files in folders.items():
        rest = word.removeprefix(f"{folder}/")
        if rest != word and rest in files:
            return rest
    return word
