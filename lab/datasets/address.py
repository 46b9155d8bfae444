"""Addresses of the web: what may be said of one, and through which proxy it is reached.

A query or a user's name in an address may be a secret, as in a signed link: neither is written anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from lab.errors import SetupError, UsageError


def check(url: str) -> None:
    """Raises UsageError unless `url` is an address of http or https."""
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https"):
        raise UsageError(
            f"--url {shown(url)}: no http or https address", "for a file on this machine: --from FILE"
        )


def shown(url: str) -> str:
    """`url` as it may be written: scheme, host, port and path. Of what is no address little is said."""
    parts = _parts(url)
    if parts is None:
        return "..." if "@" in url else url.partition("?")[0].partition("#")[0]
    return f"{parts.scheme}://{_host(parts)}{parts.path}"


def fingerprint(url: str) -> str:
    """Names the whole of `url` without saying it: 64 hexadecimal digits."""
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Proxy:
    """Where requests go through, and what it is told."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


def proxy_for(url: str, proxies: Mapping[str, str]) -> Proxy | None:
    """The proxy for `url` among `proxies` (scheme -> value of HTTP_PROXY or HTTPS_PROXY); None without one.

    A value without a scheme is one of http. Raises SetupError for a value that cannot be used.
    """
    scheme = urlsplit(url).scheme
    said = proxies.get(scheme, "").strip()
    if not said:
        return None
    parts = _parts(said if "://" in said else f"http://{said.lstrip('/')}")
    if parts is None or parts.scheme not in ("http", "https"):
        kind = f"a {parts.scheme} proxy" if parts is not None else "no address"
        variable = f"{scheme.upper()}_PROXY"
        raise SetupError(
            f"{variable} is {kind}, and downloads need an http or https proxy",
            f"export {variable}=http://HOST:PORT; or download the archive otherwise: --from FILE",
        )
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["proxy-authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return Proxy(f"{parts.scheme}://{_host(parts)}", headers)


def _parts(url: str) -> SplitResult | None:
    """The parts of an address; None for what has no scheme or host, or a port that is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # a ValueError where it is no number of a port
    except ValueError:
        return None
    return parts if parts.scheme and parts.hostname else None


def _host(parts: SplitResult) -> str:
    """Host and port, without the user."""
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{name}:{parts.port}" if parts.port is not None else name
