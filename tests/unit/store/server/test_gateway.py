"""The gateway to an object store that is already there: over the stand-in, which plays that other store."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from lab.errors import StoreError
from lab.host.secrets import minio_metrics_token
from lab.store import ObjectStore, setup
from lab.store.admin import MinioAdministration
from lab.store.base import AccessDeniedError, UnreachableStoreError
from lab.store.requests import SigningClient
from lab.store.server.asked import HEALTH_PATH
from lab.store.server.gateway import Gateway
from lab.store.server.keys import Key, Keyring
from lab.store.server.minio_api import METRICS_PATH
from lab.store.upstream import Upstream
from lab.topology import BUCKET, Credentials
from tests.s3_basics import BASICS, Bench
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, AnswerPool, Server, WsgiPool, signer

THEIRS = "course-7"
"""The lab's bucket in the other store."""

OURS = Credentials("lab-root", "lab-root-secret")


class Front(Server):
    """A gateway in the place of a server; `there` is the other store."""

    def __init__(
        self,
        there: Server,
        key: Credentials = CREDENTIALS,
        pool: Any = None,
        url: str = "http://there.example:8333",
    ) -> None:
        self.there, self.log = there, list[str]()
        upstream = Upstream(url, THEIRS, key)
        keys = Keyring(Key(OURS), Key(TRAINING, BUCKET))
        self.app: Any = Gateway(upstream, keys, self.log.append, pool=pool or TherePool(there))

    @property
    def store(self) -> ObjectStore:
        """The lab's bucket, as jobs see it."""
        return ObjectStore(HOST, TRAINING, http=WsgiPool(self))

    def client(self, key: Credentials = TRAINING) -> SigningClient:
        """Requests by a key."""
        return SigningClient(HOST, key, pool=WsgiPool(self))

    def health(self) -> tuple[int, Mapping[str, str]]:
        """Its page of health."""
        answer = self.send("GET", HEALTH_PATH, b"", {})
        return answer.status_code, json.loads(answer.data)


class TherePool(WsgiPool):
    """A pool whose server is known by the name under which it was asked; `asked` has each address."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.asked: list[str] = []

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        self.asked.append(url)
        headers = {**kw.pop("headers"), "Host": urlsplit(url).netloc}
        return super().urlopen(method, url, *args, headers=headers, **kw)


GONE = urllib3.exceptions.ProtocolError("gone")


@pytest.fixture
def front(server: Server) -> Front:
    assert server("PUT", f"/{THEIRS}").status_code == 200
    assert server("PUT", "/private").status_code == 200
    assert server("PUT", "/private/diary", b"dear diary").status_code == 200
    return Front(server)


@pytest.mark.parametrize("ask", BASICS)
def test_the_gateway_does_all_that_clients_ask_of_a_store(front: Front, ask: Callable[[Bench], None]) -> None:
    ask(Bench(front.client(), "basics"))


def test_objects_are_in_the_bucket_there_under_their_names(front: Front) -> None:
    front.store.put("exp/é +%.txt", b"data")
    assert front.there.keys(THEIRS) == ["exp/é +%.txt"]
    assert front.store.get("exp/é +%.txt") == b"data"
    listing = front("GET", f"/{BUCKET}?list-type=2", credentials=TRAINING).text
    assert (f"<Name>{BUCKET}</Name>" in listing, THEIRS in listing) == (True, False)


def test_an_object_whose_text_names_the_bucket_comes_back_as_it_is(front: Front) -> None:
    text = f"<Name>{THEIRS}</Name>".encode()
    front.store.put("a", text)
    assert front.store.get("a") == text


def test_metadata_outlive_the_way(front: Front) -> None:
    headers = {"x-amz-meta-a": "grün", "Cache-Control": "no-cache", "Content-Type": "text/plain"}
    assert front("PUT", f"/{BUCKET}/a", b"1", headers, TRAINING).status_code == 200
    given = front("HEAD", f"/{BUCKET}/a", credentials=TRAINING).headers
    assert (given["Cache-Control"], given["Content-Type"], given["Content-Length"]) == (
        "no-cache", "text/plain", "1",
    )  # fmt: skip
    assert given["x-amz-meta-a"].encode("latin-1").decode() == "grün"


@pytest.mark.parametrize("key", [TRAINING, OURS])
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/private/diary", {}),
        ("PUT", "/private/diary", {}),
        ("GET", "/private?list-type=2", {}),
        ("PUT", "/another", {}),
        ("DELETE", f"/{BUCKET}", {}),
        ("GET", f"/{BUCKET}?policy", {}),
        ("GET", f"/{THEIRS}?list-type=2", {}),
        ("PUT", f"/{BUCKET}/copied", {"x-amz-copy-source": "/private/diary"}),
    ],
)
def test_nothing_but_the_labs_bucket_is_reached(
    front: Front, key: Credentials, method: str, path: str, headers: Mapping[str, str]
) -> None:
    assert front(method, path, headers=headers, credentials=key).status_code == 403
    assert front.there("GET", "/private/diary").data == b"dear diary"


@pytest.mark.parametrize("name", ["../private/diary", "a/../../private/diary", "."])
def test_no_key_leads_out_of_the_bucket(front: Front, name: str) -> None:
    assert front("GET", f"/{BUCKET}/{name}", credentials=TRAINING).status_code == 400
    source = {"x-amz-copy-source": f"/{BUCKET}/{name}"}
    assert front("PUT", f"/{BUCKET}/copied", headers=source, credentials=TRAINING).status_code == 400


@pytest.mark.parametrize("header", [{"x-amz-acl": "public-read"}, {"x-amz-grant-read": "uri=everybody"}])
def test_no_job_opens_an_object_to_others(front: Front, header: Mapping[str, str]) -> None:
    assert front("PUT", f"/{BUCKET}/a", b"data", header, TRAINING).status_code == 403
    assert front.there.keys(THEIRS) == []
    assert front("PUT", f"/{BUCKET}/a", b"data", {"x-amz-acl": "private"}, TRAINING).status_code == 200


@pytest.mark.parametrize("value", ["true", "True", ""])
def test_no_archive_is_unpacked_there(front: Front, value: str) -> None:
    header = {"x-amz-meta-snowball-auto-extract": value}
    assert front("PUT", f"/{BUCKET}/a.tar", b"data", header, TRAINING).status_code == 403
    assert front.there.keys(THEIRS) == []


def test_the_buckets_of_others_are_not_listed(front: Front) -> None:
    text = front("GET", "/", credentials=OURS).text
    assert (f"<Name>{BUCKET}</Name>" in text, "private" in text, THEIRS in text) == (True, False, False)


def test_the_other_stores_key_opens_nothing_here(front: Front) -> None:
    answer = front("GET", f"/{BUCKET}?list-type=2", credentials=CREDENTIALS)
    assert (answer.status_code, "InvalidAccessKeyId" in answer.text) == (403, True)
    wrong = front("GET", f"/{BUCKET}/a", credentials=Credentials(TRAINING.access_key, "wrong"))
    assert (wrong.status_code, "SignatureDoesNotMatch" in wrong.text) == (403, True)
    assert front.send("GET", f"/{BUCKET}/a", b"", {}).status_code == 403


def test_a_presigned_url_opens_its_object(front: Front) -> None:
    front.store.put("a", b"data")
    request = AWSRequest(method="GET", url=f"{HOST}/{BUCKET}/a")
    signer(S3SigV4QueryAuth, TRAINING, expires=60).add_auth(request)
    assert front.send("GET", request.url.removeprefix(HOST), b"", {}).data == b"data"
    other = request.url.removeprefix(HOST).replace("/a?", "/b?")
    assert front.send("GET", other, b"", {}).status_code == 403


def test_a_query_goes_on_as_it_was_signed_and_without_the_signature(front: Front) -> None:
    front.store.put("a b+c", b"1")
    request = AWSRequest(method="GET", url=f"{HOST}/{BUCKET}?prefix=a%20b%2Bc&list-type=2&delimiter=")
    signer(S3SigV4QueryAuth, TRAINING, expires=60).add_auth(request)
    answer = front.send("GET", request.url.removeprefix(HOST), b"", {})
    assert "<Key>a b+c</Key>" in answer.text
    assert front.app._pool.asked[-1].endswith(f"/{THEIRS}?delimiter=&list-type=2&prefix=a%20b%2Bc")


def test_a_body_that_is_not_the_signed_one_goes_nowhere(front: Front) -> None:
    request = AWSRequest(method="PUT", url=f"{HOST}/{BUCKET}/a", data=b"signed")
    signer(S3SigV4Auth, TRAINING).add_auth(request)
    answer = front.send("PUT", f"/{BUCKET}/a", b"forged", dict(request.headers))
    assert (answer.status_code, front.there.keys(THEIRS)) == (400, [])


def test_a_lab_is_set_up_on_it_and_nothing_is_made_there(front: Front) -> None:
    done = setup.run(HOST, OURS, TRAINING, http=WsgiPool(front))
    assert done[0] == f"bucket {BUCKET}: there already"
    assert done[-1] == f"training key: tried out, it reaches the bucket {BUCKET} and no other"
    assert front.there.keys(THEIRS) == []
    buckets = front.there("GET", "/").text
    assert [part.split("<")[0] for part in buckets.split("<Name>")[1:]] == [THEIRS, "private"]


def test_the_key_of_jobs_is_disabled_and_enabled(front: Front) -> None:
    admin = MinioAdministration(HOST, OURS, http=WsgiPool(front))
    admin.set_user_enabled(TRAINING.access_key, False)
    with pytest.raises(StoreError, match="access key"):
        front.store.put("a", b"data")
    admin.set_user_enabled(TRAINING.access_key, True)
    front.store.put("a", b"data")


def test_a_store_that_is_gone_is_named(server: Server) -> None:
    front = Front(server, pool=AnswerPool(GONE))
    with pytest.raises(UnreachableStoreError, match=r"http://there\.example:8333"):
        front.store.put("a", b"data")
    status, page = front.health()
    assert (status, "there.example:8333, cannot be reached" in page["detail"]) == (503, True)


def test_a_store_that_no_longer_takes_the_labs_key_is_named(front: Front) -> None:
    front = Front(front.there, key=Credentials("revoked-by-its-owner", "secret"))
    with pytest.raises(AccessDeniedError, match="InvalidAcc"):
        front.store.list()
    status, page = front.health()
    assert (status, page["detail"]) == (
        503, f"gateway to http://there.example:8333, bucket {THEIRS}: HTTP 403 InvalidAccessKeyId",
    )  # fmt: skip


def test_nobody_is_sent_to_another_server(server: Server) -> None:
    moved = urllib3.HTTPResponse(b"", {"Location": "https://other.example/a"}, 307, preload_content=False)
    answer = Front(server, pool=AnswerPool(moved))("GET", f"/{BUCKET}/a", credentials=TRAINING)
    assert (answer.status_code, "Location" in answer.headers) == (503, False)
    assert "sends the lab to https://other.example/a (HTTP 307)" in answer.text


def test_the_bucket_is_in_the_host_of_a_store_that_wants_it_so(server: Server) -> None:
    class Virtual(TherePool):
        def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
            parts = urlsplit(url)
            asked.append(f"{parts.netloc}{parts.path}")
            return urllib3.HTTPResponse(io.BytesIO(b"data"), status=200, preload_content=False)

    asked: list[str] = []
    front = Front(server, pool=Virtual(server), url="https://{bucket}.there.example")
    assert front("GET", f"/{BUCKET}/a/b", credentials=TRAINING).data == b"data"
    front("GET", f"/{BUCKET}?list-type=2", credentials=TRAINING)
    assert asked == [f"{THEIRS}.there.example/a/b", f"{THEIRS}.there.example/"], "the slash is signed"


def test_a_key_that_versitygw_no_longer_knows_is_no_missing_object(server: Server) -> None:
    body = io.BytesIO(b"<Error><Code>XAdminUserNotFound</Code></Error>")
    forgotten = AnswerPool(urllib3.HTTPResponse(body, status=404, preload_content=False))
    with pytest.raises(AccessDeniedError, match="XAdminUserNotFound"):
        Front(server, pool=forgotten).store.get("checkpoint")


def test_its_health_names_the_store(front: Front) -> None:
    status, page = front.health()
    assert status == 200
    assert page["detail"].startswith(f"gateway to http://there.example:8333, bucket {THEIRS} (raylab-standin")
    assert front.store.ping() == "gateway to http://there.example:8333"


def test_the_metrics_of_the_other_store_stay_its_owners(front: Front) -> None:
    token = {"Authorization": f"Bearer {minio_metrics_token(OURS)}"}
    assert front.send("GET", METRICS_PATH, b"", {}).status_code == 403
    answer = front.send("GET", METRICS_PATH, b"", token)
    assert (answer.status_code, answer.data) == (200, b"")


def test_nothing_that_it_says_has_a_secret_of_the_other_store(front: Front) -> None:
    front("GET", f"/{BUCKET}/missing", credentials=TRAINING)
    Front(front.there, pool=AnswerPool(GONE)).health()
    said = json.dumps([front.log, front.health(), repr(front.app.__dict__)])
    assert CREDENTIALS.secret_key not in said


def test_an_upload_in_parts_and_a_copy_stay_in_the_bucket(front: Front) -> None:
    start = front("POST", f"/{BUCKET}/big?uploads", credentials=TRAINING).text
    assert f"<Bucket>{BUCKET}</Bucket>" in start
    upload = start.split("<UploadId>")[1].split("<")[0]
    etag = front("PUT", f"/{BUCKET}/big?partNumber=1&uploadId={upload}", b"part", credentials=TRAINING)
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag.headers['ETag']}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    assert front("POST", f"/{BUCKET}/big?uploadId={upload}", body, credentials=TRAINING).status_code == 200
    copy = {"x-amz-copy-source": f"/{BUCKET}/big"}
    assert front("PUT", f"/{BUCKET}/copy", headers=copy, credentials=TRAINING).status_code == 200
    assert front.there.keys(THEIRS) == ["big", "copy"]
    assert front.store.get("copy") == b"part"
