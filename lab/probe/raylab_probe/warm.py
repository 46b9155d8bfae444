"""What a standby process does before it has work: it imports what the training it stands by for uses.

Ray imports this module in every worker process as it starts (RAY_preload_python_modules). In most it asks the
head one thing and is done. A process that stands by (`standby.py` asked for it) is told the names of the
modules that a rank of the same run has imported; it imports them and says that it is ready. When an attempt
starts, Ray gives its rank this process: seconds of imports have been done before.

It imports only the standard library and what a worker process of Ray has already imported.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import zlib

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NAMESPACE = b"raylab-standby"
"""Where in Ray's key-value store standby processes and those who ask for them meet."""


def argument(name: str, argv: Sequence[str]) -> str:
    """The value of Ray's argument `--name=value` or `--name value` of this worker process, or nothing."""
    for position, word in enumerate(argv):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and position + 1 < len(argv):
            return argv[position + 1]
    return ""


def place(job: str, environment: str, node: str) -> str:
    """What identifies processes that one attempt may use: Ray's job, runtime environment (its hash), node."""
    return f"{job}/{environment}/{node}"


def modules_key(where: str) -> bytes:
    """Under this key lie the names of the modules to import."""
    return f"modules/{where}".encode()


def ready_key(where: str, pid: int | str = "") -> bytes:
    """Under this key a process says that it is ready; without `pid`, what such keys begin with."""
    return f"ready/{where}/{pid}".encode()


def packed(names: Iterable[str]) -> bytes:
    """Names of modules as they are kept: a few thousand of them in some kilobytes."""
    return zlib.compress(json.dumps(list(names)).encode())


def unpacked(data: bytes) -> list[str]:
    """The names in what `packed` made."""
    return [str(name) for name in json.loads(zlib.decompress(data))]


def import_all(names: Iterable[str], load: Callable[[str], object] = importlib.import_module) -> int:
    """Import these modules in this order, those that cannot be excepted; returns how many were."""
    done = 0
    for name in names:
        if name in sys.modules:
            continue
        try:
            load(name)
            done += 1
        except (Exception, SystemExit):  # the training will import it, or not, as it did without us
            continue
    return done


def my_place(argv: Sequence[str] | None = None) -> str:
    """The place of this worker process, or nothing where there is none."""
    argv = sys.argv if argv is None else argv
    environment, node = argument("--runtime-env-hash", argv), argument("--node-id", argv)
    job = os.environ.get("RAY_JOB_ID", "")
    return place(job, environment, node) if environment and node and job else ""


def warm_up(where: str) -> None:
    """Import what is asked for at this place, if anything, and say so."""
    from ray.experimental import internal_kv

    data = internal_kv._internal_kv_get(modules_key(where), namespace=NAMESPACE)
    if data:
        import_all(unpacked(data))
        internal_kv._internal_kv_put(ready_key(where, os.getpid()), b"1", namespace=NAMESPACE)


def main() -> None:
    where = my_place()
    try:
        if where:
            warm_up(where)
    except Exception as error:  # whatever it is, the process can do without
        print(f"raylab: this process starts without imports: {error!r}", flush=True)


if argument("--worker-launch-time-ms", sys.argv):  # a worker process of Ray, not a test that imports this
    main()
