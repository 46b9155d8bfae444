"""What an extension may add to the queues' controller: pages, metrics, and whether a node may take work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from lab.api.health import DeviceView
from lab.daemons.pages import Page
from lab.extension import object_of, ours
from lab.host.clock import Clock

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Part(Protocol):
    """A part of the controller. Its methods are called from any thread."""

    def devices(self) -> Sequence[DeviceView]:
        """Every device of the nodes, with its answer to the one question: may this take work?"""

    def pages(self) -> tuple[Page, ...]:
        """Further pages of the controller."""

    def collect(self) -> Iterable[Metric]:
        """Further metrics, for prometheus_client."""

    def tick(self) -> None:
        """Do what time brings. It is called about each second."""


Maker: TypeAlias = Callable[[RLock, Clock, Callable[[], None], Callable[[str], None]], Part]
"""Makes one, of the controller's lock and clock, what wakes it, and what logs a line."""


def make_parts(
    lock: RLock, clock: Clock, wake: Callable[[], None], say: Callable[[str], None]
) -> tuple[Part, ...]:
    """The parts that extensions bring."""
    makers = [cast(Maker, object_of(path)) for extension in ours() for path in extension.queue_parts]
    return tuple(make(lock, clock, wake, say) for make in makers)


def devices_of(parts: Iterable[Part]) -> list[DeviceView]:
    """Every device of the nodes, with its answer."""
    return [device for part in parts for device in part.devices()]
