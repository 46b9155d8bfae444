"""In a notebook `ray.init()` and what runs say that the head is down, instead of waiting for minutes.

`ray.init()` (ray 2.60) asks a head that takes no connection again and again, for five minutes and more; a
driver whose head has died waits a minute and then ends the process, which is the notebook's kernel. Here
`ray.init()` raises once nobody has taken a connection for `DOWN_SECONDS`, and a thread beside the driver
prints that the head is down, and when it answers again.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from raylab_compat.import_hooks import after_import
from raylab_patches import connects
from raylab_switches import active

DOWN_SECONDS = 6.0
LOOK_SECONDS = 1.0
THREAD = "raylab-head"

ADDRESS = "RAY_ADDRESS"
SCHEME = "ray://"
"""Of the address of Ray's client, in a container that is no node."""

Takes = Callable[[str, int], bool]


def place_of(address: str | None) -> tuple[str, int] | None:
    """Host and port of the head that `ray.init(address)` connects to; None if it starts or finds one."""
    given = address if address not in (None, "auto") else os.environ.get(ADDRESS, "")
    host, _, port = str(given).removeprefix(SCHEME).rpartition(":")
    return (host, int(port)) if host and port.isdigit() else None


def message_of(place: tuple[str, int]) -> str:
    """The sentence for a head that is down."""
    host, port = place
    return f"the head is down: nobody listens at {host}:{port}; `labctl status` says more, `up` repairs"


def wait_for_head(
    place: tuple[str, int],
    takes: Takes = connects,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once somebody takes a connection. Raises ConnectionError after DOWN_SECONDS."""
    end = clock() + DOWN_SECONDS
    while not takes(*place):
        if clock() >= end:
            raise ConnectionError(message_of(place))
        sleep(LOOK_SECONDS)


def news(place: tuple[str, int], takes: Takes = connects) -> Iterator[str]:
    """What there is to say at each look of LOOK_SECONDS: mostly nothing."""
    missed, most = 0, round(DOWN_SECONDS / LOOK_SECONDS)
    while True:
        if takes(*place):
            yield "the head answers again" if missed >= most else ""
            missed = 0
        else:
            missed += 1
            yield message_of(place) if missed == most else ""


def watch(place: tuple[str, int], connected: Callable[[], bool]) -> None:
    """Print the news while this process is connected."""
    for text in news(place):
        if not connected():
            return
        if text:
            print(f"raylab: {text}", file=sys.stderr, flush=True)
        time.sleep(LOOK_SECONDS)


def change(ray: Any) -> None:
    """Change the module `ray` in this process."""
    begin = ray.init

    @functools.wraps(begin)
    def init(address: str | None = None, *args: Any, **options: Any) -> Any:
        place = place_of(address)
        if place is None or ray.is_initialized():
            return begin(address, *args, **options)
        wait_for_head(place)
        context = begin(address, *args, **options)
        if all(thread.name != THREAD for thread in threading.enumerate()):
            look = threading.Thread(target=watch, args=(place, ray.is_initialized), name=THREAD, daemon=True)
            look.start()
        return context

    ray.init = init


CHANGES = {"ray": change}


def install() -> None:
    """Change `ray.init` in this process, where it belongs to JupyterLab."""
    if active("outage"):
        after_import(CHANGES)
