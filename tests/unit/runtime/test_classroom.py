"""The variables by which a person of a class reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.lab import Lab
from lab.runtime.classroom import ClassView

GATEWAY = {"RAY_ADDRESS": "http://127.0.0.1:8280"}


@pytest.mark.parametrize(
    "address", ["", "auto", "127.0.0.1:8280", "ray://127.0.0.1:10001", "http://", "http://a b"]
)
def test_an_address_that_is_no_gateways(address: str) -> None:
    with pytest.raises(UsageError, match="RAY_ADDRESS is ") as caught:
        ClassView("raylab", {"RAY_ADDRESS": address, "RAY_AUTH_TOKEN": "t"})
    assert "http://HOST:8280" in caught.value.hint


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, "RAY_AUTH_TOKEN is not set, and RAY_AUTH_TOKEN_PATH names none"),
        ({"RAY_AUTH_TOKEN": " \n"}, "RAY_AUTH_TOKEN is not set"),
        ({"RAY_AUTH_TOKEN": "two words"}, "RAY_AUTH_TOKEN is not a token"),
        ({"RAY_AUTH_TOKEN": "t\u00e9"}, "RAY_AUTH_TOKEN is not a token"),
        ({"RAY_AUTH_TOKEN_PATH": "/nowhere/token"}, "cannot read /nowhere/token: No such file or directory"),
    ],
)
def test_a_token_that_is_none(variables: Mapping[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ClassView("raylab", {**GATEWAY, **variables})


def test_a_token_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    path = {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    assert ClassView("raylab", {**GATEWAY, **path})._token == "secret"
    assert ClassView("raylab", {**GATEWAY, **path, "RAY_AUTH_TOKEN": "other"})._token == "other"


def test_it_is_chosen_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**GATEWAY, "RAY_AUTH_TOKEN": "t", "RAYLAB_RUNTIME": "class"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAYLAB_NAME", raising=False)
    assert isinstance(Lab().view, ClassView)
