"""Puts a function around a method of somebody else's, which goes on to be called by its name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def around(owner: Any, name: str, call: Callable[..., Any]) -> None:
    """Let `owner.name(...)` be `call(method, ...)`; once is enough, also for an owner under two names."""
    method = getattr(owner, name)
    if getattr(method, "raylab", None) == call.__qualname__:
        return

    @functools.wraps(method)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return call(method, *args, **kwargs)

    watched.raylab = call.__qualname__  # type: ignore[attr-defined]
    setattr(owner, name, watched)
