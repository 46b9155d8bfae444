"""Whether a service of a lab answers over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

TIMEOUT_SECONDS = 2.0


def http_status(url: str, headers: Mapping[str, str] | None = None) -> int | None:
    """The HTTP status of a GET, or None when nothing answers."""
    import urllib3

    try:
        with urllib3.PoolManager(retries=False) as pool:
            response = pool.request(
                "GET", url, headers=headers, timeout=urllib3.Timeout(TIMEOUT_SECONDS), redirect=False
            )
    except urllib3.exceptions.HTTPError:
        return None
    return int(response.status)
