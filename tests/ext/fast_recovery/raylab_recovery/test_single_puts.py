"""Requests by which files get into S3: Ray's own filesystem, and the one of the patch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request

pytest.importorskip("ray")

from raylab_recovery.single_puts import ask_for_single_puts

BEGUN = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
ENDED = b"<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"


class Bucket:
    """Takes whatever is stored, and notes how."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.server = make_server("127.0.0.1", 0, self._answer, threaded=True)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        Request(environ).get_data()
        verb, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
        self.requests.append(f"{verb} {environ['PATH_INFO']}")
        start_response("200 OK", [("ETag", '"1"')])
        return [] if verb in ("PUT", "HEAD") else [BEGUN if query == "uploads" else ENDED]

    @property
    def uri(self) -> str:
        return f"s3://ray?scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{self.server.server_port}"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    bucket = Bucket()
    thread = threading.Thread(target=bucket.server.serve_forever, daemon=True)
    thread.start()
    yield bucket
    bucket.server.shutdown()
    bucket.server.server_close()
    thread.join()


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ray's module."""
    from ray.train.v2._internal.execution import storage

    monkeypatch.setattr(storage, "get_fs_and_path", storage.get_fs_and_path)
    return storage


def stored(storage: Any, bucket: Bucket) -> list[str]:
    """The requests for one small file of a run."""
    filesystem, path = storage.get_fs_and_path(bucket.uri)
    with filesystem.open_output_stream(f"{path}/model.json") as stream:
        stream.write(b"{}")
    return bucket.requests


def test_ray_begins_writes_and_ends_an_upload_for_a_small_file(storage: Any, bucket: Bucket) -> None:
    assert stored(storage, bucket) == [f"{verb} /ray/model.json" for verb in ("POST", "PUT", "POST")]


def test_with_the_patch_it_is_one_request(storage: Any, bucket: Bucket) -> None:
    ask_for_single_puts(storage)
    ask_for_single_puts(storage)
    assert stored(storage, bucket) == ["PUT /ray/model.json"]


def test_a_run_gets_its_filesystem_from_that_function(storage: Any, bucket: Bucket) -> None:
    ask_for_single_puts(storage)
    run = storage.StorageContext(bucket.uri, "digits")
    _, (options,) = run.storage_filesystem.__reduce__()
    assert options["allow_delayed_open"] is True
    assert run.experiment_fs_path == "ray/digits"


def test_folders_and_a_filesystem_of_the_scripts_own_stay_as_they_are(storage: Any, tmp_path: Any) -> None:
    ask_for_single_puts(storage)
    own = SimpleNamespace(type_name="s3")
    assert storage.get_fs_and_path("ray/digits", own) == (own, "ray/digits")
    filesystem, path = storage.get_fs_and_path(str(tmp_path))
    assert (filesystem.type_name, path) == ("local", str(tmp_path))
