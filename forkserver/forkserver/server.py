"""The fork server of a node, or of all nodes of a lab of plain processes.

    python -m forkserver.server FOLDER [FORK...]

imports NODE, forks the server of level `train`, and listens on FOLDER/node.sock. The other one imports TRAIN
and what ranks were seen to import, in a thread of the lowest priority, and listens on FOLDER/train.sock once
it is done and has one thread again (`preload`). Neither touches a device, and neither forks when it finds
that something in it cannot be forked. What they say to those who want a fork is `listener`'s.

Once packages were added to the environment, or removed, the server begins anew: the same process runs this
program again, and looks after the forks that it has (`FORK`). That of level `train` ends with its last fork.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import time

from forkserver import launcher, log, preload, program
from forkserver.application import DEFAULT, Application
from forkserver.installed import Installed
from forkserver.listener import RETIRE, Listener
from forkserver.reads import Reads

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from forkserver.marks import Marks

NODE, TRAIN = "node", "train"
"""The two levels."""

SPOILT = 75
"""Exit code of a `train` server that cannot be forked for a learnt module: it is restarted without that."""

MOST_AVOIDED = 20
"""Limit of such starts."""

MOST_DEATHS = 3
"""Limit of new starts of a `train` server that was killed."""

NO_FORK_SECONDS, LAST_FORK_SECONDS = 60, 5
"""Time without a first fork, and after the last one, after which a server ends that does not last: its node
has not started, or has ended."""

PR_SET_PDEATHSIG = 1
"""Of linux/prctl.h."""

BESIDE_SECONDS = 10.0
"""Timeout for a node's own server to listen, which takes half a second on an idle machine: what the node
starts before would start in the ordinary way."""


def main(argv: Sequence[str], application: Application = DEFAULT) -> None:
    """Serve for ever, unless nothing can be forked."""
    folder, *forks = argv
    make_folder(folder)
    read, installed = Reads(), _installed()
    places, environment = preload.prepare(read)
    if places is None:
        raise SystemExit(1)
    serve(folder, places, environment, read, installed, application, forks)


def start_beside(folder: str, application: Application = DEFAULT) -> None:
    """Import what a node's processes import, and leave a fork of this process to serve.

    This process has Ray imported then, as if it had been started without. Whatever goes wrong is printed, and
    the node starts its processes in the ordinary way.
    """
    try:
        make_folder(folder)
        read, installed = Reads(), _installed()
        places, environment = preload.prepare(read)
        if places is None:
            return
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            if not application.lasts:
                _leave_terminal(folder)
            serve(folder, places, environment, read, installed, application)
        places.write(environment)
        deadline = time.monotonic() + BESIDE_SECONDS
        while not os.path.exists(launcher.socket_of(folder, NODE)) and time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
    except OSError as error:
        log(f"nothing is forked: {error}")


def _leave_terminal(folder: str) -> None:
    """Write into a file of the folder: who has started the node may wait for all that it prints."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(os.path.join(folder, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for opened, number in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(opened, number)
    os.close(nothing)
    os.close(file)


def _end_with_parent() -> None:
    """Let the kernel end this process when the one that has forked it is gone."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _installed() -> Installed:
    return Installed(preload.base_path(sys.path, dict(os.environ)))


def make_folder(folder: str) -> None:
    """The folder of the sockets, for nobody else. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for level in (NODE, TRAIN):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(launcher.socket_of(folder, level))


def serve(
    folder: str,
    places: Marks,
    environment: dict[str, str],
    read: Reads,
    installed: Installed,
    application: Application,
    forks: Sequence[str] = (),
) -> NoReturn:
    """Be both servers, and in every fork what was asked for. Never returns."""
    path = preload.base_path(sys.path, environment)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two for each fork, which has its own limit
    settings = (folder, places, path, environment, read, installed, application)
    listener = Listener(NODE, *settings)
    listener.take_over(forks)
    train, ended, patience = 0, 0, NO_FORK_SECONDS

    def start_train() -> None:
        nonlocal train
        train = os.fork()
        if train == 0:
            listener.give_up()
            if not application.lasts:
                _end_with_parent()
            _serve_training(folder, Listener(TRAIN, *settings), read, application)

    def on_end(pid: int, code: int) -> None:
        nonlocal ended
        if pid == train and not listener.outdated:
            ended += 1
            log(f"{TRAIN}: ended with {code}")
            if ended <= (MOST_AVOIDED if code == SPOILT else MOST_DEATHS):
                start_train()

    def begin_anew() -> None:
        log(f"{NODE}: packages were added or removed, all is imported anew")
        with contextlib.suppress(ProcessLookupError):
            os.kill(train, RETIRE)
        argv = [sys.executable, *application.program, folder, *listener.handed_on()]
        os.execve(sys.executable, argv, environment)

    def over(*of_signal: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(train, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    def on_forks(count: int) -> None:
        nonlocal patience
        patience = LAST_FORK_SECONDS if count else patience
        if not application.lasts:
            signal.signal(signal.SIGALRM, over)
            signal.alarm(0 if count else patience)

    start_train()
    listener.listen()
    program.run(*listener.serve(on_end, begin_anew, on_forks))


def _serve_training(folder: str, listener: Listener, read: Reads, application: Application) -> NoReturn:
    """Be the server of level `train`, in a fork of the other one."""
    begin = time.monotonic()
    spoiler = preload.import_for_training(folder, read, application)
    if spoiler:
        log(f"{TRAIN}: {spoiler} starts a thread as it is imported; it is left out from now on")
        preload.avoid(folder, spoiler)
        os._exit(SPOILT)
    try:
        listener.listen()
    except RuntimeError as error:
        log(f"{TRAIN}: nothing is forked: {error}")
        os._exit(0)
    log(f"{TRAIN}: imported in {time.monotonic() - begin:.1f} s")

    def retire() -> None:
        if listener.retire():
            os._exit(0)

    program.run(*listener.serve(on_outdated=retire))


if __name__ == "__main__":
    main(sys.argv[1:])
