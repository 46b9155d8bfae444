"""Settings of the Caddy that leads people to the hub and to their servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

SOCKET = "caddy.sock"
"""Unix socket of its administration in the hub's folder."""

PERSON = {"set": {"X-Real-Ip": ["{http.vars.client_ip}"]}}
"""Who asked, where JupyterHub looks for it first, whatever a client says there itself."""

STREAMS = "24h"
"""Time for which an open WebSocket outlives a change of settings."""

ONE_ANSWER = {
    "match": [{"not": [{"header": {"Upgrade": ["*"]}}]}],
    "handle": [
        {"handler": "headers", "response": {"set": {"Connection": ["close"]}, "deferred": True}},
    ],
}
"""A connection ends with its answer, but for WebSockets. Caddy closes idle ones when its settings change, as
for each server that starts, and a request that was on its way on one of them would be lost."""


def caddy_settings(
    listen: str, folder: Path, targets: Mapping[str, str], trusted: Sequence[str]
) -> dict[str, object]:
    """Settings of a Caddy that listens there; `targets` has URLs by the beginnings of paths.

    The longest beginning decides. Of what comes from the networks `trusted`, as from the class's own proxy,
    it believes who asked and by which scheme.
    """
    ordered = sorted(targets.items(), key=lambda item: -len(item[0]))
    server = {
        "listen": [listen],
        "automatic_https": {"disable": True},
        "trusted_proxies": {"source": "static", "ranges": list(trusted)},
        "routes": [ONE_ANSWER, *(_route(spec, target) for spec, target in ordered)],
    }
    return {
        "admin": {"listen": f"unix/{folder / SOCKET}|0600", "config": {"persist": False}},
        "logging": {"logs": {"default": {"level": "ERROR"}}},
        "storage": {"module": "file_system", "root": str(folder / "caddy")},
        "apps": {"http": {"servers": {"hub": server}}},
    }


def _route(spec: str, target: str) -> dict[str, object]:
    handler = {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": urlsplit(target).netloc}],
        "flush_interval": -1,
        "headers": {"request": PERSON},
        "stream_close_delay": STREAMS,
    }
    paths = [f"{spec}*"] if spec == "/" else [f"{spec}*", spec.rstrip("/")]
    return {"match": [{"path": paths}], "handle": [handler], "terminal": True}
