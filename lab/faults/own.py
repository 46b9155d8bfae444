"""Loads faults of one's own: files in `faults` of the labs' folder, modules that RAYLAB_FAULTS names, and
faults of extensions of other packages.

They are code that runs as the user of labctl, in its process and nowhere else. So a file must belong to that
user, and nobody else may be able to write to it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import stat
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from lab.errors import LabError, NotFoundError, RefusedError, ServiceError, UsageError
from lab.extension import load, others
from lab.faults.base import Fault, FaultKind, Scene
from lab.host.files import home
from lab.host.reading import SMALL, open_file

R = TypeVar("R")

FOLDER = "faults"
"""Folder beside the labs' own; no lab can have this name."""

FILES = "[a-zA-Z]*.py"
"""Files that are loaded; those that begin with an underscore or a dot are not."""

MODULES_VARIABLE = "RAYLAB_FAULTS"
"""Names modules, with commas between them."""

HOW = "see `A fault of your own` in docs/recovery.md"


@dataclass(frozen=True)
class Own:
    """The faults of one's own, and the reasons why some could not be loaded."""

    faults: dict[str, type[Fault]] = field(default_factory=dict)
    problems: dict[str, LabError] = field(default_factory=dict)
    """File or module -> what is wrong with it."""

    def problem_of(self, fault: str) -> LabError | None:
        """Return what is wrong with the file or module that, by its name, should define this fault."""
        stem = fault.replace("-", "_")
        return next((e for s, e in self.problems.items() if Path(s).stem.rpartition(".")[2] == stem), None)


def load_own(taken: Collection[str]) -> Own:
    """Load all of them; a broken one does not keep the others from it. `taken` are names of other faults."""
    own = Own()
    for source, modules in _sources(own):
        try:
            for fault in _checked(modules(), source):
                name = fault.kind.name
                if name in taken or name in own.faults:
                    raise UsageError(f"{source}: there is a fault {name!r} already", "choose another name")
                if "source" not in vars(fault):  # it was loaded before
                    _blame(fault, source)
                own.faults[name] = fault
        except LabError as error:
            own.problems[source] = error
        except (Exception, SystemExit) as error:  # whatever that code raises is its own
            own.problems[source] = UsageError(_sentence(source, "does not load", error), HOW)
    return own


def defined_in(module: ModuleType) -> list[type[Fault]]:
    """Return the fault classes that this module defines, bases without a `kind` included."""
    classes = (c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Fault))
    return list(dict.fromkeys(c for c in classes if c.__module__ == module.__name__))


def modules_of(name: str) -> list[ModuleType]:
    """Return the module of this name, and those of a package that do not begin with an underscore."""
    module = load(name)
    below = [info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    return [module, *(load(f"{name}.{part}") for part in below if not part.startswith("_"))]


def _sources(own: Own) -> Iterator[tuple[str, Callable[[], list[ModuleType]]]]:
    """Yield the name of each file and module, with what loads it."""
    try:
        folder = home() / FOLDER
    except LabError as error:
        own.problems[FOLDER] = error
    else:
        for path in sorted(folder.glob(FILES)):
            yield str(path), partial(_file, path)
    for extension in others():
        for name in extension.faults:
            yield name, partial(modules_of, name)
    for name in filter(None, map(str.strip, os.environ.get(MODULES_VARIABLE, "").split(","))):
        yield name, partial(_module, name)


def _file(path: Path) -> list[ModuleType]:
    try:
        _refuse_untrusted(path.parent, path.parent.stat())
        with open_file(path, SMALL) as stream:
            _refuse_untrusted(path, os.fstat(stream.fileno()))
            return [_execute(path, stream.read())]
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}", HOW) from error


@cache
def _execute(path: Path, code: bytes) -> ModuleType:
    """Run a file as a module, once as long as it stays the same. Its output goes to stderr."""
    module = ModuleType(f"raylab_own_fault_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    with contextlib.redirect_stdout(sys.stderr):
        exec(compile(code, path, "exec"), module.__dict__)
    return module


def _module(name: str) -> list[ModuleType]:
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        raise NotFoundError(
            f"{MODULES_VARIABLE}: there is no module {name!r}", "add its folder to PYTHONPATH"
        )
    _refuse_untrusted(Path(spec.origin), Path(spec.origin).stat(), 0)
    return [load(name)]


def _refuse_untrusted(path: Path, info: os.stat_result, *others: int) -> None:
    """Refuse a file that somebody else than the user and `others` may have written. Raises RefusedError."""
    if info.st_uid not in (os.geteuid(), *others):
        raise RefusedError(f"{path} is not loaded: it belongs to somebody else", "copy it, or: chown it")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RefusedError(f"{path} is not loaded: others may write to it", f"chmod go-w {path}")


def _checked(modules: Iterable[ModuleType], source: str) -> list[type[Fault]]:
    """Return the faults of a module. Raises UsageError when there is none, or one that cannot be used."""
    classes = [fault for module in modules for fault in defined_in(module)]
    faults = [c for c in classes if hasattr(c, "kind")]
    if not faults:
        what = f"{classes[0].__name__} has no `kind`" if classes else "it defines no subclass of Fault"
        raise UsageError(f"{source} holds no fault: {what}", HOW)
    for fault in faults:
        if not isinstance(fault.kind, FaultKind):
            raise UsageError(f"{source}: {fault.__name__}.kind is not a FaultKind", HOW)
        if inspect.isabstract(fault):
            lacks = ", ".join(sorted(fault.__abstractmethods__))
            raise UsageError(f"{source}: {fault.__name__} lacks the method {lacks}", HOW)
        fault()
    return faults


def _blame(fault: type[Fault], source: str) -> None:
    """Let errors that this fault raises name its source: they are no bugs of labctl."""
    fault.source = source
    for name in ("refuse", "inject", "took", "revert"):
        setattr(fault, name, _blamed(getattr(fault, name), source, f"failed in `{name}`"))


def _blamed(method: Callable[[Fault, Scene], R], source: str, what: str) -> Callable[[Fault, Scene], R]:
    @wraps(method)
    def call(self: Fault, scene: Scene) -> R:
        try:
            return method(self, scene)
        except LabError:
            raise
        except Exception as error:
            raise ServiceError(_sentence(source, what, error), HOW) from error

    return call


def _sentence(source: str, what: str, error: BaseException) -> str:
    """Return a sentence with what the code of this file or module has raised, and where."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    said = next(iter(str(error.msg if isinstance(error, SyntaxError) else error).splitlines()), "")
    where = f" (line {line})" if line else ""
    return f"{source} {what}: {type(error).__name__}: {said}{where}"
