"""The fixture of the core's probe that these tests share."""

from tests.unit.probe.conftest import every_patch_fits  # noqa: F401
