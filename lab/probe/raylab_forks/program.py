"""Runs the program of a fork to its end, as `python ARGUMENT...` does, and reports how it ended."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from types import ModuleType, TracebackType

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


class End:
    """Reports the fork's end to its launcher, from the fork itself: its server may be gone by then."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        os.register_at_fork(after_in_child=connection.close)

    def now(self, code: int) -> NoReturn:
        with contextlib.suppress(OSError):
            self._connection.sendall(b"end %d\n" % code)
        os._exit(code & 0xFF)


def run(arguments: Sequence[str], end: End) -> NoReturn:
    """`python ARGUMENT...`, to its end."""
    code = 0
    try:
        if arguments[0] == "-m":
            _module(arguments[1], arguments[2:])
        elif arguments[0] == "-c":
            _code(arguments[1], arguments[2:])
        else:
            _script(arguments[0], arguments[1:])
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:
        code = _uncaught(error)
    code = _finalize(code)
    end.now(code)


def _script(path: str, arguments: Sequence[str]) -> None:
    from importlib.machinery import SourceFileLoader

    from raylab_forks import modules

    modules.forget(modules.COMMANDS)  # it has been imported without `ray serve`
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    path = os.path.abspath(path)
    loader = SourceFileLoader("__main__", path)
    module = _main_module(path, loader)
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def _main_module(path: str, loader: Any) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(
        __builtins__=__builtins__, __file__=path, __loader__=loader, __cached__=None, __annotations__={}
    )
    module.__spec__ = None
    sys.modules["__main__"] = module
    return module


def _module(name: str, arguments: Sequence[str]) -> None:
    import runpy

    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _code(code: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = ["-c", *arguments]
    sys.path.insert(0, "")
    module = _main_module("", None)
    del module.__dict__["__file__"], module.__dict__["__cached__"]
    exec(compile(code, "<string>", "exec", dont_inherit=True), module.__dict__)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _uncaught(error: BaseException) -> int:
    """Print the traceback as Python does, without the frames of this module; the exit code."""
    shown: TracebackType | None = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
        shown = shown.tb_next
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    sys.excepthook(type(error), error.with_traceback(shown), shown)
    return -int(signal.SIGINT) if isinstance(error, KeyboardInterrupt) else 1


def _finalize(code: int) -> int:
    """Do what Python does at its end: wait for threads, run the exit handlers, flush."""
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            if stream is sys.stdout and code == 0:
                code = 120
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code
