"""Addresses: what is said of one, and the proxy to it."""

from __future__ import annotations

import base64

import pytest

from lab.datasets.address import Proxy, check, fingerprint, proxy_for, shown
from lab.errors import SetupError, UsageError

URL = "https://example.org/food.zip"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (URL, URL),
        ("https://example.org:8443/a/b.zip?sig=s3cret#s3cret", "https://example.org:8443/a/b.zip"),
        ("http://me:s3cret@[::1]:80/x", "http://[::1]:80/x"),
        ("http://s3cret@example.org", "http://example.org"),
        ("food.zip?s3cret", "food.zip"),
        ("me:s3cret@example.org/x", "..."),
        ("http://me:s3/cret@example.org/x", "..."),
        ("http://[/x.zip?s3cret", "http://[/x.zip"),
    ],
)
def test_a_secret_is_not_shown(url: str, said: str) -> None:
    assert shown(url) == said


def test_an_error_about_an_address_shows_no_secret() -> None:
    with pytest.raises(UsageError, match=r"--url ftp://example\.org/x: no http or https address") as caught:
        check("ftp://me:s3cret@example.org/x?s3cret")
    assert "s3cret" not in caught.value.message


def test_addresses_that_differ_in_their_query_alone_have_other_fingerprints() -> None:
    assert fingerprint(f"{URL}?a") != fingerprint(f"{URL}?b")
    assert len(fingerprint(URL)) == 64


def basic(user: str) -> dict[str, str]:
    return {"proxy-authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


@pytest.mark.parametrize(
    ("said", "proxy"),
    [
        ("http://proxy:3128", Proxy("http://proxy:3128")),
        ("https://proxy", Proxy("https://proxy")),
        ("proxy:3128", Proxy("http://proxy:3128")),
        ("[::1]:3128", Proxy("http://[::1]:3128")),
        ("http://proxy:3128/", Proxy("http://proxy:3128")),
        ("http://me:p%40s%3As@proxy:3128", Proxy("http://proxy:3128", basic("me:p@s:s"))),
        ("me@proxy:3128", Proxy("http://proxy:3128", basic("me:"))),
        ("", None),
    ],
)
def test_a_proxy_is_what_the_environment_says(said: str, proxy: Proxy | None) -> None:
    assert proxy_for(URL, {"https": said, "http": "http://other"}) == proxy


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("socks5://me:s3cret@proxy:1080", "HTTPS_PROXY is a socks5 proxy"),
        ("http://proxy:s3cret", "HTTPS_PROXY is no address"),
        ("http://", "HTTPS_PROXY is no address"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_said_with_what_to_do(said: str, message: str) -> None:
    with pytest.raises(SetupError, match=message) as caught:
        proxy_for(URL, {"https": said})
    assert "export HTTPS_PROXY=http://HOST:PORT" in caught.value.hint
    assert "--from FILE" in caught.value.hint
    assert "s3cret" not in caught.value.message
