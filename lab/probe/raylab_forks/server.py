"""The fork server of a node, or of all nodes of a lab of plain processes.

    python -m raylab_forks.server FOLDER

imports NODE, forks the server of level `train`, and listens on FOLDER/node.sock. The other one imports TRAIN
and what ranks were seen to import, in a thread of the lowest priority, and listens on FOLDER/train.sock once
it is done and has one thread again. Neither touches a device, and neither forks when it finds that something
in it cannot be forked: `Server.spoilt` says what.

The server answers a request (`launcher.ask`) with `ready`, or `no` and the reason. With `go` come the
descriptors; it forks, says `pid N`, and `end CODE` when the fork has ended. A launcher that goes away takes
its fork with it, and what that has started.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback

from raylab_forks import child, identity, launcher, marks, modules, refusal, threads

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

NODE, TRAIN = "node", "train"
"""The two levels."""

MOST_BYTES = 8 * 1024 * 1024
"""Of a request; the environment and the arguments of a process are at most 2 MiB on Linux."""

AVOID = "avoid.json"
"""File in FOLDER: learnt modules after which the server could not be forked any more."""

SPOILT = 75
"""Exit code of a `train` server that one of the learnt modules has spoilt: it is started anew without it."""

MOST_AVOIDED = 20
"""How often that happens at most."""

MOST_DEATHS = 3
"""How often a `train` server that was killed is started anew."""

BESIDE_SECONDS = 10.0
"""How long a node waits for its own server to listen, which takes half a second on an idle machine: what it
starts before would start in the ordinary way."""

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
"""How the files of GPUs begin."""


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Conversation:
    """One launcher: what it has sent so far, and its fork."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.data = b""
        self.received: list[int] = []
        self.request: dict[str, Any] | None = None
        self.pid = 0

    def close(self) -> None:
        for each in self.received:
            with contextlib.suppress(OSError):
                os.close(each)
        self.received = []
        self.connection.close()

    def say(self, text: str) -> None:
        """Raises OSError when nobody listens."""
        self.connection.sendall(text.encode() + b"\n")


class Server:
    """Listens at one level, forks, reaps. In a fork `serve` returns what `child.run` needs."""

    def __init__(
        self,
        folder: str,
        level: str,
        places: marks.Marks | None,
        base_path: Sequence[str],
        environment: dict[str, str],
    ) -> None:
        self._folder, self._level, self._marks = folder, level, places
        self._base_path, self._environment = list(base_path), environment
        self._known = frozenset({*base_path, *environment.get("PYTHONPATH", "").split(os.pathsep)})
        self._pools = threads.Pools()
        self._loaded: frozenset[str] = frozenset()
        self._selector = selectors.DefaultSelector()
        self._talks: dict[int, Conversation] = {}
        self._forks: dict[int, Conversation] = {}
        self._listener: socket.socket | None = None
        self._wake: tuple[int, int] = (-1, -1)

    def spoilt(self) -> str:
        """Why this process must not be forked; empty when it may be."""
        if threads.count() != 1:
            return f"{threads.count()} threads"
        torch = sys.modules.get("torch")
        if torch is not None and getattr(torch, "cuda", None) is not None and torch.cuda.is_initialized():
            return "CUDA is initialised"
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{number}").startswith(DEVICES):
                    return "a GPU is open"
        return ""

    def listen(self) -> None:
        """Be ready. Raises RuntimeError when this process cannot be forked, OSError."""
        self._pools.look()
        why = self.spoilt() or ("forks would give things the same ids" if identity.shared() else "")
        if why:
            raise RuntimeError(why)
        self._loaded = frozenset(_top_level())
        gc.collect()
        gc.freeze()
        path = launcher.socket_of(self._folder, self._level)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        draft = f"{path}.{os.getpid()}"
        listener.bind(draft)
        os.chmod(draft, 0o600)
        listener.listen(128)
        listener.setblocking(False)
        os.rename(draft, path)
        self._listener = listener
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._wake = (read, write)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(read, selectors.EVENT_READ, self._woken)
        log(f"{self._level}: ready, {len(sys.modules)} modules")

    def serve(self, on_end: Callable[[int, int], None] = lambda pid, code: None) -> Any:
        """Serve for ever. `on_end` is told of children that are no forks of a launcher's."""
        self._on_end = on_end
        while True:
            for key, _ in self._selector.select():
                forked = key.data() if callable(key.data) else self._hear(key.data)
                if forked is not None:
                    return forked

    # Launchers

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, InterruptedError):
            connection, _ = self._listener.accept()
            if _peer(connection) not in (os.getuid(), 0):
                connection.close()
                return
            connection.setblocking(False)
            talk = Conversation(connection)
            self._talks[connection.fileno()] = talk
            self._selector.register(connection, selectors.EVENT_READ, talk)

    def _hear(self, talk: Conversation) -> Any:
        """Something has come from a launcher, or it is gone."""
        try:
            data, ancillary, _, _ = talk.connection.recvmsg(65536, socket.CMSG_SPACE(4 * 256))
        except BlockingIOError:
            return None
        except OSError:
            data, ancillary = b"", []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
                talk.received += list(numbers)
        if not data:
            self._gone(talk)
            return None
        talk.data += data
        if talk.request is None:
            self._read_request(talk)
        elif talk.pid == 0 and b"go\n" in talk.data:
            return self._fork(talk)
        return None

    def _read_request(self, talk: Conversation) -> None:
        if len(talk.data) < 8:
            return
        size = int.from_bytes(talk.data[:8], "big")
        if size > MOST_BYTES:
            self._drop(talk, "no the request is too large")
            return
        if len(talk.data) < 8 + size:
            return
        try:
            request = json.loads(talk.data[8 : 8 + size])
            why = self._reason(request)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            request, why = {}, f"no request that is understood: {error!r}"
        if why:
            log(f"{self._level}: not forked, {why}")
            self._drop(talk, f"no {why}")
            return
        talk.request, talk.data = request, talk.data[8 + size :]
        try:
            talk.say("ready")
        except OSError:
            self._gone(talk)

    def _reason(self, request: dict[str, Any]) -> str:
        own = {number for number in request["descriptors"] if number > 2 and _is_open(number)}
        if own - self._serving():
            return f"descriptor {min(own - self._serving())} is in use here"
        return self.spoilt() or refusal.reason(
            request,
            executable=sys.executable,
            flags=tuple(sys.flags),
            environment=self._environment,
            known=self._known,
            loaded=self._loaded,
        )

    def _serving(self) -> set[int]:
        """The descriptors that a fork gives up: those of the server's own work."""
        own = {self._selector.fileno(), *self._wake, *self._talks}
        own |= {each for talk in self._talks.values() for each in talk.received}
        if self._listener is not None:
            own.add(self._listener.fileno())
        return own

    def _drop(self, talk: Conversation, last_word: str) -> None:
        with contextlib.suppress(OSError):
            talk.say(last_word[:3000].replace("\n", " "))
        self._forget(talk)

    def _gone(self, talk: Conversation) -> None:
        """A launcher was killed, or does not want its fork any more."""
        pid = talk.pid
        self._forget(talk)
        if pid:
            end_tree(pid)

    def _forget(self, talk: Conversation) -> None:
        number = talk.connection.fileno()
        if number in self._talks:
            self._selector.unregister(talk.connection)
            del self._talks[number]
        talk.close()

    # Forks

    def _fork(self, talk: Conversation) -> Any:
        assert talk.request is not None
        if len(talk.request["descriptors"]) != len(talk.received):
            self._drop(talk, "no descriptors were lost")
            return None
        try:
            pid = os.fork()
        except OSError as error:
            log(f"{self._level}: cannot fork: {error}")
            self._drop(talk, f"no {error}")
            return None
        if pid == 0:
            return self._be(talk)
        talk.pid = pid
        self._forks[pid] = talk
        for each in talk.received:
            os.close(each)
        talk.received = []
        try:
            talk.say(f"pid {pid}")
        except OSError:
            self._gone(talk)
        return None

    def _be(self, talk: Conversation) -> Any:
        """In the fork: give up what is the server's, become what was asked for."""
        assert talk.request is not None
        self.give_up(talk)
        received, talk.received = talk.received, []
        try:
            return child.become(
                talk.request, received, talk.connection, self._marks, self._pools, self._base_path
            )
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def give_up(self, kept: Conversation | None = None) -> None:
        """In a fork: close what is the server's, one conversation excepted."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for number in self._wake:
            if number >= 0:
                os.close(number)
        if self._listener is not None:
            self._listener.close()
        for talk in self._talks.values():
            if talk is not kept:
                talk.close()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            talk = self._forks.pop(pid, None)
            if talk is None:
                self._on_end(pid, code)
                continue
            talk.pid = 0
            with contextlib.suppress(OSError):
                talk.say(f"end {code}")
            self._forget(talk)


def end_tree(pid: int) -> None:
    """Kill a process, the group that it leads, and all that descend from it."""
    tree = [pid]
    children = _children()
    for each in tree:
        tree += children.get(each, ())
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    for each in tree:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    """Process id -> those of its children."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                found.setdefault(parent, []).append(int(name))
    return found


def _peer(connection: socket.socket) -> int:
    """The user id of who has connected."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _top_level() -> set[str]:
    """The top-level names of all modules that were loaded from files, this package's own excepted."""
    found = set()
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if "." not in name and getattr(spec, "origin", None) not in (None, "built-in", "frozen"):
            found.add(name)
    return found - {"__main__"}


def base_path(path: Sequence[str], environ: dict[str, str]) -> list[str]:
    """What a module search path ends with in every process: without PYTHONPATH, and a script's folder."""
    extra = {entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    return [entry for entry in path if entry and entry not in extra and entry != os.getcwd()]


def avoided(folder: str) -> tuple[str, ...]:
    """The modules that are not imported ahead any more."""
    return modules.learnt(os.path.join(folder, AVOID))


def prepare() -> tuple[marks.Marks | None, dict[str, str]]:
    """Import what a node's processes import; returns Ray's marks and the environment of before.

    To be called before Ray's library is loaded. Without the marks nothing can be forked that needs them.
    """
    environment = dict(os.environ)
    marks.set_in(os.environ)
    threads.restrain(os.environ)
    with identity.left_alone():
        modules.import_all((*modules.NODE, *modules.members(modules.NODE_PACKAGES[0])))
    os.environ.clear()
    os.environ.update(environment)
    try:
        return marks.Marks.find(), environment
    except marks.NotFoundError as error:
        log(f"nothing is forked: {error}")
        return None, environment


def import_for_training(folder: str) -> str:
    """Import what trainings use, at the lowest priority; returns the learnt module that has spoilt this.

    Priorities belong to threads on Linux, and nobody may raise one again: so a thread of its own is lowered,
    and ends. This one, of which forks are made, keeps the priority it has.
    """
    before = dict(os.environ)
    threads.restrain(os.environ)
    worst: list[str] = []
    learnt = modules.learnt(os.environ.get(modules.LEARNT, ""))
    avoid = set(avoided(folder))

    def work() -> None:
        lower_priority()
        with identity.left_alone():
            import_modules()

    def import_modules() -> None:
        modules.import_all(modules.TRAIN)

        def spoilt() -> str:
            return "threads" if threads.count() > 2 else ""

        if not spoilt():
            worst.append(modules.import_all([name for name in learnt if name not in avoid], spoilt))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    threads.wait_for_one()
    os.environ.clear()
    os.environ.update(before)
    return worst[0] if worst else ""


def lower_priority() -> None:
    """Let this thread, and no other, run only where nobody else wants to."""
    identity = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, identity, 19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(identity, os.SCHED_IDLE, os.sched_param(0))


def serve(folder: str, places: marks.Marks, environment: dict[str, str]) -> NoReturn:
    """Be both servers, and in every fork what was asked for. Never returns."""
    path = base_path(sys.path, environment)
    server = Server(folder, NODE, places, path, environment)
    train, ended = 0, 0

    def start_train() -> None:
        nonlocal train
        train = os.fork()
        if train == 0:
            server.give_up()
            _serve_training(folder, places, path, environment)

    def on_end(pid: int, code: int) -> None:
        nonlocal ended
        if pid == train:
            ended += 1
            log(f"{TRAIN}: ended with {code}")
            if ended <= (MOST_AVOIDED if code == SPOILT else MOST_DEATHS):
                start_train()

    start_train()
    server.listen()
    child.run(*server.serve(on_end))


def _serve_training(
    folder: str, places: marks.Marks, path: Sequence[str], environment: dict[str, str]
) -> NoReturn:
    """What the fork for level `train` does."""
    server = Server(folder, TRAIN, places, path, environment)
    begin = time.monotonic()
    spoiler = import_for_training(folder)
    if spoiler:
        log(f"{TRAIN}: {spoiler} starts a thread as it is imported; it is left out from now on")
        modules.remember(os.path.join(folder, AVOID), [spoiler])
        os._exit(SPOILT)
    try:
        server.listen()
    except RuntimeError as error:
        log(f"{TRAIN}: nothing is forked: {error}")
        os._exit(0)
    log(f"{TRAIN}: imported in {time.monotonic() - begin:.1f} s")
    child.run(*server.serve())


def start_beside(folder: str) -> None:
    """Import what a node's processes import, and leave a fork of this process to serve.

    This process has Ray imported then, as if it had been started without. Whatever goes wrong is printed, and
    the node starts its processes in the ordinary way.
    """
    try:
        make_folder(folder)
        places, environment = prepare()
        if places is None:
            return
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            serve(folder, places, environment)
        places.write(environment)
        deadline = time.monotonic() + BESIDE_SECONDS
        while not os.path.exists(launcher.socket_of(folder, NODE)) and time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
    except OSError as error:
        log(f"nothing is forked: {error}")


def make_folder(folder: str) -> None:
    """The folder of the sockets, for nobody else. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for level in (NODE, TRAIN):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(launcher.socket_of(folder, level))


def main(argv: Sequence[str]) -> None:
    folder = argv[0]
    make_folder(folder)
    places, environment = prepare()
    if places is None:
        raise SystemExit(1)
    serve(folder, places, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
