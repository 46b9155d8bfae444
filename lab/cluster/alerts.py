"""Alerts of a lab, as its Alertmanager has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from lab.api.health import Alert, Silence
from lab.api.monitoring import FiringAlert, Silenced
from lab.cluster.prometheus import Prometheus, Request, ask
from lab.errors import NotFoundError, UnsupportedError
from lab.host import http
from lab.host.clock import WALL

NAME = "alertname"
"""The label that Prometheus gives an alert's name."""

OWN = (NAME, "severity", "job")
"""Labels that do not say where something is wrong."""


class Alerts:
    """Alerts of one lab. Raises LabDownError where Alertmanager or Prometheus does not answer."""

    def __init__(
        self,
        alertmanager: str,
        prometheus: str,
        *,
        request: Request = http.request,
        now: Callable[[], float] = WALL,
    ) -> None:
        """Take the addresses of both. Raises UnsupportedError for a lab without Alertmanager."""
        if not alertmanager:
            raise UnsupportedError(
                "this lab has no Alertmanager",
                "labctl status says why; the local runtime needs `prometheus` and `alertmanager` on PATH",
            )
        self._url, self._prometheus = alertmanager, Prometheus(prometheus, request)
        self._request, self._now = request, now

    def firing(self) -> tuple[Alert, ...]:
        """Every alert that fires, the worst first, then the oldest."""
        answer = ask(tuple[FiringAlert, ...], "GET", f"{self._url}/api/v2/alerts", request=self._request)
        return tuple(sorted(map(_alert, answer), key=lambda alert: (alert.severity, alert.since, alert.name)))

    def silence(self, name: str, seconds: float) -> Silence:
        """Send an alert to nobody for that long. Raises NotFoundError for a name that no rule has."""
        names = self._prometheus.alerts()
        if name not in names:
            raise NotFoundError(f"there is no alert {name}", f"choose one of {', '.join(names)}")
        now = self._now()
        order = {
            "matchers": [{"name": NAME, "value": name, "isRegex": False, "isEqual": True}],
            "startsAt": _iso(now),
            "endsAt": _iso(now + seconds),
            "createdBy": "labctl",
            "comment": "labctl health silence",
        }
        answer = ask(Silenced, "POST", f"{self._url}/api/v2/silences", order, request=self._request)
        return Silence(answer.silence_id, name, now + seconds)


def where(alert: Alert) -> str:
    """Values of the labels that say where something is wrong."""
    return " ".join(value for label, value in alert.labels.items() if label not in OWN)


def _alert(firing: FiringAlert) -> Alert:
    labels = firing.labels
    return Alert(
        labels.get(NAME, ""),
        labels.get("severity", ""),
        datetime.fromisoformat(firing.starts_at.replace("Z", "+00:00")).timestamp(),
        labels,
        firing.annotations.get("summary", ""),
        firing.status.state == "suppressed",
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat()
