"""What MinIO and the stand-in S3 server must answer alike; tests/e2e/test_s3_servers.py asks both of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, Server, signer

ETAG = hashlib.md5(b"hello").hexdigest()
ANOTHER = "0" * 32
CRC32 = "NhCmhg=="
SHA256 = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "objects")
    server("PUT", "/ray")
    assert server("PUT", "/ray/a", b"hello").status_code == 200
    yield server
    server.die()


@pytest.mark.parametrize(
    ("wanted", "status", "data"),
    [
        ("bytes=-99", 206, b"hello"),
        ("bytes=3-", 206, b"lo"),
        ("bytes=-0", 416, b""),
        ("bytes=2-1", 416, b""),
        ("bytes=5-", 416, b""),
        ("bytes = 0-1", 200, b"hello"),
        ("bytes=-", 200, b"hello"),
    ],
)
def test_a_range_is_what_it_says(server: Server, wanted: str, status: int, data: bytes) -> None:
    answer = server("GET", "/ray/a", headers={"Range": wanted})
    assert (answer.status_code, answer.data if status < 300 else b"") == (status, data)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("If-Match", "*", 200),
        ("If-Match", ETAG, 200),
        ("If-Match", f'"{ANOTHER}"', 412),
        ("If-None-Match", "*", 304),
        ("If-None-Match", ETAG, 304),
        ("If-None-Match", f'"{ANOTHER}"', 200),
    ],
)
def test_reading_has_conditions(server: Server, method: str, name: str, value: str, status: int) -> None:
    assert server(method, "/ray/a", headers={name: value}).status_code == status


@pytest.mark.parametrize(
    ("key", "headers", "status"),
    [
        ("a", {"If-Match": "*"}, 200),
        ("a", {"If-Match": ANOTHER}, 412),
        ("new", {"If-Match": ETAG}, 404),
        ("a", {"If-None-Match": f'"{ETAG}"'}, 412),
        ("a", {"If-None-Match": "*"}, 412),
        ("new", {"If-None-Match": "*"}, 200),
        ("b", {"x-amz-copy-source": "/ray/a", "x-amz-copy-source-if-match": ANOTHER}, 412),
        ("b", {"x-amz-copy-source": "/ray/a", "x-amz-copy-source-if-match": f'"{ETAG}"'}, 200),
        ("b", {"x-amz-copy-source": "/ray/a", "x-amz-copy-source-if-modified-since": "now"}, 501),
        ("b", {"x-amz-copy-source": "/ray/a?versionId=abc"}, 404),
        ("b", {"x-amz-copy-source": "/ray/a?versionId=null"}, 200),
        ("b", {"x-amz-copy-source": "/ray/a", "x-amz-metadata-directive": "MERGE"}, 400),
    ],
)
def test_writing_has_conditions(server: Server, key: str, headers: Mapping[str, str], status: int) -> None:
    before = server.keys()
    assert server("PUT", f"/ray/{key}", b"", headers).status_code == status
    assert status == 200 or (server("GET", "/ray/a").data, server.keys()) == (b"hello", before)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/ray/" + "k" * 1025, {}, "KeyTooLongError"),
        ("/ray/b", {"x-amz-meta-a": "x" * 2048}, "MetadataTooLarge"),
        ("/ray/b", {"x-amz-storage-class": "GLACIER"}, "InvalidStorageClass"),
        ("/ray/b", {"Content-MD5": "none"}, "InvalidDigest"),
        ("/ray/b", {"x-amz-checksum-crc32": "none"}, "InvalidArgument"),
        ("/ray/b", {"x-amz-checksum-crc32": CRC32, "x-amz-checksum-sha256": SHA256}, "InvalidArgument"),
        ("/a..b", {}, "InvalidBucketName"),
        ("/a.-b", {}, "InvalidBucketName"),
        ("/192.168.1.1", {}, "InvalidBucketName"),
    ],
)
def test_what_s3_does_not_take_is_refused(
    server: Server, path: str, headers: Mapping[str, str], code: str
) -> None:
    answer = server("PUT", path, b"hello", headers)
    assert (answer.status_code, f"<Code>{code}</Code>" in answer.text) == (400, True)


def test_a_checksum_is_kept_and_given_back(server: Server) -> None:
    stored = server("PUT", "/ray/b", b"hello", {"x-amz-checksum-crc32": CRC32})
    read = server("GET", "/ray/b", headers={"x-amz-checksum-mode": "ENABLED"})
    assert (stored.status_code, stored.headers["x-amz-checksum-crc32"]) == (200, CRC32)
    assert read.headers["x-amz-checksum-crc32"] == CRC32
    assert "x-amz-checksum-crc32" not in server("PUT", "/ray/b", b"hello").headers


@pytest.mark.parametrize("setting", ["acl", "policy", "tagging", "versioning", "website"])
@pytest.mark.parametrize("path", ["/ray", "/ray/a"])
def test_the_training_key_reads_no_settings(server: Server, path: str, setting: str) -> None:
    assert server("GET", f"{path}?{setting}", credentials=TRAINING).status_code == 403


@pytest.mark.parametrize(
    "path", ["/ray/a?torrent", "/ray/a?retention", "/ray/a?acl", "/ray?requestPayment", "/ray?policyStatus"]
)
def test_a_setting_that_there_is_not_is_no_object_and_no_listing(server: Server, path: str) -> None:
    assert server("GET", path).status_code == 501


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("<Quiet>true</Quiet><Object><Key>a</Key></Object>", 200, False),
        ("<Object><Key>a</Key></Object>", 200, True),
        ("", 400, False),
        ("<Object><Key>a</Key></Object>" * 1001, 400, False),
    ],
)
def test_a_deletion_of_many_says_what_it_is_asked_to(
    server: Server, body: str, status: int, says: bool
) -> None:
    answer = server("POST", "/ray?delete", f"<Delete>{body}</Delete>".encode())
    assert (answer.status_code, "<Deleted>" in answer.text) == (status, says)
    assert server.keys() == ([] if status == 200 else ["a"])


def test_parts_are_completed_in_their_order(server: Server) -> None:
    upload = server("POST", "/ray/b?uploads").text.split("<UploadId>")[1].split("<")[0]
    parts = [
        server("PUT", f"/ray/b?partNumber={number}&uploadId={upload}", b"x" * size).headers["ETag"]
        for number, size in ((1, 5 << 20), (2, 1))
    ]
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{parts[number - 1]}</ETag></Part>" for number in (2, 1)
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    answer = server("POST", f"/ray/b?uploadId={upload}", body)
    assert (answer.status_code, "InvalidPartOrder" in answer.text) == (400, True)


def pages(server: Server, query: str, token: str) -> list[list[str]]:
    """The names of each page; `token` is the element of the answer that leads to the next."""
    seen, more = list[list[str]](), ""
    while True:
        text = server("GET", f"/ray?delimiter=%2F&max-keys=2&{query}{more}").text
        names = [part.split("<")[0] for part in text.split("<Key>")[1:]]
        folders = [part.split("<Prefix>")[1].split("<")[0] for part in text.split("<CommonPrefixes>")[1:]]
        seen.append(sorted([*names, *folders]))
        if "<IsTruncated>true" not in text:
            return seen
        parameter = "marker" if token == "NextMarker" else "continuation-token"
        more = f"&{parameter}={text.split(f'<{token}>')[1].split('<')[0]}"


@pytest.mark.parametrize(
    ("query", "token"), [("list-type=2", "NextContinuationToken"), ("prefix=", "NextMarker")]
)
def test_folders_count_as_names_of_a_page_and_come_once(server: Server, query: str, token: str) -> None:
    for key in ("b/1", "b/2", "c", "d/1"):
        server("PUT", f"/ray/{key}")
    assert pages(server, query, token) == [["a", "b/"], ["c", "d/"]]


def test_a_listing_goes_on_after_a_restart(server: Server, tmp_path: Path) -> None:
    for key in ("b", "c"):
        server("PUT", f"/ray/{key}")
    text = server("GET", "/ray?list-type=2&max-keys=2").text
    token = text.split("<NextContinuationToken>")[1].split("<")[0]
    server.die()
    again = Server(tmp_path / "objects")
    answer = again("GET", f"/ray?list-type=2&continuation-token={token}")
    assert (answer.status_code, answer.text.count("<Key>"), "<Key>c</Key>" in answer.text) == (200, 1, True)
    again.die()


def test_a_listing_knows_one_encoding(server: Server) -> None:
    assert server("GET", "/ray?list-type=2&encoding-type=base64").status_code == 400


def test_a_signature_for_another_service_is_refused(server: Server) -> None:
    request = AWSRequest(method="GET", url=f"{HOST}/ray/a")
    key = signer(S3SigV4Auth, CREDENTIALS).credentials
    S3SigV4Auth(key, "sts", "us-east-1").add_auth(request)
    assert server.send("GET", "/ray/a", b"", dict(request.headers)).status_code == 400
