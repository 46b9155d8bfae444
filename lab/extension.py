"""The one seam: what a part of the lab, or of somebody else's package, adds to it.

The core's own commands and faults are registered here as everybody's are. Everything is named by a string
and imported once it is used: `labctl --help` imports no command. A package of one's own names its `Extension`
as an entry point of the group `raylab.extensions`:

    [project.entry-points."raylab.extensions"]
    gpu-memory = "gpu_memory:EXTENSION"
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

GROUP = "raylab.extensions"
"""Group of the entry points by which extensions of others are discovered."""


@dataclass(frozen=True)
class Command:
    """A command of labctl as its help lists it."""

    section: str
    """Title of its part of the help; empty for one below a group of another extension."""
    name: str
    """Such as `report`, or `jobs receipt` below the group `jobs`."""
    module: str
    """Module that has the click command in its tuple COMMANDS."""
    help: str


@dataclass(frozen=True)
class Runtime:
    """A kind of cluster that labctl does not run, but breaks and heals."""

    name: str
    """As `--runtime` takes it."""
    module: str
    """Module with OPTIONS, which gives a click command what names a cluster, and `open_lab`, which gets the
    `App` and the values of these options."""


@dataclass(frozen=True)
class Extension:
    """Everything that an extension adds. Each field may be empty."""

    name: str
    commands: tuple[Command, ...] = ()
    faults: tuple[str, ...] = ()
    """Modules that define subclasses of `lab.faults.Fault`, or packages of such modules."""
    checks: tuple[str, ...] = ()
    """Checks of `doctor`, as `module:function`: each takes the lab, or None where it is not up, and returns a
    `lab.topology.Check`."""
    before_down: tuple[str, ...] = ()
    """Functions, as `module:function`, that `down` calls with the lab unless its objects go too: each
    returns what it could not do, in words, or an empty text."""
    queue_parts: tuple[str, ...] = ()
    """Parts of the queues' controller, as `module:name` of a `lab.daemons.parts.Maker`."""
    traces: tuple[str, ...] = ()
    """Functions that yield what `self check` lists below the folder of labs: words, a folder, and whether its
    owner alone could make it again."""
    runtimes: tuple[Runtime, ...] = ()
    documents: tuple[str, ...] = ()
    """Modules with the shapes of what its commands print with --json."""
    probes: tuple[Path, ...] = ()
    """Folders that are import roots of the nodes' processes (`raylab_switches.EXTENSIONS`)."""


RUN, BREAK, LOOK = "Run", "Break, and prove recovery", "Look"
SHARE, GROW, MACHINE = "Share", "Grow beyond this machine", "labctl and this machine"

SECTIONS = (RUN, BREAK, LOOK, SHARE, GROW, MACHINE)
"""Parts of the help, by what a reader wants."""

OURS = (
    "lab.core",
    *(f"lab.ext.{name}" for name in ("chaos", "report", "course", "fast_recovery", "health", "kubernetes")),
)
"""Modules with the project's own: those below `ext` can be deleted, the core works without them."""


def load(module: str) -> ModuleType:
    """Import a module; what it prints goes to stderr, for stdout may have to be a document."""
    with contextlib.redirect_stdout(sys.stderr):
        return import_module(module)


def object_of(path: str) -> object:
    """Import `module:name`. Raises ImportError, AttributeError, and whatever the module raises."""
    module, _, name = path.partition(":")
    attribute: object = getattr(load(module), name)
    return attribute


def call(path: str, *arguments: object) -> object:
    """Import `module:function` and call it; what it prints goes to stderr. Raises whatever it raises."""
    function = object_of(path)
    if not callable(function):
        raise TypeError(f"{path} is no function")
    with contextlib.redirect_stdout(sys.stderr):
        answer: object = function(*arguments)
    return answer


def is_there(module: str) -> bool:
    """Tell whether a module can be imported, without importing it."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # not even the package that it is in
        return False
    return spec is not None and spec.origin is not None  # a folder may be left that holds no code


@functools.cache
def ours() -> tuple[Extension, ...]:
    """The core, and the project's own extensions that are there."""
    named = (object_of(f"{name}:EXTENSION") for name in OURS if is_there(name))
    return tuple(extension for extension in named if isinstance(extension, Extension))


def others() -> tuple[Extension, ...]:
    """Those of other packages, by the names of their entry points."""
    return tuple(extension for extension in _loaded().values() if isinstance(extension, Extension))


def extensions() -> tuple[Extension, ...]:
    """Every extension: the core first, those of other packages last."""
    return (*ours(), *others())


def probes() -> tuple[Path, ...]:
    """The import roots of the nodes' processes, the core's first."""
    return tuple(root for extension in extensions() for root in extension.probes)


def runtimes() -> Mapping[str, Runtime]:
    """Those of all extensions, by their names."""
    return {runtime.name: runtime for extension in extensions() for runtime in extension.runtimes}


def failures() -> Mapping[str, BaseException]:
    """Entry point that gave no extension -> the reason: it does not keep the others from being used."""
    return {name: entry for name, entry in _loaded().items() if isinstance(entry, BaseException)}


@functools.cache
def _loaded() -> Mapping[str, Extension | BaseException]:
    loaded: dict[str, Extension | BaseException] = {}
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        name = f"{entry.name} = {entry.value}"  # two packages may have one name for theirs
        try:
            extension = object_of(entry.value)
        except (Exception, SystemExit) as error:  # whatever the code of somebody else raises
            loaded[name] = error
        else:
            loaded[name] = extension if isinstance(extension, Extension) else TypeError("it is no Extension")
    return loaded
