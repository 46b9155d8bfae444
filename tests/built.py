"""The programs that tests build with Go and run."""

from __future__ import annotations

from lab.host.programs import MINIO, Program

PROMETHEUS_RELEASE, ALERTMANAGER_RELEASE = "v3.13.3", "v0.34.1"
"""The releases of the images in compose/lab.yaml."""


def _prometheus(name: str) -> Program:
    """Built without discovery in clouds. Release 3.13.3 is version v0.313.3 of the module."""
    major, minor, patch = PROMETHEUS_RELEASE.removeprefix("v").split(".")
    return Program(
        name,
        f"github.com/prometheus/prometheus/cmd/{name}",
        f"v0.{major}{int(minor):02}.{patch}",
        {"github.com/prometheus/common/version.Version": PROMETHEUS_RELEASE.removeprefix("v")},
        "github.com/prometheus/prometheus",
        ("remove_all_sd",),
    )


PROMETHEUS, PROMTOOL = _prometheus("prometheus"), _prometheus("promtool")

ALERTMANAGER, AMTOOL = (
    Program(
        name,
        f"github.com/prometheus/alertmanager/cmd/{name}",
        ALERTMANAGER_RELEASE,
        {"github.com/prometheus/common/version.Version": ALERTMANAGER_RELEASE.removeprefix("v")},
        "github.com/prometheus/alertmanager",
        added={"ui/app/dist/index.html": "Alertmanager without its pages, which are made with npm.\n"},
    )
    for name in ("alertmanager", "amtool")
)

TESTED = (MINIO, PROMETHEUS, PROMTOOL, ALERTMANAGER, AMTOOL)
"""What the tests build and run."""
