"""Objects as YAML that a person reads: texts of several lines as blocks, nothing by reference."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

WIDTH = 110


def as_yaml(objects: Iterable[object]) -> str:
    """One YAML text of several documents."""
    import yaml

    dumper = _dumper()
    return "---\n".join(
        yaml.dump(document, Dumper=dumper, sort_keys=False, width=WIDTH, allow_unicode=True)
        for document in objects
    )


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc,valid-type]
        """PyYAML's, with another look."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper
