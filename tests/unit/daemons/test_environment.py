"""Services of the lab's own are configured by variables, and name what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.daemons.environment import credentials, object_store, ray, ray_token
from lab.errors import UsageError
from lab.host.secrets import aws_credentials_file
from lab.topology import Credentials

KEY = Credentials("access", "se%cret")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "aws.ini").write_text(aws_credentials_file(KEY))
    (tmp_path / "ray.token").write_text("the-token\n")
    return {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "ray.token"),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws.ini"),
    }


def test_the_key_comes_from_the_file_or_from_the_environment(environ: dict[str, str]) -> None:
    assert credentials(environ) == KEY
    assert credentials({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) == Credentials("a", "b")
    assert ray_token(environ) == "the-token"
    assert ray_token({}) == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RAY_API_SERVER_ADDRESS", "RAY_API_SERVER_ADDRESS is not set"),
        ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL is not set"),
        ("AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID is not set"),
    ],
)
def test_what_is_missing_is_named(environ: dict[str, str], name: str, message: str) -> None:
    del environ[name]
    with pytest.raises(UsageError, match=message):
        (ray(environ), object_store(environ))


@pytest.mark.parametrize("content", ["", "[other]\n", "[default]\naws_access_key_id = a\n", "no ini"])
def test_a_damaged_credentials_file_is_named(environ: dict[str, str], tmp_path: Path, content: str) -> None:
    (tmp_path / "aws.ini").write_text(content)
    with pytest.raises(UsageError, match=r"aws\.ini (holds no key|is empty)"):
        credentials(environ)
