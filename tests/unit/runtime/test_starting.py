"""Rules for starting services: what is said of one that was not healthy in time."""

from __future__ import annotations

import os

from lab.runtime.starting import OVERLOADED, late


def test_an_overloaded_machine_is_named_as_the_reason() -> None:
    most = OVERLOADED * (os.cpu_count() or 1)
    idle = late("ray-head", 180.0, "it takes no connection", [], load=most)
    assert idle == "ray-head is not healthy after 180 s: it takes no connection. It wrote nothing."
    busy = late("ray-head", 180.0, "it takes no connection", ["one"], load=most + 1)
    assert busy.startswith(
        "ray-head is not healthy after 180 s: it takes no connection; the machine is overloaded, "
    )
    assert busy.endswith(". Its last lines:\n  one")
