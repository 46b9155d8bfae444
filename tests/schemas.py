"""The JSON Schemas in docs/schemas, made from the shapes in lab/api: python -m tests.schemas writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lab.api.base import schema
from lab.api.ladder import LadderDocument
from lab.api.lesson import ReportDocument
from lab.api.receipt import ReceiptDocument
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "schemas"

SHAPES: Mapping[str, type] = {
    "ladder": LadderDocument,
    "lesson-report": ReportDocument,
    "recovery-receipt": ReceiptDocument,
}
"""File, without `.json` -> the shape that it describes."""


def text(name: str) -> str:
    """The content of a file."""
    return json.dumps(schema(SHAPES[name]), indent=1) + "\n"


if __name__ == "__main__":
    for name in SHAPES:
        (FOLDER / f"{name}.json").write_text(text(name))
