"""Objects of Kubernetes as they stand in files: plain values that know their file, line and path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kueue.reading import DEFAULT_NAMESPACE
from kueue.reading.nodes import At, Problem, Problems, documents
from kueue.reading.plain import plain
from lab.errors import NotFoundError
from lab.ext.kubernetes.documents import ERROR, Finding
from lab.host.reading import named_text

ENDINGS = (".yaml", ".yml", ".json")
RAY, KUEUE = "ray.io", "kueue.x-k8s.io"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
APP_WRAPPER, APP_WRAPPERS = "AppWrapper", "workload.codeflare.dev"
"""A kind of object, and the group of its API."""

Path_ = tuple[str | int, ...]
"""Where a value stands in its object."""


def taken_over(rule: str, level: str, problem: Problem) -> Finding:
    """What the reader of Kueue's objects found."""
    return Finding(rule, level, problem.file, problem.line, problem.path, problem.message, problem.hint)


@dataclass(frozen=True)
class Manifest:
    """One object. An object inside another, as in an AppWrapper, has the other's document and a path."""

    root: At
    """The document that it stands in."""
    value: Mapping[str, object]
    path: Path_ = ()
    """Where it stands in the document."""
    wrapped: bool = False
    """True for a part of an AppWrapper."""
    given_namespace: str = DEFAULT_NAMESPACE
    """For an object that names none."""

    @property
    def kind(self) -> str:
        return text(self.value.get("kind"))

    @property
    def group(self) -> str:
        """The group of its API; empty for core objects."""
        return text(self.value.get("apiVersion")).rpartition("/")[0]

    @property
    def metadata(self) -> Mapping[str, object]:
        return mapping(self.value.get("metadata"))

    @property
    def labels(self) -> Mapping[str, object]:
        return mapping(self.metadata.get("labels"))

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace")) or self.given_namespace

    def finding(
        self, rule: str, level: str, path: Sequence[str | int], message: str, hint: str = ""
    ) -> Finding:
        """Something found at this path of the object."""
        whole = (*self.path, *path)
        return Finding(rule, level, self.root.file, line_of(self.root, whole), shown(whole), message, hint)


def text(value: object) -> str:
    """The value if it is a text, else nothing."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def shown(path: Sequence[str | int]) -> str:
    """A path as a person writes it: `spec.containers[0].image`."""
    words = ""
    for part in path:
        words += f"[{part}]" if isinstance(part, int) else f".{part}" if words else part
    return words


def line_of(root: At, path: Sequence[str | int]) -> int:
    """The line of a value; of one that is not there, that of the last container on the way."""
    node = root.node
    line = root.line
    for part in path:
        inner = None
        if node.id == "mapping":
            inner = next((value for key, value in node.value if key.value == part), None)
        elif node.id == "sequence" and isinstance(part, int) and part < len(node.value):
            inner = node.value[part]
        if inner is None:
            return line
        node, line = inner, inner.start_mark.line + 1
    return int(line)


# Files


def texts_of(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Name and text of these files, and of every YAML file in these folders.

    Raises NotFoundError, UsageError.
    """
    texts = []
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
            if not files:
                raise NotFoundError(f"{path}: holds no file that ends with {', '.join(ENDINGS)}")
        texts += [named_text(file, "manifest", "name a YAML file with manifests") for file in files]
    return texts


def read_manifests(
    texts: Iterable[tuple[str, str]], namespace: str = DEFAULT_NAMESPACE
) -> tuple[list[Manifest], list[Finding]]:
    """Every object of these texts, those inside of lists and AppWrappers too, and what cannot be read."""
    problems = Problems()
    objects: list[Manifest] = []
    for file, content in texts:
        for root in documents(content, file, problems):
            objects += _objects(Manifest(root, mapping(plain(root)), given_namespace=namespace))
    wrong = [taken_over("yaml", ERROR, error) for error in problems.errors]
    kept = []
    for manifest in objects:
        missing = [name for name in ("apiVersion", "kind") if not text(manifest.value.get(name))]
        if missing:
            message = f"{' and '.join(missing)} missing: not an object of Kubernetes"
            wrong.append(manifest.finding("yaml", ERROR, (), message))
        elif manifest.kind != "Kustomization":  # which no cluster sees
            kept.append(manifest)
    return kept, wrong


def _objects(manifest: Manifest) -> Iterator[Manifest]:
    """The object and those inside it."""
    if manifest.kind == "List":
        for place, item in enumerate(items(manifest.value.get("items"))):
            path = (*manifest.path, "items", place)
            yield from _objects(replace(manifest, value=mapping(item), path=path))
        return
    yield manifest
    if manifest.kind == APP_WRAPPER:
        for place, part in enumerate(components(manifest.value)):
            path = (*manifest.path, "spec", "components", place, "template")
            yield from _objects(Manifest(manifest.root, part, path, True, manifest.namespace))


def components(wrapper: Mapping[str, object]) -> list[Mapping[str, object]]:
    """What is inside of an AppWrapper."""
    parts = items(mapping(wrapper.get("spec")).get("components"))
    return [mapping(mapping(part).get("template")) for part in parts]
