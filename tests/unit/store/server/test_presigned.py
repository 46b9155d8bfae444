"""Presigned URLs of AWS Signature Version 2 at the stand-in S3 server: botocore signs, it verifies."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import botocore.credentials
import botocore.session
import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth
from botocore.awsrequest import AWSRequest
from werkzeug.test import TestResponse

from lab.store.server.auth_v2 import verify
from lab.store.server.keys import Key, Keyring, RefusalError
from lab.store.server.minio_api import STATUS_PATH
from lab.topology import Credentials
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, Server

NOW = datetime.now(timezone.utc).replace(microsecond=0)
"""The server's clock, and that of `presigned`; botocore's signer of version 4 has none to set: see `now`."""


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold NOW near the real time: before these tests others may take longer than a signature is good for."""
    monkeypatch.setitem(globals(), "NOW", datetime.now(timezone.utc).replace(microsecond=0))


def presigned(
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    expires: int = 60,
    credentials: Credentials = CREDENTIALS,
) -> str:
    """Path and query of a URL that botocore signs."""
    request = AWSRequest(method=method, url=f"{HOST}{path}", headers=dict(headers or {}))
    key = botocore.credentials.Credentials(credentials.access_key, credentials.secret_key)
    signer = HmacV1QueryAuth(key, expires)
    signer._get_date = lambda: str(int(NOW.timestamp()) + expires)
    signer.add_auth(request)
    return str(request.url).removeprefix(HOST)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With the buckets `ray` and `other`, each of which holds an object `a`."""
    server = Server(tmp_path / "objects", NOW)
    for path in ("/ray", "/other", "/ray/a", "/other/a"):
        assert put(server, path, b"x" if path.endswith("a") else b"").status_code == 200
    yield server
    server.die()


def put(server: Server, path: str, body: bytes) -> TestResponse:
    return server.send("PUT", presigned("PUT", path), body, {})


def code(answer: TestResponse) -> str:
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


def test_the_example_of_the_document_is_verified() -> None:
    """AWS, Signing and authenticating REST requests: the key and the URL of its examples."""
    key = Key(Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
    parameters = {
        "AWSAccessKeyId": "AKIAIOSFODNN7EXAMPLE",
        "Signature": "NpgCjnDzrM+WFzoENXmpNDUsSn8=",
        "Expires": "1175139620",
    }
    environ = {"REQUEST_METHOD": "GET", "QUERY_STRING": urlencode(parameters)}
    asked = (environ, "/johnsmith/photos/puppy.jpg", list(parameters.items()), Keyring(key))
    last = datetime.fromtimestamp(1175139620, timezone.utc)
    assert verify(*asked, last) == key
    with pytest.raises(RefusalError, match="expired"):
        verify(*asked, last + timedelta(seconds=1))


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
    ],
)
def test_what_boto3_presigns_by_default_is_answered(
    server: Server, call: str, parameters: dict[str, Any], method: str, headers: dict[str, str]
) -> None:
    client: Any = botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=HOST,
        aws_access_key_id=CREDENTIALS.access_key,
        aws_secret_access_key=CREDENTIALS.secret_key,
    )
    url = client.generate_presigned_url(call, {"Bucket": "ray", **parameters}, HttpMethod=method)
    assert "AWSAccessKeyId=" in url
    answer = server.send(method, url.removeprefix(HOST), b"", headers)
    assert answer.status_code in (200, 204) or code(answer) == "NoSuchUpload"


def test_signed_headers_are_kept_and_unsigned_ones_refused(server: Server) -> None:
    digest = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    headers = {
        "Content-Type": "text/plain",
        "Content-MD5": digest,
        "x-amz-meta-made": " by a test ",
        "x-amz-meta-made-by": "test",
        "X-Amz-Meta-A": "ä",
    }
    path = presigned("PUT", "/ray/b", headers)
    headers["X-Amz-Meta-A"] = "ä".encode().decode("latin-1")  # as it comes over the wire
    assert server.send("PUT", path, b"x", headers).status_code == 200
    assert server("HEAD", "/ray/b").headers["x-amz-meta-made-by"] == "test"
    for name in headers:
        less = {key: value for key, value in headers.items() if key != name}
        assert code(server.send("PUT", path, b"x", less)) == "SignatureDoesNotMatch"
    for name in ("x-amz-copy-source", "x-amz-meta-b"):
        assert code(server.send("PUT", path, b"x", {**headers, name: "/ray/a"})) == "SignatureDoesNotMatch"
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
        ("GET", path.replace("/ray/a", "/ray/%61")),
        ("GET", path.replace("/ray/a", "/other/a")),
        ("GET", path.replace("plain", "html")),
        ("GET", path.replace("response-content-type=text/plain&", "")),
        ("GET", f"{path}&response-expires=0"),
        ("GET", f"{path}&response-content-type=text/plain"),
        ("GET", f"{path}&versionId=1"),
        ("GET", f"{path}&tagging="),
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


@pytest.mark.parametrize("signature", ["x", "%C3%A9", "%FF", "=", "A" * 28])
def test_a_signature_that_is_none_is_refused(server: Server, signature: str) -> None:
    path = f"/ray/a?AWSAccessKeyId=labkey&Signature={signature}&Expires={int(NOW.timestamp())}"
    answer = server.send("GET", path, b"", {})
    assert (answer.status_code, code(answer)) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize(("expires", "status"), [(-1, 403), (0, 200), (60, 200), (10**10, 200)])
def test_a_url_opens_until_its_expiry_however_far_ahead(server: Server, expires: int, status: int) -> None:
    answer = server.send("GET", presigned("GET", "/ray/a", expires=expires), b"", {})
    assert answer.status_code == status
    assert status == 200 or (code(answer), "expired" in answer.text) == ("AccessDenied", True)


def test_an_expiry_cannot_be_moved(server: Server) -> None:
    path = presigned("GET", "/ray/a", expires=-60)
    later = path.replace(f"Expires={int(NOW.timestamp()) - 60}", f"Expires={int(NOW.timestamp()) + 60}")
    assert code(server.send("GET", later, b"", {})) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("left_out", ["Signature", "Expires", "AWSAccessKeyId"])
@pytest.mark.parametrize("empty", [True, False])
def test_every_parameter_is_needed(server: Server, left_out: str, empty: bool) -> None:
    path, _, query = presigned("GET", "/ray/a").partition("?")
    kept = [part for part in query.split("&") if not part.startswith(left_out)]
    answer = server.send("GET", f"{path}?{'&'.join([*kept, f'{left_out}='] if empty else kept)}", b"", {})
    anonymous = left_out == "AWSAccessKeyId" and not empty
    expected = (403, "AccessDenied") if anonymous else (400, "AuthorizationQueryParametersError")
    assert (answer.status_code, code(answer)) == expected


@pytest.mark.parametrize("expires", ["soon", "1e9", "1_000", "%D9%A1", "9" * 5000, "1.5"])
def test_an_expiry_that_is_no_number_is_refused(server: Server, expires: str) -> None:
    answer = server.send("GET", f"/ray/a?AWSAccessKeyId=labkey&Signature=x&Expires={expires}", b"", {})
    assert (answer.status_code, code(answer)) == (400, "AuthorizationQueryParametersError")


def test_a_parameter_without_a_value_is_refused_as_minio_does(server: Server) -> None:
    answer = server.send("GET", presigned("GET", "/ray?location"), b"", {})
    assert (answer.status_code, code(answer)) == (400, "AuthorizationQueryParametersError")
    assert "location in a presigned URL has no value" in answer.text
    assert server.send("GET", presigned("GET", "/ray?list-type=2"), b"", {}).status_code == 200


def test_of_a_bucket_the_path_is_signed_as_it_is_asked_for(server: Server) -> None:
    """botocore signs `/ray/` and asks for `/ray`: MinIO refuses that too."""
    for path in ("/ray?list-type=2", "/ray/?list-type=2"):
        assert server.send("GET", presigned("GET", path), b"", {}).status_code == 200
    other = presigned("GET", "/ray/?list-type=2").replace("/ray/", "/ray")
    answer = server.send("GET", other, b"", {})
    assert (answer.status_code, "signature_version='s3v4'" in answer.text) == (403, True)


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


def test_no_presigned_url_switches_a_key(server: Server) -> None:
    path = presigned("PUT", f"{STATUS_PATH}?accessKey={TRAINING.access_key}&status=disabled")
    for headers in ({}, {"Authorization": ""}):
        answer = server.send("PUT", path, b"", headers)
        assert (answer.status_code, answer.json["Code"] if answer.json else "") == (403, "AccessDenied")
    assert server("GET", "/ray/a", credentials=TRAINING).status_code == 200


def test_what_would_be_forgotten_is_refused_here_too(server: Server) -> None:
    answer = server.send("PUT", presigned("PUT", "/ray/a?tagging=1"), b"<x/>", {})
    assert (answer.status_code, "does not keep: tagging" in answer.text) == (501, True)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_signature_of_version_2_in_a_header_is_told_what_to_set(server: Server, method: str) -> None:
    request = AWSRequest(method=method, url=f"{HOST}/ray/a")
    key = botocore.credentials.Credentials(CREDENTIALS.access_key, CREDENTIALS.secret_key)
    HmacV1Auth(key).add_auth(request)
    answer = server.send(method, "/ray/a", b"", dict(request.headers))
    assert (answer.status_code, code(answer)) == (400, "InvalidRequest")
    assert "Config(signature_version='s3v4')" in answer.text
