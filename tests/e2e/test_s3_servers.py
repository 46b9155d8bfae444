"""Object stores alone: MinIO and the stand-in do the same, but for what docs/store.md names."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.host import command, http
from lab.host.secrets import minio_metrics_token
from lab.store import setup
from lab.store.admin import MinioAdministration
from lab.store.server.metrics import METRICS_PATH
from lab.topology import Credentials
from tests.e2e.harness import PATIENCE
from tests.e2e.s3_questions import DIFFERENCES, ask_everything, differing
from tests.e2e.servers import S3Server, started
from tests.e2e.store import check_keys_of
from tests.go_programs import MINIO, MINIO_RELEASE
from tests.minio import minio_program
from tests.s3_basics import BASICS, Bench, file_system
from tests.s3_client import SigningClient
from tests.waiting import eventually

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "store.md"

SERVERS = [pytest.param("minio", marks=pytest.mark.minio), "moto"]

MadeServer = Callable[[str], S3Server]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeServer]:
    """Starts servers; they end after the module."""
    with contextlib.ExitStack() as until:
        yield lambda kind: started(kind, tmp_path_factory, until)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, make: MadeServer) -> S3Server:
    """Each of the two, set up for a lab."""
    return make(request.param)


def test_the_store_does_all_that_ray_and_the_lab_ask_of_it(server: S3Server) -> None:
    for ask in (*BASICS, file_system):
        ask(Bench(server.training, "basics"))


def test_the_key_of_jobs_reaches_one_bucket(server: S3Server) -> None:
    check_keys_of(server.url, server.secrets)


def test_a_wrong_secret_and_an_unknown_key_are_told_apart(server: S3Server) -> None:
    key = server.secrets.store
    for credentials, code in (
        (Credentials(key.access_key, "0" * 40), "SignatureDoesNotMatch"),
        (Credentials("0" * 20, key.secret_key), "InvalidAccessKeyId"),
    ):
        answer = SigningClient(server.url, credentials).ask("GET", "ray", [("list-type", "2")])
        assert (answer.status, answer.code) == (403, code)


def test_the_key_of_jobs_is_disabled_and_enabled(server: S3Server) -> None:
    server.store.put("kept", b"kept")
    admin = MinioAdministration(server.url, server.secrets.root)
    admin.set_user_enabled(server.secrets.store.access_key, False)
    try:
        refused = server.training.ask("GET", "ray/kept")
        assert (refused.status, refused.code) == (403, "InvalidAccessKeyId")
    finally:
        admin.set_user_enabled(server.secrets.store.access_key, True)
    assert server.store.get("kept") == b"kept"


@pytest.mark.minio
def test_minio_forgets_a_former_key_of_jobs(make: MadeServer) -> None:
    server = make("minio")
    newer = Credentials("another-training-key", "0" * 40)
    done = setup.run(server.url, server.secrets.root, newer)
    assert "training key: a former one was removed" in done
    refused = server.training.ask("GET", "ray", [("list-type", "2")])
    assert (refused.status, refused.code) == (403, "InvalidAccessKeyId")
    assert SigningClient(server.url, newer).ask("GET", "ray", [("list-type", "2")]).status == 200


def test_boto3s_presigned_urls_open_one_request(server: S3Server) -> None:
    client = boto3_client(server)

    def ask(method: str, url: str, body: bytes = b"") -> http.Reply:
        return http.request(method, url, body=body, timeout=30)

    def presigned(call: str, key: str = "signed é+%.txt", expires: int = 60, **more: Any) -> str:
        parameters = {"Bucket": "ray", "Key": key, **more}
        return str(client.generate_presigned_url(call, parameters, ExpiresIn=expires))

    assert ask("PUT", presigned("put_object"), b"data").status == 200
    assert ask("GET", presigned("get_object")).data == b"data"
    upload = client.create_multipart_upload(Bucket="ray", Key="parts")["UploadId"]
    part = ask("PUT", presigned("upload_part", "parts", UploadId=upload, PartNumber=1), b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part.headers["etag"]}]}
    client.complete_multipart_upload(Bucket="ray", Key="parts", UploadId=upload, MultipartUpload=parts)
    assert ask("GET", presigned("get_object", "parts")).data == b"part"
    refused = {
        "another method": ask("PUT", presigned("get_object"), b"changed"),
        "another key": ask("GET", presigned("get_object", "parts").replace("/parts?", "/signed?")),
        "another parameter": ask("GET", presigned("get_object", "parts") + "&versionId=null"),
        "expired": expired(lambda: presigned("get_object", expires=1), ask),
        "another bucket": ask("GET", presigned("get_object").replace("/ray/", "/others/")),
    }
    assert {name: reply.status for name, reply in refused.items()} == dict.fromkeys(refused, 403)
    assert ask("DELETE", presigned("delete_object")).status == 204
    assert ask("GET", presigned("get_object")).status == 404


def expired(make: Callable[[], str], ask: Callable[[str, str], http.Reply]) -> http.Reply:
    """The answer to a URL that was good for a second."""
    url = make()
    time.sleep(2.1)
    return ask("GET", url)


def boto3_client(server: S3Server) -> Any:
    """A client of botocore with the key of jobs."""
    import botocore.config
    import botocore.session

    return botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=server.url,
        aws_access_key_id=server.secrets.store.access_key,
        aws_secret_access_key=server.secrets.store.secret_key,
        config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_acknowledged_is_there_after_the_end_of_the_server(
    server: S3Server, number: signal.Signals
) -> None:
    large = bytes(range(256)) * (6 << 12)
    server.store.put("large", large)
    server.store.put("gone", b"gone")
    server.store.delete(["gone"])
    for count in range(20):
        server.store.put(f"restart/{count:02}", b"%d" % count)
    before = server.store.list()

    server.kill(number)
    done = server.start()

    assert done[0] == "bucket ray: there already"
    assert server.store.list() == before
    assert server.store.get("large") == large
    assert [server.store.get(f"restart/{count:02}") for count in range(20)] == [b"%d" % n for n in range(20)]


def metrics(server: S3Server, token: str) -> http.Reply:
    """What Prometheus is answered."""
    url = f"{server.url}{METRICS_PATH}"
    return http.request("GET", url, headers=http.bearer(token) if token else {}, timeout=30)


def test_prometheus_needs_the_token_that_is_made_of_the_root_key(server: S3Server) -> None:
    token = (server.folder / "secrets" / "s3-metrics.token").read_text()
    read = metrics(server, token)
    assert (read.status, b"\nminio_cluster_capacity_usable_free_bytes" in read.data) == (200, True)
    training = minio_metrics_token(server.secrets.store)
    head, payload, signature = token.split(".")
    forged = (
        f"{head}.{payload}.{'b' if signature[0] == 'a' else 'a'}{signature[1:]}"  # its last bits say nothing
    )
    assert [metrics(server, wrong).status for wrong in ("", forged, training)] == [403] * 3


@pytest.mark.rare
def test_prometheus_gets_what_the_dashboards_draw(server: S3Server) -> None:
    token = (server.folder / "secrets" / "s3-metrics.token").read_text()
    drawn = (b"\nminio_cluster_usage_total_bytes", b"\nminio_cluster_usage_object_total")
    # MinIO counts its objects a minute after its start.
    eventually(lambda: all(name in metrics(server, token).data for name in drawn), PATIENCE, "both are there")


@pytest.mark.minio
def test_the_two_servers_differ_in_nothing_but_what_the_document_names(make: MadeServer) -> None:
    answers = [ask_everything(server.training, server.root) for server in map(make, ("minio", "moto"))]
    known = {question for questions in DIFFERENCES.values() for question in questions}
    different = differing(*answers)
    assert {name: both for name, both in different.items() if name not in known} == {}
    assert known - set(different) == set(), "these are the same now: they leave the table"
    rows = DOCUMENT.read_text(encoding="utf-8")
    assert [row for row in DIFFERENCES if f"| {row} |" not in rows] == []


@pytest.mark.minio
def test_minio_is_the_release_that_compose_pins() -> None:
    said = command.run((minio_program(), "--version"), timeout=60).stdout
    built = minio_program() == str(MINIO.path)  # else it is somebody's own
    assert said.startswith("minio version")
    assert not built or MINIO_RELEASE in said
