"""Threads for what takes long: one task at a time for each job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

Task = Callable[[], None]

MOST = 8
"""Threads at the same time."""


class Workers(Protocol):
    """Runs tasks."""

    def start(self, key: str, task: Task) -> bool:
        """Run a task, unless one for this key is on its way (False). It raises nothing."""

    def busy(self, key: str) -> bool:
        """Tell if a task for this key is on its way."""


class Threads:
    """Workers that are threads; they do not keep the process from ending."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        self._free = threading.Semaphore(MOST)

    def start(self, key: str, task: Task) -> bool:
        """See Workers."""
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)

        def run() -> None:
            try:
                with self._free:
                    task()
            finally:
                with self._lock:
                    self._keys.discard(key)

        threading.Thread(target=run, name=f"queue-{key}", daemon=True).start()
        return True

    def busy(self, key: str) -> bool:
        """See Workers."""
        with self._lock:
            return key in self._keys
