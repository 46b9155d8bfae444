"""Print the JSON Schemas of the documents: `python -m lab.api > lab/api/schema.json`."""

from __future__ import annotations

import json
import sys
from dataclasses import is_dataclass
from importlib import import_module

from typing_extensions import is_typeddict

from lab.api.base import schemas
from lab.extension import ours


def shapes() -> list[type[object]]:
    """Every shape of the documents of the project's extensions."""
    modules = [import_module(name) for extension in ours() for name in extension.documents]
    named = (value for module in modules for value in vars(module).values())
    return [
        value for value in named if isinstance(value, type) and (is_dataclass(value) or is_typeddict(value))
    ]


def text() -> str:
    """The schemas as one document, a line for each shape."""
    comment = "Made by `python -m lab.api` from lab/api."
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": comment}
    lines = [f" {json.dumps(name)}: {json.dumps(shape)}" for name, shape in sorted(schemas(shapes()).items())]
    return f'{json.dumps(head)[:-1]}, "$defs": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.stdout.write(text())
