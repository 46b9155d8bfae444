"""Threads for what takes long: one task at a time for each job."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lab.host.serving import log

Task = Callable[[], None]

MOST = 8
"""Threads at the same time."""


class Threads:
    """They do not keep the process from ending."""

    def __init__(self, say: Callable[[str], None] = log) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        self._free = threading.Semaphore(MOST)

    def start(self, key: str, task: Task) -> bool:
        """Run a task, unless one for this key is on its way, or no thread can be made (False)."""
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)

        def run() -> None:
            try:
                with self._free:
                    task()
            except BaseException as error:  # nobody else would hear of it
                self._say(f"{key.strip()}: {error!r}")
            finally:
                self._forget(key)

        try:
            threading.Thread(target=run, name=f"queue-{key}", daemon=True).start()
        except RuntimeError as error:
            self._forget(key)
            self._say(f"{key.strip()}: {error}")
            return False
        return True

    def _forget(self, key: str) -> None:
        with self._lock:
            self._keys.discard(key)

    def busy(self, key: str) -> bool:
        """Tell if a task for this key is on its way."""
        with self._lock:
            return key in self._keys
