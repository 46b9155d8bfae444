"""Versions and the size of the machine that a training runs on, for a report. No name, no path."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

PACKAGES = ("ray", "torch", "pytorch-lightning")


def environment() -> dict[str, Any]:
    """Versions of Python and of PACKAGES, cores, memory in bytes; what cannot be learned is left out."""
    facts: dict[str, Any] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if cores := os.cpu_count():
        facts["cores"] = cores
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
        facts["memory_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return facts
