"""Large files over HTTP: resumed, verified by size, given up with what has arrived."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import requests

from lab.errors import SetupError, UsageError
from lab.ext.course.datasets.download import (
    FRUITLESS,
    Download,
    UnreachableError,
    check_url,
    fingerprint,
    sha256_of,
    shown,
)
from tests.ext.course.datasets.servers import Server, offline
from tests.fakes.host import FakeClock

URL = "https://example.org/food.zip"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "food.zip.part"


def download(server: Server, part: Path, clock: FakeClock | None = None, **changes: Any) -> Download:
    given = {"clock": clock or FakeClock(), "free": lambda _: 10**12, **changes}
    return Download(URL, part, session=server.session, **given)


def test_a_file_arrives_whole_and_says_how_far_it_is(part: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    download(Server(CONTENT), part, on_progress=lambda *step: seen.append(step)).fetch()

    assert part.read_bytes() == CONTENT
    assert seen[-1] == ("download", len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_gone_on_with_where_it_broke(part: Path) -> None:
    server, clock = Server(CONTENT, breaks=(1000, 500)), FakeClock()
    download(server, part, clock).fetch()

    assert part.read_bytes() == CONTENT
    assert [asked.get("Range") for asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
    assert server.asked[1]["If-Range"] == '"one"'
    assert clock.slept == [1.0, 1.0], "each brought something"


def test_what_an_earlier_call_left_is_gone_on_with(part: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(Server(CONTENT, breaks=(1000,)), part, on_progress=interrupted).fetch()
    assert part.stat().st_size == 1000
    server = Server(CONTENT)
    download(server, part).fetch()

    assert server.asked[0]["Range"] == "bytes=1000-"
    assert part.read_bytes() == CONTENT


def test_a_file_that_is_whole_is_not_asked_for_again(part: Path) -> None:
    download(Server(CONTENT), part).fetch()
    server = Server(CONTENT)
    download(server, part).fetch()
    assert server.asked == []


@pytest.mark.parametrize("etag", ['"two"', ""])
def test_another_file_of_that_address_begins_anew(part: Path, etag: str) -> None:
    with pytest.raises(UnreachableError):
        download(Server(CONTENT, etag="", breaks=(1000, *[0] * FRUITLESS)), part).fetch()
    other = CONTENT[::-1] + b"more"
    download(Server(other, etag=etag), part).fetch()
    assert part.read_bytes() == other


def test_a_server_without_ranges_gives_it_from_the_start(part: Path) -> None:
    server = Server(CONTENT, breaks=(1000,), ranges=False)
    download(server, part).fetch()
    assert part.read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_part_larger_than_the_file_begins_anew(part: Path) -> None:
    download(Server(CONTENT + b"tail", etag='"old"', breaks=(len(CONTENT) + 2,)), part).fetch()
    part.write_bytes(CONTENT + b"surplus")
    download(Server(CONTENT, etag='"old"'), part).fetch()
    assert part.read_bytes() == CONTENT


def test_a_connection_that_brings_nothing_any_more_is_given_up_and_the_part_stays(part: Path) -> None:
    server, clock = Server(CONTENT, breaks=(1000, *[0] * FRUITLESS)), FakeClock()
    with pytest.raises(UnreachableError, match=f"1000 of {len(CONTENT)} bytes"):
        download(server, part, clock).fetch()

    assert part.stat().st_size == 1000
    assert clock.slept == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_server_that_restarts_from_zero_and_breaks_at_the_same_place_is_given_up(part: Path) -> None:
    server = Server(CONTENT, breaks=[900] * 50, ranges=False)
    with pytest.raises(UnreachableError, match="the connection broke"):
        download(server, part).fetch()
    assert len(server.asked) == FRUITLESS + 1


def test_a_busy_server_gets_another_chance(part: Path) -> None:
    download(Server(CONTENT, answers=(503, 429)), part).fetch()
    assert part.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (Server(b"", error=offline()), "does not answer: the host name is unknown"),
        (Server(b"", answers=(404,)), "answers HTTP 404"),
        (Server(b"<html>", kind="text/html; charset=utf-8"), r"gives a page \(text/html\), not an archive"),
    ],
)
def test_what_no_second_attempt_mends_is_said_at_once(part: Path, server: Server, message: str) -> None:
    clock = FakeClock()
    with pytest.raises(UnreachableError, match=message):
        download(server, part, clock).fetch()
    assert clock.slept == []
    assert not part.exists()


def test_a_disk_that_is_too_small_is_noticed_before_it_is_full(part: Path) -> None:
    with pytest.raises(SetupError, match=r"0\.0 GB are free") as caught:
        download(Server(CONTENT), part, free=lambda _: len(CONTENT) * 2).fetch()
    assert "RAYLAB_HOME" in caught.value.hint
    assert not part.exists()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/x",
        "food.zip",
        "file:///etc/passwd",
        "https://",
        "http://[/x.zip",
        "http://host:port/x.zip",
        "",
    ],
)
def test_what_is_no_web_address_is_refused(part: Path, url: str) -> None:
    with pytest.raises(UsageError, match="of http or https"):
        Download(url, part)


def test_the_sha256_is_that_of_the_whole_file(part: Path) -> None:
    part.write_bytes(b"abc")
    assert sha256_of(part) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# Addresses


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
        ("http://[/x.zip?s3cret", "..."),
    ],
)
def test_a_secret_is_not_shown(url: str, said: str) -> None:
    assert shown(url) == said


def test_an_error_about_an_address_shows_no_secret() -> None:
    with pytest.raises(UsageError, match=r"--url ftp://example\.org/x") as caught:
        check_url("ftp://me:s3cret@example.org/x?s3cret")
    assert "s3cret" not in caught.value.message


def test_addresses_that_differ_in_their_query_alone_have_other_fingerprints() -> None:
    assert fingerprint(f"{URL}?a") != fingerprint(f"{URL}?b")
    assert len(fingerprint(URL)) == 64


def test_what_an_error_says_of_an_address_is_not_handed_on(part: Path) -> None:
    error = requests.RequestException("cannot follow https://example.org/x?token=s3cret to /y?key=s3cret")
    with pytest.raises(UnreachableError, match="cannot follow") as caught:
        download(Server(b"", error=error), part).fetch()
    assert "s3cret" not in caught.value.message


def test_a_redirect_is_followed_with_the_range(part: Path) -> None:
    server = Server(CONTENT, breaks=(1000,), moved={URL: "https://other.example.org/food.zip?signed"})
    download(server, part).fetch()
    assert part.read_bytes() == CONTENT
    assert server.asked[1]["Range"] == "bytes=1000-"


def test_redirects_in_a_circle_end(part: Path) -> None:
    server = Server(b"", moved={URL: f"{URL}?again", f"{URL}?again": URL})
    with pytest.raises(UnreachableError, match="it redirects too often"):
        download(server, part).fetch()


@pytest.fixture
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_no_proxies")
def test_a_download_goes_through_the_proxy_of_the_environment(
    part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(CONTENT)
    monkeypatch.setenv("HTTPS_PROXY", "me:p%40ss@proxy.org:3128")
    download(server, part).fetch()
    assert server.proxies[-1]["https"] == "me:p%40ss@proxy.org:3128"
    part.unlink()
    monkeypatch.setenv("NO_PROXY", "example.org")
    download(server, part).fetch()
    assert "https" not in server.proxies[-1]


@pytest.mark.usefixtures("_no_proxies")
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("socks5://me:s3cret@proxy:1080", "only http and https work"),
        ("http://proxy:s3cret", "that is not an address"),
        ("http://", "its proxy has no address"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_said(
    part: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", said)
    with pytest.raises(UnreachableError, match=message) as caught:
        Download(URL, part).fetch()
    assert "s3cret" not in caught.value.message
