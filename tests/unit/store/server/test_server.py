"""The stand-in S3 server: what every client of S3 asks, kills, disks, signatures, refusals."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from lab.errors import LabError, RefusedError, UsageError
from lab.host.secrets import minio_metrics_token
from lab.store.server import __main__ as s3server
from lab.store.server import disk
from lab.store.server.auth import Signature, open_body
from lab.store.server.keys import Key, RefusalError
from lab.store.server.metrics import METRICS_PATH
from lab.topology import Credentials
from tests.s3_basics import BASICS, Bench
from tests.s3_client import SigningClient
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, Server, WsgiPool, signer

KEYS = (
    "plain",
    "exp/",
    "exp",
    "exp/a%20b%2Bc%25d/%C3%A9.txt",
    "dots/../up",
    "double//slash",
    "/leading",
    "%C3%BC%0A",
    "line%0Afeeds%0A/%0A",
    "%09tab",
    "x%3D1%26y%3F",
    "long/" + "k" * 900,
)


@pytest.fixture
def server(server: Server) -> Server:
    assert server("PUT", "/ray").status_code == 200
    return server


def restart(server: Server, root: Path) -> Server:
    server.die()
    return Server(root)


def upload(server: Server, key: str, parts: Iterable[bytes]) -> Any:
    start = server("POST", f"/ray/{key}?uploads").text
    upload_id = start.split("<UploadId>")[1].split("<")[0]
    listed = ""
    for number, part in enumerate(parts, 1):
        answer = server("PUT", f"/ray/{key}?partNumber={number}&uploadId={upload_id}", part)
        assert answer.status_code == 200
        etag = answer.headers["ETag"]
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return lambda: server("POST", f"/ray/{key}?uploadId={upload_id}", body)


def full_disk(monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(code, "as the test wants it")

    monkeypatch.setattr(Path, "replace", refuse)


@pytest.mark.parametrize("ask", BASICS)
def test_the_stand_in_does_what_clients_of_s3_ask_of_it(server: Server, ask: Callable[[Bench], None]) -> None:
    ask(Bench(SigningClient(HOST, TRAINING, pool=WsgiPool(server)), "basics"))


@pytest.mark.parametrize("key", KEYS)
def test_object_survives_a_kill_under_any_key(server: Server, root: Path, key: str) -> None:
    assert server("PUT", f"/ray/{key}", key.encode()).status_code == 200
    server = restart(server, root)
    answer = server("GET", f"/ray/{key}")
    assert (answer.status_code, answer.data) == (200, key.encode())
    assert server.keys() == [unquote(key)]
    server.die()


def test_keys_do_not_leave_the_folder(server: Server, root: Path) -> None:
    server("PUT", "/ray/../../../escaped", b"x")
    assert [p.name for p in root.parent.iterdir()] == ["objects"]
    assert server.keys() == ["../../../escaped"]


def test_what_is_known_of_an_object_survives_too(server: Server, root: Path) -> None:
    headers = {"Content-Type": "text/plain", "x-amz-meta-made-by": "test"}
    before = server("PUT", "/ray/a", b"data", headers)
    first = server("HEAD", "/ray/a").headers
    server = restart(server, root)
    after = server("HEAD", "/ray/a").headers
    assert after["ETag"] == before.headers["ETag"] == f'"{hashlib.md5(b"data").hexdigest()}"'
    assert (after["Content-Type"], after["x-amz-meta-made-by"]) == ("text/plain", "test")
    assert after["Last-Modified"] == first["Last-Modified"]
    assert after["Content-Length"] == "4"
    server.die()


def test_deleted_objects_and_buckets_stay_deleted(server: Server, root: Path) -> None:
    for key in ("a", "b", "c"):
        server("PUT", f"/ray/{key}", b"x")
    server("PUT", "/other")
    assert server("DELETE", "/ray/a").status_code == 204
    body = b"<Delete><Object><Key>b</Key></Object><Object><Key>never</Key></Object></Delete>"
    assert server("POST", "/ray?delete", body).status_code == 200
    assert server("DELETE", "/other").status_code == 204
    server = restart(server, root)
    assert server.keys() == ["c"]
    assert server("HEAD", "/other").status_code == 404
    server.die()


def test_a_bucket_with_objects_cannot_be_deleted(server: Server) -> None:
    server("PUT", "/ray/a", b"x")
    assert server("DELETE", "/ray").status_code == 409
    assert server("GET", "/ray/a").data == b"x"


def test_copies_survive(server: Server, root: Path) -> None:
    server("PUT", "/ray/a", b"data")
    assert server("PUT", "/ray/b", headers={"x-amz-copy-source": "/ray/a"}).status_code == 200
    server = restart(server, root)
    assert server("GET", "/ray/b").data == b"data"
    server.die()


def test_an_upload_in_parts_becomes_one_object(server: Server, root: Path) -> None:
    parts = [b"a" * (5 << 20), b"b" * 7]
    complete = upload(server, "big", parts)
    assert server.keys() == []
    first, again = complete(), complete()
    assert (first.status_code, again.status_code) == (200, 200), "completing twice is no error"
    digest = hashlib.md5(b"".join(hashlib.md5(p).digest() for p in parts)).hexdigest()
    server = restart(server, root)
    answer = server("GET", "/ray/big")
    assert answer.data == b"".join(parts)
    assert answer.headers["ETag"] == f'"{digest}-2"'
    server.die()


def test_an_upload_with_a_part_that_never_came_is_refused(server: Server) -> None:
    start = server("POST", "/ray/big?uploads").text
    upload_id = start.split("<UploadId>")[1].split("<")[0]
    body = b"<C><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></C>"
    answer = server("POST", f"/ray/big?uploadId={upload_id}", body)
    assert (answer.status_code, "InvalidPart" in answer.text) == (400, True)
    assert server.keys() == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_an_upload_that_is_none_is_told(server: Server, method: str) -> None:
    start = server("POST", "/ray/big?uploads").text
    upload_id = start.split("<UploadId>")[1].split("<")[0]
    assert server("DELETE", f"/ray/big?uploadId={upload_id}").status_code == 204
    for other in (upload_id, "never", ""):
        answer = server(method, f"/ray/big?partNumber=1&uploadId={other}", b"x" if method == "PUT" else b"")
        assert (answer.status_code, "<Code>NoSuchUpload</Code>" in answer.text) == (404, True)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_an_upload_is_of_its_own_key(server: Server, root: Path, method: str) -> None:
    """Completed under another key it was stored under its own, in memory alone."""
    complete = upload(server, "big", [b"a" * (5 << 20), b"b"])
    upload_id = server("GET", "/ray?uploads").text.split("<UploadId>")[1].split("<")[0]
    answer = server(method, f"/ray/other?partNumber=1&uploadId={upload_id}", b"x" if method == "PUT" else b"")
    assert (answer.status_code, "<Code>NoSuchUpload</Code>" in answer.text) == (404, True)
    assert server.keys() == []
    assert complete().status_code == 200
    server = restart(server, root)
    assert len(server("GET", "/ray/big").data) == (5 << 20) + 1
    server.die()


@pytest.mark.parametrize("key", ["a%00b", "%01", "a%0Db", "%EF%BF%BE", "%1F"])
def test_a_key_that_would_spoil_every_listing_is_refused(server: Server, key: str) -> None:
    server("PUT", "/ray/a", b"x")
    for headers in ({}, {"x-amz-copy-source": "/ray/a"}):
        answer = server("PUT", f"/ray/{key}", headers=headers)
        assert (answer.status_code, "<Code>InvalidArgument</Code>" in answer.text) == (400, True)
    assert server("POST", f"/ray/{key}?uploads").status_code == 400
    assert server("DELETE", f"/ray/{key}").status_code == 204, "one of an earlier version can be removed"
    assert server.keys() == ["a"]


@pytest.mark.parametrize(
    "query",
    [
        *("max-keys=abc", "max-keys=-1", "max-keys=", "uploads&max-uploads=1e9", "max-keys=1&max-keys=2"),
        "partNumber=0&uploadId=a",
    ],
)
def test_a_parameter_that_makes_no_sense_is_the_clients_error(server: Server, query: str) -> None:
    answer = server("GET", f"/ray?{query}")
    assert (answer.status_code, "<Code>InvalidArgument</Code>" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("wanted", "status", "data", "content_range"),
    [
        ("bytes=2-4", 206, b"cde", "bytes 2-4/10"),
        ("bytes=8-99", 206, b"ij", "bytes 8-9/10"),
        ("bytes=-3", 206, b"hij", "bytes 7-9/10"),
        ("bytes=0-9", 206, b"abcdefghij", "bytes 0-9/10"),
        ("bytes=0-1,4-5", 200, b"abcdefghij", None),
        ("bytes=nonsense", 200, b"abcdefghij", None),
    ],
)
def test_ranges_are_read_from_the_file(
    server: Server, wanted: str, status: int, data: bytes, content_range: str | None
) -> None:
    server("PUT", "/ray/a", b"abcdefghij")
    answer = server("GET", "/ray/a", headers={"Range": wanted})
    assert (answer.status_code, answer.data) == (status, data)
    assert answer.headers.get("Content-Range") == content_range
    assert answer.headers["Content-Length"] == str(len(data))


def test_a_missing_bucket_has_a_code_of_its_own(server: Server) -> None:
    assert "NoSuchBucket" in server("GET", "/nowhere/a").text


def test_a_body_that_is_no_xml_is_the_clients_error(server: Server) -> None:
    for method, path in (("PUT", "/bucket2"), ("POST", "/ray?delete")):
        answer = server(method, path, b"<Not closed")
        assert (answer.status_code, "MalformedXML" in answer.text) == (400, True)


def test_a_full_disk_refuses_and_keeps_what_was_there(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server("PUT", "/ray/old", b"old")
    with monkeypatch.context() as patch:
        full_disk(patch)
        for path in ("/ray/old", "/ray/new", "/bucket2"):
            answer = server("PUT", path, b"new" if path.startswith("/ray") else b"")
            assert answer.status_code == 507
            assert "<Code>StorageFull</Code>" in answer.text
            assert "the disk is full" in answer.text
    assert server.log[-1] == "PUT /bucket2: 507 StorageFull: the disk is full: as the test wants it"
    assert len(server.log) == 3, "one line per error"
    for run in (server, restart(server, root)):
        assert run.keys() == ["old"]
        assert run("GET", "/ray/old").data == b"old"
        assert run("HEAD", "/bucket2").status_code == 404
    assert list((root / "tmp").iterdir()) == []


def test_an_unwritable_disk_says_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk(monkeypatch, errno.EROFS)
    answer = server("PUT", "/ray/a", b"x")
    assert (answer.status_code, "cannot be written" in answer.text) == (507, True)


def test_an_upload_that_found_the_disk_full_can_be_completed_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = upload(server, "big", [b"a" * (5 << 20), b"b"])
    with monkeypatch.context() as patch:
        full_disk(patch)
        assert complete().status_code == 507
    assert server.keys() == []
    assert complete().status_code == 200
    assert len(server("GET", "/ray/big").data) == (5 << 20) + 1


def test_a_delete_that_the_disk_refuses_is_undone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server("PUT", "/ray/a", b"x")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EACCES, "no")

    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert server("DELETE", "/ray/a").status_code == 507
        assert server("POST", "/ray?delete", body).status_code == 507
    assert server("GET", "/ray/a").data == b"x"


def test_an_object_with_a_header_of_another_version_is_left_out_and_kept(server: Server, root: Path) -> None:
    server("PUT", "/ray/good", b"good")
    server("PUT", "/ray/newer", b"of a newer version")
    for path in (root / "buckets" / "ray").glob("*.object"):
        header, _, body = path.read_bytes().partition(b"\n")
        if b'"newer"' in header:
            path.write_bytes(json.dumps({**json.loads(header), "colour": "red"}).encode() + b"\n" + body)
    server = restart(server, root)
    assert server.keys() == ["good"]
    assert "its header cannot be read" in server.log[0]
    assert len(list((root / "buckets" / "ray").glob("*.object"))) == 2
    server.die()


def test_half_written_files_are_removed_at_the_start(server: Server, root: Path) -> None:
    server("PUT", "/ray/good", b"good")
    server("PUT", "/ray/cut", b"cut short")
    for path in (root / "buckets" / "ray").glob("*.object"):
        if b'"cut"' in path.read_bytes():
            path.write_bytes(path.read_bytes()[:-3])
    (root / "buckets" / "ray" / "empty.object").write_bytes(b"")
    (root / "tmp" / "7.part").write_bytes(b"unfinished")
    server = restart(server, root)
    assert server.keys() == ["good"]
    assert len(server.log) == 2
    assert "half-written" in server.log[0]
    assert len(list((root / "buckets" / "ray").glob("*.object"))) == 1
    assert list((root / "tmp").iterdir()) == []
    server.die()


def test_a_bucket_that_was_half_made_is_none(server: Server, root: Path) -> None:
    (root / "buckets" / "half").mkdir()
    server = restart(server, root)
    assert server("HEAD", "/half").status_code == 404
    assert server("PUT", "/half").status_code == 200
    server.die()


def test_two_servers_cannot_share_a_folder(server: Server, root: Path) -> None:
    with pytest.raises(RefusedError, match="another server"):
        Server(root)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RefusedError, match="neither empty"):
        Server(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_store_of_another_layout_is_refused(server: Server, root: Path) -> None:
    server.die()
    (root / "store.json").write_text(json.dumps({"layout": disk.LAYOUT + 1}))
    with pytest.raises(RefusedError, match="layout 2"):
        Server(root)


@pytest.mark.parametrize(
    ("credentials", "code"),
    [
        (Credentials("labkey", "wrong"), "SignatureDoesNotMatch"),
        (Credentials("nobody", "labsecret"), "InvalidAccessKeyId"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_a_wrong_key_is_refused(server: Server, method: str, credentials: Credentials, code: str) -> None:
    server("PUT", "/ray/a", b"x")
    answer = server(method, "/ray/a", b"stolen", credentials=credentials)
    assert (answer.status_code, f"<Code>{code}</Code>" in answer.text) == (403, True)
    assert server("GET", "/ray/a").data == b"x"


@pytest.mark.parametrize("path", ["/", "/ray", "/ray/a", "/moto-api/data.json", "/raylab/health/x"])
@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
def test_unsigned_requests_are_denied(server: Server, method: str, path: str) -> None:
    answer = server.send(method, path, b"", {})
    assert (answer.status_code, "AccessDenied" in answer.text) == (403, True)


def test_it_does_not_say_that_it_is_amazon(server: Server) -> None:
    for path in ("/ray", "/raylab/health", "/never/a"):
        assert server("GET", path).headers["Server"].startswith("raylab-standin (moto ")


def test_only_the_health_path_is_open(server: Server) -> None:
    answer = server.send("GET", "/raylab/health", b"", {})
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["server"] == "moto"
    assert answer.json["version"]


def test_prometheus_learns_what_the_store_holds_with_the_token_of_the_root_key(server: Server) -> None:
    server("PUT", "/ray")
    server("PUT", "/ray/a", b"12345")
    server("PUT", "/ray/b", b"123")
    token = minio_metrics_token(CREDENTIALS)

    answer = server.send("GET", METRICS_PATH, b"", {"Authorization": f"Bearer {token}"})

    figures = dict(line.split(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    assert answer.status_code == 200
    assert figures["minio_cluster_usage_total_bytes"] == "8"
    assert figures["minio_cluster_usage_object_total"] == "2"
    assert int(figures["minio_cluster_capacity_usable_free_bytes"]) > 0


@pytest.mark.parametrize(
    "authorization", ["", "Bearer ", "Bearer x", f"Bearer {minio_metrics_token(TRAINING)}", "Bearer \u00e9"]
)
def test_the_metrics_are_refused_without_that_token(server: Server, authorization: str) -> None:
    answer = server.send("GET", METRICS_PATH, b"", {"Authorization": authorization})
    assert (answer.status_code, "AccessDenied" in answer.text) == (403, True)


def test_a_body_that_was_not_signed_is_refused(server: Server) -> None:
    request = AWSRequest(method="PUT", url=f"{HOST}/ray/a", data=b"signed")
    signer(S3SigV4Auth).add_auth(request)
    answer = server.send("PUT", "/ray/a", b"another", dict(request.headers))
    assert (answer.status_code, "XAmzContentSHA256Mismatch" in answer.text) == (400, True)
    assert server.keys() == []


def test_a_signature_is_good_for_its_own_request_only(server: Server) -> None:
    server("PUT", "/ray/a", b"x")
    request = AWSRequest(method="GET", url=f"{HOST}/ray/b")
    signer(S3SigV4Auth).add_auth(request)
    for method, path in (("GET", "/ray/a"), ("DELETE", "/ray/b"), ("GET", "/ray/b?acl")):
        answer = server.send(method, path, b"", dict(request.headers))
        assert "SignatureDoesNotMatch" in answer.text


def test_an_old_signature_is_refused(root: Path) -> None:
    server = Server(root, now=datetime.now(timezone.utc) + timedelta(minutes=16))
    answer = server("PUT", "/ray")
    assert (answer.status_code, "RequestTimeTooSkewed" in answer.text) == (403, True)
    server.die()


@pytest.mark.parametrize(("expires", "status"), [(60, 200), (0, 403), (8 * 24 * 3600, 403)])
def test_presigned_urls_open_one_object_for_their_time(server: Server, expires: int, status: int) -> None:
    server("PUT", "/ray/a%20b", b"x")
    request = AWSRequest(method="GET", url=f"{HOST}/ray/a%20b")
    signer(S3SigV4QueryAuth, expires=expires).add_auth(request)
    query = request.url.split("?")[1]
    assert server.send("GET", f"/ray/a%20b?{query}", b"", {}).status_code == status
    assert server.send("GET", f"/ray/other?{query}", b"", {}).status_code == 403


def test_an_expired_presigned_url_is_refused(root: Path) -> None:
    request = AWSRequest(method="GET", url=f"{HOST}/ray/a")
    signer(S3SigV4QueryAuth, expires=60).add_auth(request)
    server = Server(root, now=datetime.now(timezone.utc) + timedelta(seconds=90))
    answer = server.send("GET", f"/ray/a?{request.url.split('?')[1]}", b"", {})
    assert (answer.status_code, "expired" in answer.text) == (403, True)
    server.die()


UNSIGNED = {"x-amz-copy-source": "/ray/private", "x-amz-meta-by": "another", "X-Amz-Storage-Class": "GLACIER"}


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("kind", [S3SigV4Auth, S3SigV4QueryAuth])
def test_a_header_that_the_signature_leaves_out_is_refused(server: Server, kind: Any, name: str) -> None:
    server("PUT", "/ray/private", b"private")
    request = AWSRequest(method="PUT", url=f"{HOST}/ray/public", data=b"")
    signer(kind).add_auth(request)
    path = request.url.removeprefix(HOST)
    answer = server.send("PUT", path, b"", {**request.headers, name: UNSIGNED[name]})
    assert (answer.status_code, f"leaves out: {name.lower()}" in answer.text) == (403, True)
    assert server.keys() == ["private"]
    assert server.send("PUT", path, b"", dict(request.headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", "/ray?versioning", {}),
        ("PUT", "/ray?policy", {}),
        ("PUT", "/ray/a?tagging", {}),
        ("PUT", "/ray/a", {"x-amz-tagging": "a=b"}),
        ("POST", "/ray", {}),
    ],
)
def test_what_would_be_forgotten_is_refused(
    server: Server, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = server(method, path, b"<x/>", headers)
    assert (answer.status_code, "<Code>NotImplemented</Code>" in answer.text) == (501, True)


def test_a_checksum_that_does_not_fit_is_refused(server: Server) -> None:
    answer = server("PUT", "/ray/a", b"abc", {"x-amz-checksum-crc32": "AAAAAA=="})
    assert (answer.status_code, "BadDigest" in answer.text) == (400, True)
    assert server("PUT", "/ray/a", b"abc", {"x-amz-checksum-crc32": "NSRBwg=="}).status_code == 200


def signature(payload: str) -> Signature:
    def sign(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    return Signature(
        Key(CREDENTIALS), payload, "seed", "20261120T000000Z", "20261120/us-east-1/s3/aws4_request", sign
    )


def chunk_signature(previous: str, data: bytes) -> str:
    hashes = [hashlib.sha256(b"").hexdigest(), hashlib.sha256(data).hexdigest()]
    lines = ["AWS4-HMAC-SHA256-PAYLOAD", "20261120T000000Z", "20261120/us-east-1/s3/aws4_request", previous]
    return hashlib.sha256("\n".join([*lines, *hashes]).encode()).hexdigest()


def test_signed_chunks_are_joined_and_verified() -> None:
    first = chunk_signature("seed", b"hello ")
    second = chunk_signature(first, b"world")
    last = chunk_signature(second, b"")
    body = (
        f"6;chunk-signature={first}\r\nhello \r\n5;chunk-signature={second}\r\nworld\r\n"
        f"0;chunk-signature={last}\r\n\r\n"
    ).encode()
    environ: dict[str, Any] = {"REQUEST_METHOD": "PUT", "HTTP_CONTENT_ENCODING": "aws-chunked,gzip"}
    signed = signature("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    assert open_body(signed, environ, body) == b"hello world"
    assert environ["HTTP_CONTENT_ENCODING"] == "gzip"
    with pytest.raises(RefusalError, match="not the one"):
        open_body(signed, {"REQUEST_METHOD": "PUT"}, body.replace(b"world", b"w0rld"))


def test_trailing_checksums_are_verified() -> None:
    signed = signature("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    body = b"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n"
    environ: dict[str, Any] = {"REQUEST_METHOD": "PUT", "HTTP_X_AMZ_DECODED_CONTENT_LENGTH": "3"}
    assert open_body(signed, environ, body) == b"abc"
    assert environ["HTTP_X_AMZ_CHECKSUM_CRC32"] == "NSRBwg=="
    with pytest.raises(RefusalError, match="x-amz-checksum-crc32"):
        open_body(signed, {"REQUEST_METHOD": "PUT"}, body.replace(b"abc", b"abd"))


@pytest.mark.parametrize("body", [b"", b"3\r\nab", b"zz\r\n", b"3\r\nabc\r\n"])
def test_a_chunked_body_that_ends_early_is_refused(body: bytes) -> None:
    with pytest.raises(RefusalError, match="ends early"):
        open_body(signature("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), {"REQUEST_METHOD": "PUT"}, body)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org", ""])
def test_only_loopback_is_served(host: str) -> None:
    with pytest.raises(UsageError, match="not a loopback address"):
        s3server.check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_addresses_are_served(host: str) -> None:
    s3server.check_loopback(host)


def test_a_start_that_fails_returns_the_code_of_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        word
        for name in ("credentials", "root-user-file", "root-password-file")
        for word in (f"--{name}", str(tmp_path / "none"))
    ]
    arguments = ["--port", "9000", "--root", str(tmp_path), *files]
    assert s3server.main(arguments) == UsageError.exit_code
    assert s3server.main(["--host", "0.0.0.0", *arguments]) == UsageError.exit_code
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert issubclass(UsageError, LabError)
