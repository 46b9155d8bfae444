"""Kueue's YAML, v1beta1 and v1beta2, read strictly: anything wrong is told with file, line and path."""

from __future__ import annotations

from kueue.reading.objects import DEFAULT_NAMESPACE, Read, read, read_objects

__all__ = ["DEFAULT_NAMESPACE", "Read", "read", "read_objects"]
