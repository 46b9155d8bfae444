"""Whatever the stand-in S3 server is sent, it answers as S3 does, and keeps what it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.store.server.app import STATUS_PATH
from lab.store.server.metrics import METRICS_PATH
from tests.unit.fuzz import words
from tests.unit.store.s3_wsgi import TRAINING, Server

KEPT = b"kept"

METHODS = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"])
ODD = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "0", "-1", "9" * 40, "\x00", "ü\n", "../..", "<x>", "&", "%", "a" * 500, "null"]),
)
"""Texts with everything that a URL can carry, half characters included."""


PARAMETERS = ODD | words(
    """uploads uploadId partNumber delete list-type prefix delimiter max-keys marker start-after
    continuation-token encoding-type versionId versions acl tagging policy cors lifecycle attributes
    select restore response-expires X-Amz-Signature X-Amz-Credential X-Amz-Expires"""
)
HEADERS = st.from_regex(r"\Ax-amz-[a-z-]{1,9}\Z") | words(
    """Range If-Match If-None-Match If-Modified-Since Content-Encoding Content-MD5 Content-Type Expect
    Host x-amz-copy-source x-amz-copy-source-range x-amz-checksum-crc32 x-amz-tagging x-amz-acl
    x-amz-metadata-directive x-amz-storage-class x-amz-decoded-content-length x-amz-content-sha256
    x-amz-date x-amz-trailer"""
)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=12) | words(
    """bytes=0-0 bytes=9- bytes=-0 bytes=a-b /ray/kept /ray/ * \xff 1e9 multipart/form-data;boundary=x
    application/x-www-form-urlencoded aws-chunked a=b STREAMING-AWS4-HMAC-SHA256-PAYLOAD
    STREAMING-UNSIGNED-PAYLOAD-TRAILER UNSIGNED-PAYLOAD"""
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"<Delete/>",
            b"<Delete><Object><Key></Key></Object></Delete>",
            b"<Delete>" + b"<Object>" * 5000,
            b"<C><Part/></C>",
            b"<C><Part><PartNumber>x</PartNumber></Part></C>",
            b"<a>&b;</a>",
            b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>',
            b"0\r\n\r\n",
            b"ff\r\nx",
        ]
    ),
)
PRINTABLE = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="[]")
PATHS = st.one_of(
    st.sampled_from(["/", "/ray", "/ray/", "/ray/new", "/ray/kept/", "//ray/kept", "/other/x", "/moto-api/"]),
    st.sampled_from([METRICS_PATH, STATUS_PATH, "/raylab/health", "/favicon.ico", "/latest/api/"]),
    ODD.map(lambda text: "/ray/" + quote(text, errors="surrogatepass")),
    st.text(PRINTABLE, max_size=9).map("/".__add__),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(Path(tmp_path_factory.mktemp("hostile")) / "objects")
    server("PUT", "/ray")
    server("PUT", "/ray/kept", KEPT)
    yield server
    server.die()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=METHODS,
    path=PATHS,
    query=st.lists(st.tuples(PARAMETERS, ODD), max_size=3),
    headers=st.dictionaries(HEADERS, VALUES, max_size=3),
    body=BODIES,
    signed=st.booleans(),
)
def test_every_request_gets_an_answer_and_only_its_own_object_changes(
    server: Server,
    method: str,
    path: str,
    query: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
    signed: bool,
) -> None:
    if query:
        path += "?" + urlencode(query, errors="surrogatepass")
    if signed:
        answer = server(method, path, body, headers, credentials=TRAINING)
    else:
        answer = server.send(method, path, body, headers)
        public = path.partition("?")[0] == "/raylab/health"
        assert answer.status_code >= 400 or public
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    assert {stored.record.key for stored in server.disk.objects("ray")} == set(server.keys())
    stays = method not in ("PUT", "POST", "DELETE") or not path.startswith(("/ray/kept", "/ray?"))
    assert not stays or server("GET", "/ray/kept").data == KEPT
