"""Runs the program of a fork to its end, as `python ARGUMENT...` does, and reports how it ended."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import fcntl
import gc
import os
import re
import signal
import socket
import sys
import threading
import weakref
from types import CodeType, ModuleType, TracebackType

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any, NoReturn

INTERNAL = "<importlib._bootstrap of a fork>"
"""File name of the code below a program."""

CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")
"""Declaration of a script's encoding (PEP 263)."""

LONGS = range(-(2**63), 2**63)
"""Exit codes that fit C's `long`; Python takes -1 in place of others."""


class End:
    """Reports the fork's end to its launcher, from the fork itself: its server may be gone by then."""

    def __init__(self, connection: socket.socket, guarded: socket.socket) -> None:
        """The other end of `guarded` is open in the launcher and in the server."""
        self._connection, self._guarded = connection, guarded
        for own in (connection, guarded):
            os.register_at_fork(after_in_child=own.close)

    def with_both_gone(self) -> None:
        """Let the kernel kill this process group when launcher and server are both gone; see fcntl(2)."""
        guarded, own = self._guarded.fileno(), os.getpid()
        with contextlib.suppress(OSError):
            fcntl.fcntl(guarded, fcntl.F_SETOWN, -own if os.getpgrp() == own else own)
            fcntl.fcntl(guarded, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(guarded, fcntl.F_SETFL, fcntl.fcntl(guarded, fcntl.F_GETFL) | os.O_ASYNC)

    def now(self, code: int) -> NoReturn:
        self._guarded.close()  # what this process leaves running stays
        with contextlib.suppress(OSError):
            self._connection.sendall(b"end %d\n" % code)
        os._exit(code & 0xFF)


class LeaveError(BaseException):
    """Takes a fork out of the functions of its server."""


def run(arguments: Sequence[str], end: End) -> NoReturn:
    """`python ARGUMENT...`, to its end, without the functions of the server below it.

    An exception leaves them all, and Python calls `sys.excepthook` then: the program runs in there. The only
    function below it is taken for one of importlib's, which warnings do not count (`stacklevel`).
    """
    hook, before = sys.excepthook, frozenset(sys.modules) - {"__main__"}

    def call(*of_leaving: object) -> None:
        sys.excepthook = hook
        _forget_last()
        raised: BaseException | None = None
        try:
            exec(*_program(arguments))
        except BaseException as error:
            raised = error
        _flush_quietly()
        status = _exit_code(raised)
        raised = None
        end.now(_finalize(status, before))

    call.__code__ = call.__code__.replace(co_filename=INTERNAL)
    sys.excepthook = call
    raise LeaveError


def _program(arguments: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    """The compiled program and the variables of its `__main__`. Raises what Python would."""
    if arguments[0] == "-m":
        return _module(arguments[1], arguments[2:])
    if arguments[0] == "-c":
        return _code(arguments[1], arguments[2:])
    return _script(arguments[0], arguments[1:])


def _script(path: str, arguments: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    from importlib.machinery import SourceFileLoader

    from forkserver import modules

    modules.forget(modules.COMMANDS)  # it has been imported without `ray serve`
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    path = os.path.abspath(path)
    scope = _main_scope(SourceFileLoader("__main__", path), __file__=path, __cached__=None)
    with open(path, "rb") as file:
        source = file.read()
    _check_encoding(source, path)
    return compile(source, path, "exec", dont_inherit=True), scope


def _check_encoding(source: bytes, path: str) -> None:
    """Raise SyntaxError for bytes that are not UTF-8, as Python does: in comments `compile` takes them."""
    try:
        source.decode()
    except UnicodeDecodeError as error:
        if any(CODING.match(line) for line in source.split(b"\n", 2)[:2]):
            return
        line = source.count(b"\n", 0, error.start) + 1
        raise SyntaxError(
            f"Non-UTF-8 code starting with '\\x{source[error.start]:02x}' in file {path} on line {line}, "
            "but no encoding declared; see https://peps.python.org/pep-0263/ for details"
        ) from None


def _main_scope(loader: object, **more: object) -> dict[str, Any]:
    """The variables of a new module `__main__`, in the order in which Python makes them."""
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    scope = module.__dict__
    scope.update(__loader__=loader, __annotations__={}, __builtins__=builtins, **more)
    return scope


def _module(name: str, arguments: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    import runpy
    from importlib.machinery import BuiltinImporter

    sys.argv[:] = ["-m", *arguments]
    sys.path.insert(0, os.getcwd())
    _main_scope(BuiltinImporter)
    scope = {"run": runpy._run_module_as_main, "name": name}  # type: ignore[attr-defined]
    return compile("run(name)", INTERNAL, "exec"), scope


def _code(code: str, arguments: Sequence[str]) -> tuple[CodeType, dict[str, Any]]:
    from importlib.machinery import BuiltinImporter

    sys.argv[:] = ["-c", *arguments]
    sys.path.insert(0, "")
    return compile(code, "<string>", "exec", dont_inherit=True), _main_scope(BuiltinImporter)


def _exit_code(raised: BaseException | None) -> int:
    """The exit code of a program that this has ended, which is printed if Python prints it."""
    if raised is None:
        return 0
    if not isinstance(raised, SystemExit):
        return _uncaught(raised)
    if raised.code is None or isinstance(raised.code, int):
        code = raised.code or 0
        return code & 0xFF if code in LONGS else 0xFF
    if sys.stderr is not None:
        print(raised.code, file=sys.stderr)
    return 1


def _uncaught(error: BaseException) -> int:
    """Print the traceback as Python does, without the frames of this module; the exit code."""
    shown = _own_frames_left_out(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, shown
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, shown)
    except SystemExit as exiting:
        return _exit_code(exiting)
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, _own_frames_left_out(second))
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, shown)
    return -int(signal.SIGINT) if type(error) is KeyboardInterrupt else 1


def _own_frames_left_out(error: BaseException) -> TracebackType | None:
    """Cut the frames of this module off the traceback of an exception; returns what is left."""
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename in (__file__, INTERNAL):
        shown = shown.tb_next
    error.__traceback__ = shown
    return shown


def _finalize(code: int, before: Collection[str]) -> int:
    """Do what Python does at its end: wait for threads, run the exit handlers, flush, let modules go.

    `before` are the names of the modules that were there before the program: those stay.
    """
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    whole = _flush()
    _let_go([name for name in sys.modules if name not in before])
    if not (_flush() and whole):
        code = 120
    _flush_c()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _flush_quietly() -> None:
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(Exception):
            stream.flush()


def _flush() -> bool:
    """Flush stdout and stderr; false when that failed."""
    whole = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as error:
            whole = False
            if stream is sys.stdout:
                with contextlib.suppress(Exception):
                    print(f"Exception ignored in: {stream!r}", file=sys.stderr)
                    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return whole


def _flush_c() -> None:
    """Write out what libraries have printed in C: `os._exit` would lose it."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def _let_go(names: Sequence[str], threads: Callable[[], int] = threading.active_count) -> None:
    """Let go of these modules, `__main__` among them, so that what they hold is finalized (`__del__`).

    Modules that are still used afterwards are emptied, as Python does it: names with one underscore first. It
    stops other threads before; here they would go on, so with others about nothing is emptied.
    """
    _forget_last()
    left: list[weakref.ref[ModuleType]] = []
    for name in names:
        module = sys.modules.pop(name)
        if isinstance(module, ModuleType):
            left.append(weakref.ref(module))
    del module
    gc.collect()
    if threads() > 1:
        return
    for reference in reversed(left):
        held = reference()
        if held is not None:
            _empty(vars(held))


def _forget_last() -> None:
    """Drop what Python keeps of the last exception that it printed."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)


def _empty(scope: dict[str, Any]) -> None:
    private = [name for name in scope if name[:1] == "_" and name[:2] != "__"]
    for name in private:
        scope[name] = None
    for name in [name for name in scope if name != "__builtins__"]:
        scope[name] = None
