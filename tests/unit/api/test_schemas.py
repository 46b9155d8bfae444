"""The published JSON Schemas say what the shapes say."""

from __future__ import annotations

import pytest

from tests.schemas import FOLDER, SHAPES, text


@pytest.mark.parametrize("name", SHAPES)
def test_a_schema_is_the_one_of_its_shape(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text(name), "write it anew: python -m tests.schemas"


def test_every_schema_has_its_shape() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SHAPES)
