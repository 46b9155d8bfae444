"""What S3 does, and what Ray Train needs of it through pyarrow: asked of MinIO and of the stand-in."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from lab.topology import BUCKET, REGION
from tests.s3_client import S3Reply, SigningClient, value, values
from tests.waiting import PATIENCE

PART = 5 << 20
"""Bytes: the smallest part that S3 allows."""


class Bench:
    """The bucket `ray` of one server, below one prefix."""

    def __init__(self, client: SigningClient, prefix: str) -> None:
        self.client, self.prefix = client, prefix

    def key(self, name: str) -> str:
        """The whole key of an object."""
        return f"{self.prefix}/{name}"

    def object(
        self,
        method: str,
        name: str,
        body: bytes = b"",
        *query: tuple[str, str],
        headers: dict[str, str] | None = None,
    ) -> S3Reply:
        """A request to an object."""
        return self.client.ask(method, f"{BUCKET}/{self.key(name)}", query, body, headers)

    def put(self, name: str, body: bytes) -> S3Reply:
        """Store an object."""
        return want(self.object("PUT", name, body), 200)

    def keys(self, prefix: str = "") -> list[str]:
        """The names of objects that begin with `prefix`."""
        asked = (("list-type", "2"), ("prefix", self.key(prefix)))
        page = want(self.client.ask("GET", BUCKET, asked), 200)
        return [key.removeprefix(f"{self.prefix}/") for key in values(page.text, "Key")]


def want(answer: S3Reply, status: int) -> S3Reply:
    """The answer, which has this status."""
    assert answer.status == status, answer.text
    return answer


def page(bench: Bench, *query: tuple[str, str], prefix: str) -> S3Reply:
    """A page of a listing of this run's objects."""
    asked = (("list-type", "2"), ("prefix", bench.key(prefix)), *query)
    return want(bench.client.ask("GET", BUCKET, asked), 200)


def begin(bench: Bench) -> str:
    """The ID of a new upload in parts."""
    answer = bench.object("POST", "aborted", b"", ("uploads", ""))
    return value(want(answer, 200).text, "UploadId")


def delete_all(bench: Bench, names: list[str]) -> S3Reply:
    """One request that deletes many objects."""
    listed = "".join(f"<Object><Key>{escape(bench.key(name))}</Key></Object>" for name in names)
    body = f"<Delete>{listed}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return bench.client.ask("POST", BUCKET, [("delete", "")], body, {"Content-MD5": digest})


def put_and_get(bench: Bench) -> None:
    body = bytes(range(256)) * 4
    etag = bench.put("plain", body).headers.get("etag", "")
    assert etag.strip('"') == hashlib.md5(body, usedforsecurity=False).hexdigest()
    answer = want(bench.object("GET", "plain"), 200)
    assert answer.data == body
    bench.put("plain", b"newer")
    assert bench.object("GET", "plain").data == b"newer"


def odd_names(bench: Bench) -> None:
    name = "odd/a b+c%d=é&'(1).txt"
    bench.put(name, b"odd")
    assert bench.object("GET", name).data == b"odd"
    assert bench.keys("odd/") == [name]


def metadata(bench: Bench) -> None:
    headers = {"Content-Type": "text/x-lab", "x-amz-meta-lab": "yes"}
    want(bench.object("PUT", "meta", b"12345", headers=headers), 200)
    answer = want(bench.object("HEAD", "meta"), 200)
    assert answer.headers.get("content-length") == "5"
    assert answer.headers.get("content-type") == "text/x-lab"
    assert answer.headers.get("x-amz-meta-lab") == "yes"
    assert answer.headers.get("last-modified")


def ranges(bench: Bench) -> None:
    bench.put("range", b"0123456789")
    for asked, data in (("bytes=2-4", b"234"), ("bytes=8-99", b"89"), ("bytes=-3", b"789")):
        answer = want(bench.object("GET", "range", headers={"Range": asked}), 206)
        assert answer.data == data
    want(bench.object("GET", "range", headers={"Range": "bytes=10-"}), 416)


def missing(bench: Bench) -> None:
    answer = want(bench.object("GET", "never"), 404)
    assert answer.code == "NoSuchKey"
    want(bench.object("HEAD", "never"), 404)


def listing(bench: Bench) -> None:
    for name in ("l/a/1", "l/a/2", "l/b", "l/c/3"):
        bench.put(name, b"x")
    text = page(bench, ("delimiter", "/"), prefix="l/").text
    below = [prefix for part in text.split("<CommonPrefixes>")[1:] for prefix in values(part, "Prefix")[:1]]
    assert [p.removeprefix(f"{bench.prefix}/") for p in below] == ["l/a/", "l/c/"]
    assert values(text, "Key") == [bench.key("l/b")]
    keys: list[str] = []
    token: tuple[tuple[str, str], ...] = ()
    for _ in range(4):
        text = page(bench, ("max-keys", "1"), *token, prefix="l/").text
        keys += values(text, "Key")
        if value(text, "IsTruncated") != "true":
            break
        token = (("continuation-token", value(text, "NextContinuationToken")),)
    assert keys == [bench.key(n) for n in ("l/a/1", "l/a/2", "l/b", "l/c/3")]


def abort(bench: Bench) -> None:
    upload = begin(bench)
    part = bench.object("PUT", "aborted", b"x", ("partNumber", "1"), ("uploadId", upload))
    want(part, 200)
    want(bench.object("DELETE", "aborted", b"", ("uploadId", upload)), 204)
    late = bench.object("PUT", "aborted", b"x", ("partNumber", "2"), ("uploadId", upload))
    want(late, 404)
    want(bench.object("HEAD", "aborted"), 404)


def copy(bench: Bench) -> None:
    bench.put("from", b"copied")
    source = f"/{BUCKET}/{bench.key('from')}"
    answer = bench.object("PUT", "to", headers={"x-amz-copy-source": source})
    want(answer, 200)
    assert bench.object("GET", "to").data == b"copied"


def delete(bench: Bench) -> None:
    bench.put("gone", b"x")
    want(bench.object("DELETE", "gone"), 204)
    want(bench.object("DELETE", "gone"), 204)
    assert bench.keys("gone") == []


def delete_many(bench: Bench) -> None:
    names = ["many/1", "many/2", "many/a&b"]
    for name in names:
        bench.put(name, b"x")
    answer = want(delete_all(bench, [*names, "many/never"]), 200)
    assert "<Error>" not in answer.text
    assert bench.keys("many/") == []


def directory_markers(bench: Bench) -> None:
    headers = {"Content-Type": "application/x-directory"}
    want(bench.object("PUT", "dir/", headers=headers), 200)
    bench.put("dir/inside", b"x")
    want(bench.object("HEAD", "dir/"), 200)
    assert bench.keys("dir/") == ["dir/", "dir/inside"]
    want(bench.object("HEAD", "dir"), 404)
    want(bench.object("DELETE", "dir/"), 204)
    assert bench.keys("dir/") == ["dir/inside"]


def multipart(bench: Bench) -> None:
    parts = (b"a" * PART, b"b" * 10)
    begun = want(bench.object("POST", "parts", b"", ("uploads", "")), 200)
    upload = value(begun.text, "UploadId")
    listed = ""
    for number, part in enumerate(parts, 1):
        answer = bench.object("PUT", "parts", part, ("partNumber", str(number)), ("uploadId", upload))
        etag = want(answer, 200).headers.get("etag", "")
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
    want(bench.object("HEAD", "parts"), 404)
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    done = want(bench.object("POST", "parts", body, ("uploadId", upload)), 200)
    assert "<Error>" not in done.text
    stored = hashlib.sha256(bench.object("GET", "parts").data).hexdigest()
    assert stored == hashlib.sha256(b"".join(parts)).hexdigest()
    etag = bench.object("HEAD", "parts").headers.get("etag", "")
    assert etag.strip('"').endswith("-2")


def file_system(bench: Bench) -> None:
    """What Ray Train does: it makes folders, writes, looks at, reads, moves and deletes."""
    from pyarrow import fs

    parts = urlsplit(bench.client.endpoint_url)
    key = bench.client.credentials
    files = fs.S3FileSystem(
        access_key=key.access_key,
        secret_key=key.secret_key,
        endpoint_override=parts.netloc,
        scheme=parts.scheme,
        region=REGION,
        connect_timeout=PATIENCE,
        request_timeout=PATIENCE,
    )
    folder = f"{BUCKET}/{bench.key('fs')}"
    files.create_dir(f"{folder}/checkpoint", recursive=True)
    data = b"0123456789" * 1_200_000  # more than pyarrow sends at once, so that it uploads in parts
    with files.open_output_stream(f"{folder}/checkpoint/data") as stream:
        stream.write(data)
    infos = files.get_file_info(fs.FileSelector(folder, recursive=True))
    kinds = sorted((info.base_name, info.type.name, info.size or 0) for info in infos)
    assert kinds == [("checkpoint", "Directory", 0), ("data", "File", len(data))]
    with files.open_input_file(f"{folder}/checkpoint/data") as source:
        assert source.read_at(10, 11_999_990) == data[-10:]
    files.move(f"{folder}/checkpoint/data", f"{folder}/checkpoint/moved")
    assert files.get_file_info(f"{folder}/checkpoint/data").type.name == "NotFound"
    files.delete_dir(folder)
    assert files.get_file_info(folder).type.name == "NotFound"


BASICS = (
    put_and_get,
    odd_names,
    metadata,
    ranges,
    missing,
    listing,
    abort,
    copy,
    delete,
    delete_many,
    directory_markers,
    multipart,
)
"""What needs no socket; `file_system` does."""
