"""Objects of Kubernetes as they stand in files: plain values that know their file, line and path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kueue.reading import DEFAULT_NAMESPACE
from kueue.reading.nodes import At, Problems, documents
from kueue.reading.plain import plain
from lab.errors import NotFoundError
from lab.host.reading import named_text

ERROR, WARNING, NOTE = "error", "warning", "note"
LEVELS = (ERROR, WARNING, NOTE)
ENDINGS = (".yaml", ".yml", ".json")
SKIPPED = ("Kustomization",)
"""Kinds that no cluster sees."""
KUEUE = "kueue.x-k8s.io"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
APP_WRAPPER, APP_WRAPPERS = "AppWrapper", "workload.codeflare.dev"
"""A kind of object, and the group of its API."""

Path_ = tuple[str | int, ...]
"""Where a value stands in its object."""


@dataclass(frozen=True)
class Finding:
    """One thing found in a manifest. `level` is error (it cannot work), warning (it may surprise) or note."""

    rule: str
    level: str
    file: str
    line: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """File, line, path, message and rule, in one line."""
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.message} [{self.rule}]"


@dataclass(frozen=True)
class Manifest:
    """One object. An object inside another, as in an AppWrapper, has the other's document and a path."""

    root: At
    """The document that it stands in."""
    value: Mapping[str, object]
    path: Path_ = ()
    """Where it stands in the document."""
    inside: str = ""
    """Kind of the object that it is a part of; empty for one of its own."""
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
    def spec(self) -> Mapping[str, object]:
        return mapping(self.value.get("spec"))

    @property
    def name(self) -> str:
        """Its name; of a generated one the part that is known."""
        return text(self.metadata.get("name")) or text(self.metadata.get("generateName"))

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
    wrong: list[Finding] = []
    for file, content in texts:
        for root in documents(content, file, problems):
            value = plain(root)
            if not isinstance(value, dict):
                wrong.append(
                    Finding("yaml", ERROR, file, root.line, "", "is not an object: expected a mapping")
                )
                continue
            objects += _objects(Manifest(root, value, given_namespace=namespace))
    wrong += [
        Finding("yaml", ERROR, error.file, error.line, error.path, error.message, error.hint)
        for error in problems.errors
    ]
    kept = []
    for manifest in objects:
        missing = [name for name in ("apiVersion", "kind") if not text(manifest.value.get(name))]
        if missing:
            wrong.append(
                manifest.finding(
                    "yaml", ERROR, (), f"{' and '.join(missing)} missing: not an object of Kubernetes"
                )
            )
        elif manifest.kind not in SKIPPED:
            kept.append(manifest)
    return kept, wrong


def _objects(manifest: Manifest) -> Iterator[Manifest]:
    """The object and those inside it."""
    if manifest.kind == "List":
        for place, item in enumerate(items(manifest.value.get("items"))):
            path = (*manifest.path, "items", place)
            inner = Manifest(manifest.root, mapping(item), path, "", manifest.given_namespace)
            yield from _objects(inner)
        return
    yield manifest
    if manifest.kind == APP_WRAPPER:
        for place, component in enumerate(items(manifest.spec.get("components"))):
            path = (*manifest.path, "spec", "components", place, "template")
            part = mapping(mapping(component).get("template"))
            yield from _objects(Manifest(manifest.root, part, path, APP_WRAPPER, manifest.namespace))
