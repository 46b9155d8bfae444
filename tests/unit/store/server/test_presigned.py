"""Presigned URLs at the stand-in S3 server: botocore signs, it verifies."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import botocore.session
import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from werkzeug.test import TestResponse

from lab.store.server.app import STATUS_PATH
from lab.topology import Credentials
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, Server, signer


def presigned(
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    credentials: Credentials = CREDENTIALS,
) -> str:
    """Path and query of a URL that botocore signs."""
    request = AWSRequest(method=method, url=f"{HOST}{path}", headers=dict(headers or {}))
    signer(S3SigV4QueryAuth, credentials, expires=60).add_auth(request)
    return str(request.url).removeprefix(HOST)


@pytest.fixture
def server(server: Server) -> Server:
    """With the buckets `ray` and `other`, each of which holds an object `a`."""
    for path in ("/ray", "/other", "/ray/a", "/other/a"):
        assert put(server, path, b"x" if path.endswith("a") else b"").status_code == 200
    return server


def put(server: Server, path: str, body: bytes) -> TestResponse:
    return server.send("PUT", presigned("PUT", path), body, {})


def code(answer: TestResponse) -> str:
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


@pytest.mark.parametrize(
    "path",
    ["/ray/plain", "/ray/exp/%C3%A4%20%E2%98%83%2B%25.txt", "/ray/~a/../b//c", "/ray/dir/", "/ray/x%3D1%26y"],
)
def test_an_object_is_put_read_and_deleted(server: Server, path: str) -> None:
    assert put(server, path, b"data").status_code == 200
    assert server("GET", path).data == b"data"
    read = server.send("GET", presigned("GET", path), b"", {"Range": "bytes=1-2"})
    assert (read.status_code, read.data) == (206, b"at")
    assert server.send("HEAD", presigned("HEAD", path), b"", {}).headers["Content-Length"] == "4"
    assert server.send("DELETE", presigned("DELETE", path), b"", {}).status_code == 204
    assert server("HEAD", path).status_code == 404


@pytest.mark.parametrize(
    ("call", "parameters", "method", "headers"),
    [
        ("put_object", {"Key": "ü b/+~.txt"}, "PUT", {}),
        ("put_object", {"Key": "a", "ContentType": "text/plain"}, "PUT", {"Content-Type": "text/plain"}),
        ("get_object", {"Key": "a", "ResponseContentType": "text/x-é; a=b"}, "GET", {}),
        ("head_object", {"Key": "a"}, "HEAD", {}),
        ("delete_object", {"Key": "a"}, "DELETE", {}),
        ("upload_part", {"Key": "a", "UploadId": "none/+=", "PartNumber": 2}, "PUT", {}),
        ("list_objects_v2", {}, "GET", {}),
    ],
)
def test_what_boto3_presigns_is_answered(
    server: Server, call: str, parameters: dict[str, Any], method: str, headers: dict[str, str]
) -> None:
    client: Any = botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=HOST,
        aws_access_key_id=CREDENTIALS.access_key,
        aws_secret_access_key=CREDENTIALS.secret_key,
        config=Config(signature_version="s3v4"),
    )
    url = client.generate_presigned_url(call, {"Bucket": "ray", **parameters}, HttpMethod=method)
    answer = server.send(method, url.removeprefix(HOST), b"", headers)
    assert answer.status_code in (200, 204) or code(answer) == "NoSuchUpload"


def test_signed_headers_are_kept_and_unsigned_ones_refused(server: Server) -> None:
    digest = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    headers = {
        "Content-Type": "text/plain",
        "Content-MD5": digest,
        "x-amz-meta-made": "by a test",
        "x-amz-meta-made-by": "test",
    }
    path = presigned("PUT", "/ray/b", headers)
    assert server.send("PUT", path, b"x", headers).status_code == 200
    assert server("HEAD", "/ray/b").headers["x-amz-meta-made-by"] == "test"
    for name in headers:
        less = {key: value for key, value in headers.items() if key != name}
        assert code(server.send("PUT", path, b"x", less)) == "SignatureDoesNotMatch"
    for name in ("x-amz-copy-source", "x-amz-meta-b"):
        assert code(server.send("PUT", path, b"x", {**headers, name: "/ray/a"})) == "AccessDenied"
    assert code(server.send("PUT", path, b"another", headers)) == "BadDigest"


def test_an_upload_in_parts_is_signed_with_its_number_and_id(server: Server) -> None:
    start = server("POST", "/ray/big?uploads").text
    upload = start.split("<UploadId>")[1].split("<")[0]
    path = presigned("PUT", f"/ray/big?uploadId={upload}&partNumber=1")
    assert code(server.send("PUT", path.replace("partNumber=1", "partNumber=2"), b"x", {})) == (
        "SignatureDoesNotMatch"
    )
    etag = server.send("PUT", path, b"x", {}).headers["ETag"]
    body = f"<C><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></C>".encode()
    done = server.send("POST", presigned("POST", f"/ray/big?uploadId={upload}"), body, {})
    assert (done.status_code, server("GET", "/ray/big").data) == (200, b"x")


def test_a_url_is_good_for_its_own_request_only(server: Server) -> None:
    path = presigned("GET", "/ray/a?response-content-type=text/plain")
    assert server.send("GET", path, b"", {}).status_code == 200
    for method, other in (
        ("HEAD", path),
        ("PUT", path),
        ("DELETE", path),
        ("GET", path.replace("/ray/a", "/ray/b")),
        ("GET", path.replace("/ray/a", "/other/a")),
        ("GET", path.replace("plain", "html")),
        ("GET", f"{path}&response-expires=0"),
        ("GET", f"{path}&response-content-type=text/plain"),
        ("GET", f"{path}&versionId=1"),
        ("GET", f"{path}&tagging="),
        ("GET", path.replace("X-Amz-Expires=60", "X-Amz-Expires=600")),
        ("GET", path[:-1] + ("0" if path.endswith("1") else "1")),
    ):
        answer = server.send(method, other, b"", {})
        assert answer.status_code == 403
        assert method == "HEAD" or code(answer) == "SignatureDoesNotMatch"
    assert server("GET", "/ray/a").data == b"x"


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (Credentials("labkey", "wrong"), "SignatureDoesNotMatch"),
        (Credentials("nobody", "labsecret"), "InvalidAccessKeyId"),
        (Credentials("schlüssel", "geheim"), "InvalidAccessKeyId"),
    ],
)
def test_a_wrong_key_is_refused(server: Server, credentials: Credentials, expected: str) -> None:
    answer = server.send("GET", presigned("GET", "/ray/a", credentials=credentials), b"", {})
    assert (answer.status_code, code(answer)) == (403, expected)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ray/a", 200),
        ("PUT", "/ray/b", 200),
        ("DELETE", "/ray/a", 204),
        ("GET", "/other/a", 403),
        ("HEAD", "/other/a", 403),
        ("PUT", "/other/b", 403),
        ("DELETE", "/other/a", 403),
        ("PUT", "/never", 403),
        ("DELETE", "/ray", 403),
    ],
)
def test_the_training_key_may_do_what_it_may_do_otherwise(
    server: Server, method: str, path: str, status: int
) -> None:
    answer = server.send(method, presigned(method, path, credentials=TRAINING), b"", {})
    assert answer.status_code == status
    assert server("GET", "/other/a").data == b"x"


def test_a_key_that_is_disabled_signs_nothing(server: Server) -> None:
    path = presigned("GET", "/ray/a", credentials=TRAINING)
    assert server("PUT", f"{STATUS_PATH}?accessKey={TRAINING.access_key}&status=disabled").status_code == 200
    assert code(server.send("GET", path, b"", {})) == "InvalidAccessKeyId"


def test_a_presigned_url_of_the_training_key_switches_no_key(server: Server) -> None:
    to = f"{STATUS_PATH}?accessKey={TRAINING.access_key}&status=disabled"
    for headers in ({}, {"Authorization": ""}):
        answer = server.send("PUT", presigned("PUT", to, credentials=TRAINING), b"", headers)
        assert (answer.status_code, code(answer)) == (403, "AccessDenied")
    assert server("GET", "/ray/a", credentials=TRAINING).status_code == 200


def test_what_would_be_forgotten_is_refused_here_too(server: Server) -> None:
    answer = server.send("PUT", presigned("PUT", "/ray/a?tagging=1"), b"<x/>", {})
    assert (answer.status_code, "does not keep: tagging" in answer.text) == (501, True)


@pytest.mark.parametrize("kind", [HmacV1Auth, HmacV1QueryAuth])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_signature_of_version_2_is_told_what_to_set(server: Server, method: str, kind: Any) -> None:
    request = AWSRequest(method=method, url=f"{HOST}/ray/a")
    kind(botocore.credentials.Credentials(*vars(CREDENTIALS).values())).add_auth(request)
    answer = server.send(method, request.url.removeprefix(HOST), b"y", dict(request.headers))
    assert answer.status_code in (400, 403)
    assert "Config(signature_version='s3v4')" in answer.text
    assert server("GET", "/ray/a").data == b"x"
