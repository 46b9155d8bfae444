"""Imports go in one direction: from what a person calls down to plain data. Lazy imports count too."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sources import source_of

LAYERS = (
    ("version", "errors", "services", "extension"),
    ("topology",),
    ("api",),
    ("host",),
    ("people",),
    ("store",),
    ("evidence",),
    ("cluster",),
    ("runtime",),
    ("faults",),
    ("lab",),
    ("flows",),
    ("recovery", "lessons", "daemons"),
    ("cli",),
    ("core", "ext"),
)
"""The rooms of lab/, the lowest first: each imports of itself and of what is below, not of its neighbours."""

FLOWS = (
    ("labels", "drawing"),
    ("recovery", "doctor", "images", "traces"),
    ("demo",),
    ("queues",),
    ("people",),
)
"""The same among the flows."""

PROBE = (
    ("raylab_extended",),
    ("raylab_expectations",),
    ("raylab_switches",),
    ("raylab_compat", "raylab_node"),
    ("raylab_faults",),
    ("raylab_steps",),
    ("raylab_ledger",),
    ("raylab_patches",),
    ("sitecustomize",),
    ("raylab_forks",),
    ("raylab_liveness",),
    ("raylab_recovery",),
    ("raylab_health",),
)
"""The same among the import roots of nodes, which import nothing of lab."""

LIBRARIES = {"forkserver": ROOT / "forkserver", "kueue": ROOT}
"""Those beside lab/, each with its import root: they import nothing of the project."""

RUNTIMES = ("classroom", "compose", "inside", "local")
"""Each behind `lab.runtime.base`: only `lab.runtime.select` may know them, and none another."""

EXEMPT = {
    ("lab.flows.images", "lab.runtime.compose"): "images are of Docker alone, and `up` gets them too",
    (
        "lab.ext.kubernetes.compose_folder",
        "lab.runtime.compose",
    ): "a folder for plain Compose has that runtime's files",
    (
        "lab.daemons.hub",
        "lab.runtime.local.processes",
    ): "a person's server is a process of that runtime, and ends as its services do",
    ("lab.flows.traces", "lab.runtime.compose.engine"): "images and volumes of an engine are traces too",
    ("lab.flows.traces", "lab.runtime.local.temporary"): "so are the folders of processes below /tmp",
    (
        "lab.flows.doctor.facts",
        "lab.runtime.compose.engine",
    ): "an engine that answers is a fact of the machine",
}
"""(importer, imported), each with all that lies in it -> the reason."""


@cache
def arrows() -> tuple[tuple[str, str, str], ...]:
    """Every import between modules of the project: (importer, imported, place)."""
    files = {}
    probes = (ROOT / "lab" / "probe", *sorted((ROOT / "lab" / "ext").glob("*/probe")))
    trees = [(ROOT, ROOT / "lab"), *((probe, probe) for probe in probes)]
    trees += [(root, root / name) for name, root in LIBRARIES.items()]
    for root, tree in trees:
        for path in sorted(tree.rglob("*.py")):
            if root in probes or not set(probes).intersection(path.parents):
                parts = path.relative_to(root).with_suffix("").parts
                files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    arrows = []
    for importer, path in files.items():
        for line, name in source_of(path).imports:
            imported = name
            while imported and imported not in files:
                imported = imported.rpartition(".")[0]
            if imported and imported != importer:
                arrows.append((importer, imported, f"{path.relative_to(ROOT)}:{line}"))
    return tuple(arrows)


def level(room: str, layers: tuple[tuple[str, ...], ...]) -> int:
    """How high a room is; one that has no layer yet is above all others."""
    return next((i for i, rooms in enumerate(layers) if room in rooms), len(layers))


def within(module: str, package: str) -> bool:
    return module == package or (package != "lab" and module.startswith(f"{package}."))


def exempt(importer: str, imported: str) -> bool:
    return any(within(importer, a) and within(imported, b) for a, b in EXEMPT)


def upward(importer: str, imported: str) -> bool:
    """Whether this import goes up, or across."""
    (root, *one), (other_root, *other) = importer.split("."), imported.split(".")
    if root != "lab" or other_root != "lab":
        if root == other_root:
            return False
        if LIBRARIES.keys() & {root, other_root}:
            return root in LIBRARIES
        return "lab" in (root, other_root) or level(other_root, PROBE) >= level(root, PROBE)
    if not other:  # the package itself is what `Lab` is got from
        return level(one[0], LAYERS) <= level("lab", LAYERS)
    if not one:
        return other[0] != "version"
    if one[0] == other[0] == "ext":
        return len(one) > 1 and len(other) > 1 and one[1] != other[1]
    if one[0] != other[0]:
        return level(other[0], LAYERS) >= level(one[0], LAYERS)
    if one[0] == "flows" and len(one) > 1 and len(other) > 1 and one[1] != other[1]:
        return level(other[1], FLOWS) >= level(one[1], FLOWS)
    return False


def knows_a_runtime(importer: str, imported: str) -> bool:
    """Whether this import is one of a single runtime from outside of it."""
    runtime = next((r for r in RUNTIMES if within(imported, f"lab.runtime.{r}")), None)
    own = runtime is not None and within(importer, f"lab.runtime.{runtime}")
    return runtime is not None and not own and importer != "lab.runtime.select"


def test_every_room_has_its_layer() -> None:
    names = {path.name.partition(".")[0] for path in (ROOT / "lab").iterdir()} - {"__pycache__", "__init__"}
    assert names | {"ext"} == {room for rooms in LAYERS for room in rooms} | {"probe"}
    assert len(names) + 1 <= 23, "who opens lab/ for the first time can read its first level at a glance"


def test_imports_go_down() -> None:
    wrong = [
        f"{place}: {imported}"
        for importer, imported, place in arrows()
        if upward(importer, imported) and not exempt(importer, imported)
    ]
    assert wrong == []


def closure(package: str) -> set[str]:
    """All modules that this package imports, lazily too, and those that they import, with their packages.

    What is named by a string is not among them: extensions, and the facade `Lab` of the package itself.
    """
    needs: dict[str, set[str]] = {}
    for importer, imported, _ in arrows():
        parts = imported.split(".")
        needs.setdefault(importer, set()).update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    left = [module for module in needs if within(module, package)]
    reached = set(left)
    while left:
        new = needs.get(left.pop(), set()) - reached
        reached |= new
        left += new
    return reached


def lines_of(modules: set[str]) -> int:
    """Lines of these modules of lab/."""
    paths = [ROOT / module.replace(".", "/") for module in modules]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in paths]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.exists())


MOST_LINES = {"lab.evidence.receipt": 7_000}
"""Package -> lines that a reader needs to know for it, with all that it imports."""


@pytest.mark.parametrize("package", MOST_LINES)
def test_who_reads_a_package_need_not_read_everything(package: str) -> None:
    assert lines_of(closure(package)) <= MOST_LINES[package]


def test_the_core_imports_no_extension() -> None:
    core = {importer for importer, _, _ in arrows() if importer.startswith("lab.")}
    assert {m for m in core if not within(m, "lab.ext")} & {
        importer for importer, imported, _ in arrows() if within(imported, "lab.ext")
    } == set()


def public_modules(package: str) -> set[str]:
    """The modules that the table of a library's own docstring calls public."""
    doc = ast.get_docstring(ast.parse((LIBRARIES[package] / package / "__init__.py").read_text())) or ""
    return {f"{package}.{name}" for name in re.findall(r"^\| ([\w.]+) \|.*: public \|$", doc, re.MULTILINE)}


def test_a_library_is_used_by_what_it_says_is_public() -> None:
    wrong = [
        f"{place}: {imported}"
        for importer, imported, place in arrows()
        for package in LIBRARIES
        if within(imported, package) and not within(importer, package)
        if imported not in public_modules(package)
    ]
    assert wrong == []


def test_only_select_knows_a_single_runtime() -> None:
    wrong = [
        f"{place}: {imported}"
        for importer, imported, place in arrows()
        if knows_a_runtime(importer, imported) and not exempt(importer, imported)
    ]
    assert wrong == []


@pytest.mark.parametrize("pair", EXEMPT, ids="->".join)
def test_every_exemption_is_needed(pair: tuple[str, str]) -> None:
    needed = [
        place
        for importer, imported, place in arrows()
        if within(importer, pair[0]) and within(imported, pair[1])
        if upward(importer, imported) or knows_a_runtime(importer, imported)
    ]
    assert needed


def test_no_two_modules_need_each_other_to_be_imported() -> None:
    needs: dict[str, set[str]] = {}
    for importer, imported, _ in arrows():
        needs.setdefault(importer.split(".")[1] if "." in importer else importer, set()).add(
            imported.split(".")[1] if "." in imported else imported
        )
    rooms = {room for rooms in LAYERS for room in rooms}
    both = {
        tuple(sorted((a, b))) for a in rooms for b in needs.get(a, ()) if a != b and a in needs.get(b, ())
    }
    assert both == set()


@pytest.mark.parametrize(
    ("importer", "imported", "wrong"),
    [
        ("lab.host.files", "lab.errors", False),
        ("lab.host.files", "lab.store.s3", True),
        ("lab.store.s3", "lab.ext.course.datasets.getting", True),
        ("lab.ext.chaos.run", "lab.flows.recovery.watch", False),
        ("lab.flows.recovery.watch", "lab.ext.chaos.run", True),
        ("lab.cli.listing", "lab.ext.chaos", True),
        ("lab.ext.chaos.run", "lab.ext.queues.store", True),
        ("lab.ext.chaos.run", "lab.ext.chaos.plan", False),
        ("lab.ext.chaos.run", "kueue.engine", False),
        ("lab.runtime.base", "lab", True),
        ("lab.ext.course.lessons.session", "lab", False),
        ("forkserver.server", "raylab_switches", True),
        ("forkserver.server", "lab.errors", True),
        ("raylab_forks", "forkserver.server", False),
        ("raylab_ledger.train", "raylab_forks", True),
        ("raylab_recovery.elastic", "raylab_ledger.train", False),
        ("raylab_switches", "raylab_recovery.table", True),
        ("raylab_ledger.train", "lab.topology", True),
        ("lab.cluster.api", "raylab_ledger.train", True),
    ],
)
def test_what_goes_up_is_seen(importer: str, imported: str, wrong: bool) -> None:
    assert upward(importer, imported) is wrong


def test_what_knows_a_single_runtime_is_seen() -> None:
    assert knows_a_runtime("lab.faults.base", "lab.runtime.compose.engine")
    assert knows_a_runtime("lab.runtime.local.boot", "lab.runtime.compose.engine")
    assert not knows_a_runtime("lab.runtime.select", "lab.runtime.compose.engine")
    assert not knows_a_runtime("lab.faults.base", "lab.runtime.base")


def product() -> list[Path]:
    """Every file of lab/ and of the libraries beside it."""
    return [path for tree in ("lab", *LIBRARIES) for path in sorted((ROOT / tree).rglob("*.py"))]


def test_yaml_is_read_only_where_its_depth_and_its_aliases_are_limited() -> None:
    reads = re.compile(r"\byaml\.\w*(load|compose|parse|construct)\w*\(")
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in product()
        if reads.search(path.read_text(encoding="utf-8"))
    }
    assert readers == {"kueue/reading/nodes.py"}


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): count
        for path in product()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}
