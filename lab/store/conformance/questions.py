"""The questions, one function each: it returns what was seen, or raises DeviationError."""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from lab.errors import StoreError
from lab.store.conformance.requests import (
    Bench,
    DeviationError,
    SkippedError,
    same,
    value,
    values,
    want,
)
from lab.store.s3 import BUCKET_IN_HOST
from lab.topology import Credentials

PART = 5 << 20
"""Bytes: the smallest part that S3 allows."""

PYARROW_SECONDS = 20.0
"""Timeout of pyarrow's requests."""


@dataclass(frozen=True)
class Question:
    """One thing that is asked of the server: `ask` returns what was seen, or raises DeviationError."""

    name: str
    ask: Callable[[Bench], str]
    why: str
    """The use that needs it."""


def put_and_get(bench: Bench) -> str:
    body = bytes(range(256)) * 4
    etag = bench.put("plain", body).headers.get("etag", "")
    same(etag.strip('"'), hashlib.md5(body, usedforsecurity=False).hexdigest(), "the ETag of a plain object")
    answer = want(bench.object("GET", "plain"), 200, "reading an object")
    same(answer.data, body, "what was read")
    bench.put("plain", b"newer")
    same(bench.object("GET", "plain").data, b"newer", "what was read after it was replaced")
    return "what was written was read at once, replaced too"


def odd_names(bench: Bench) -> str:
    name = "odd/a b+c%d=é&'(1).txt"
    bench.put(name, b"odd")
    same(bench.object("GET", name).data, b"odd", "the object with an odd name")
    same(bench.keys("odd/"), [name], "the listing of an odd name")
    return "blanks, signs and letters beyond ASCII are kept"


def metadata(bench: Bench) -> str:
    headers = {"Content-Type": "text/x-lab", "x-amz-meta-lab": "yes"}
    want(bench.object("PUT", "meta", b"12345", headers=headers), 200, "storing with metadata")
    answer = want(bench.object("HEAD", "meta"), 200, "HEAD")
    same(answer.headers.get("content-length"), "5", "Content-Length of HEAD")
    same(answer.headers.get("content-type"), "text/x-lab", "Content-Type")
    same(answer.headers.get("x-amz-meta-lab"), "yes", "the object's own metadata")
    if not answer.headers.get("last-modified"):
        raise DeviationError("HEAD does not say when the object was written")
    return "size, type, time and own metadata are given back"


def ranges(bench: Bench) -> str:
    bench.put("range", b"0123456789")
    for asked, data in (("bytes=2-4", b"234"), ("bytes=8-99", b"89"), ("bytes=-3", b"789")):
        answer = want(bench.object("GET", "range", headers={"Range": asked}), 206, f"reading {asked}")
        same(answer.data, data, f"what was read with {asked}")
    want(bench.object("GET", "range", headers={"Range": "bytes=10-"}), 416, "a range behind the end")
    return "middle, end and last bytes are read"


def missing(bench: Bench) -> str:
    answer = want(bench.object("GET", "never"), 404, "reading what is not there")
    same(answer.code, "NoSuchKey", "the error code")
    want(bench.object("HEAD", "never"), 404, "HEAD of what is not there")
    return "404, NoSuchKey"


def directory_markers(bench: Bench) -> str:
    headers = {"Content-Type": "application/x-directory"}
    want(bench.object("PUT", "dir/", headers=headers), 200, "making a directory marker")
    bench.put("dir/inside", b"x")
    want(bench.object("HEAD", "dir/"), 200, "HEAD of a directory marker")
    same(bench.keys("dir/"), ["dir/", "dir/inside"], "the listing of a directory")
    want(bench.object("HEAD", "dir"), 404, "HEAD of the directory without its slash")
    want(bench.object("DELETE", "dir/"), 204, "deleting a directory marker")
    same(bench.keys("dir/"), ["dir/inside"], "the listing without its marker")
    return "PUT dir/ makes an object of its own, beside those below it"


def listing(bench: Bench) -> str:
    for name in ("l/a/1", "l/a/2", "l/b", "l/c/3"):
        bench.put(name, b"x")
    page = bench.page(("delimiter", "/"), prefix="l/").text
    below = [prefix for part in page.split("<CommonPrefixes>")[1:] for prefix in values(part, "Prefix")[:1]]
    same([p.removeprefix(f"{bench.prefix}/") for p in below], ["l/a/", "l/c/"], "the folders of a listing")
    same(values(page, "Key"), [bench.key("l/b")], "the objects of a listing with delimiter")
    keys: list[str] = []
    token: tuple[tuple[str, str], ...] = ()
    for _ in range(4):
        page = bench.page(("max-keys", "1"), *token, prefix="l/").text
        keys += values(page, "Key")
        if value(page, "IsTruncated") != "true":
            break
        token = (("continuation-token", value(page, "NextContinuationToken")),)
    same(keys, [bench.key(n) for n in ("l/a/1", "l/a/2", "l/b", "l/c/3")], "a listing page by page")
    return "folders by delimiter, order, and pages that follow one another"


def multipart(bench: Bench) -> str:
    parts = (b"a" * PART, b"b" * 10)
    upload = _begin(bench, "parts")
    listed = ""
    for number, part in enumerate(parts, 1):
        answer = bench.object("PUT", "parts", part, ("partNumber", str(number)), ("uploadId", upload))
        etag = want(answer, 200, f"part {number}").headers.get("etag", "")
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
    want(bench.object("HEAD", "parts"), 404, "an upload that is not complete")
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    done = want(bench.object("POST", "parts", body, ("uploadId", upload)), 200, "completing an upload")
    if "<Error>" in done.text:
        raise DeviationError(f"completing an upload fails inside an HTTP 200: {value(done.text, 'Code')}")
    same(hashlib.sha256(bench.object("GET", "parts").data).hexdigest(), _sha(b"".join(parts)), "the data")
    etag = bench.object("HEAD", "parts").headers.get("etag", "")
    if not etag.strip('"').endswith("-2"):
        raise DeviationError(f"the ETag of an upload in 2 parts is {etag}, which does not say so")
    return "5 MiB and 10 bytes became one object, which was not there before"


def abort(bench: Bench) -> str:
    upload = _begin(bench, "aborted")
    part = bench.object("PUT", "aborted", b"x", ("partNumber", "1"), ("uploadId", upload))
    want(part, 200, "a part")
    want(bench.object("DELETE", "aborted", b"", ("uploadId", upload)), 204, "aborting an upload")
    late = bench.object("PUT", "aborted", b"x", ("partNumber", "2"), ("uploadId", upload))
    want(late, 404, "a part of an aborted upload")
    want(bench.object("HEAD", "aborted"), 404, "the object of an aborted upload")
    return "nothing is left of an aborted upload"


def copy(bench: Bench) -> str:
    bench.put("from", b"copied")
    source = f"/{bench.bucket}/{bench.key('from')}"
    answer = bench.object("PUT", "to", headers={"x-amz-copy-source": source})
    want(answer, 200, "copying an object")
    same(bench.object("GET", "to").data, b"copied", "the copy")
    return "an object was copied on the server"


def delete(bench: Bench) -> str:
    bench.put("gone", b"x")
    want(bench.object("DELETE", "gone"), 204, "deleting an object")
    want(bench.object("DELETE", "gone"), 204, "deleting it again")
    same(bench.keys("gone"), [], "the listing after a deletion")
    return "what was deleted is gone at once, twice is no error"


def delete_many(bench: Bench) -> str:
    names = ["many/1", "many/2", "many/a&b"]
    for name in names:
        bench.put(name, b"x")
    answer = want(bench.delete_many([*names, "many/never"]), 200, "deleting many at once")
    if "<Error>" in answer.text:
        raise DeviationError(f"deleting many at once: {value(answer.text, 'Code')}")
    same(bench.keys("many/"), [], "the listing after deleting many")
    return "many objects were deleted by one request"


def wrong_keys(bench: Bench) -> str:
    right = bench.client.credentials
    bench.put("guarded", b"x")
    path = f"{bench.bucket}/{bench.key('guarded')}"
    cases = (
        (Credentials(right.access_key, secrets.token_hex(20)), "a wrong secret"),
        (Credentials(secrets.token_hex(10), right.secret_key), "an unknown access key"),
    )
    for key, what in cases:
        for method in ("GET", "PUT", "DELETE"):
            want(bench.client.with_key(key).ask(method, path), 403, f"{method} with {what}")
    same(bench.object("GET", "guarded").data, b"x", "the object after refused requests")
    return "a wrong secret and an unknown key are refused"


def file_system(bench: Bench) -> str:
    """Make, write, look at, read, move and delete as Ray Train does. Raises DeviationError, SkippedError."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SkippedError("pyarrow is not installed here; the requests it makes are asked above")
    from pyarrow import fs

    parts = urlsplit(bench.client.endpoint_url)
    key = bench.client.credentials
    try:
        files = fs.S3FileSystem(
            access_key=key.access_key,
            secret_key=key.secret_key,
            endpoint_override=parts.netloc.removeprefix(f"{BUCKET_IN_HOST}."),
            force_virtual_addressing=BUCKET_IN_HOST in parts.netloc,
            tls_ca_file_path=None if bench.client.ca_file is None else str(bench.client.ca_file),
            scheme=parts.scheme,
            region=bench.client.region,
            connect_timeout=PYARROW_SECONDS,
            request_timeout=PYARROW_SECONDS,
        )
        folder = f"{bench.bucket}/{bench.key('fs')}"
        files.create_dir(f"{folder}/checkpoint", recursive=True)
        data = b"0123456789" * 1_200_000  # more than pyarrow sends at once, so that it uploads in parts
        with files.open_output_stream(f"{folder}/checkpoint/data") as stream:
            stream.write(data)
        infos = files.get_file_info(fs.FileSelector(folder, recursive=True))
        kinds = sorted((info.base_name, info.type.name, info.size or 0) for info in infos)
        same(kinds, [("checkpoint", "Directory", 0), ("data", "File", len(data))], "the listing")
        with files.open_input_file(f"{folder}/checkpoint/data") as source:
            same(source.read_at(10, 11_999_990), data[-10:], "the end of the file")
        files.move(f"{folder}/checkpoint/data", f"{folder}/checkpoint/moved")
        info = files.get_file_info(f"{folder}/checkpoint/data")
        same(info.type.name, "NotFound", "the old name of a moved file")
        files.delete_dir(folder)
        same(files.get_file_info(folder).type.name, "NotFound", "a deleted folder")
    except OSError as error:
        first = str(error).splitlines()[0][:300]
        raise StoreError(f"pyarrow cannot use the store: {first}", "see the failed checks above") from error
    return "folders, a file of 12 MB in parts, listing, reading at an offset, moving, deleting"


def _begin(bench: Bench, name: str) -> str:
    answer = bench.object("POST", name, b"", ("uploads", ""))
    upload = value(want(answer, 200, "beginning an upload in parts").text, "UploadId")
    if not upload:
        raise DeviationError("beginning an upload in parts gives no UploadId")
    return upload


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


QUESTIONS = (
    Question("put and get", put_and_get, "everything"),
    Question("odd names", odd_names, "names of runs and files"),
    Question("metadata", metadata, "pyarrow asks for size and time"),
    Question("ranged get", ranges, "pyarrow reads files in pieces"),
    Question("missing key", missing, "pyarrow tells a missing file by it"),
    Question("directory markers", directory_markers, "pyarrow makes a marker for each folder of a run"),
    Question("listing", listing, "Ray Train and labctl look for checkpoints"),
    Question("multipart upload", multipart, "pyarrow writes every file so"),
    Question("aborted upload", abort, "a run that ends while it saves"),
    Question("copy", copy, "pyarrow moves files so"),
    Question("delete", delete, "Ray Train drops old checkpoints"),
    Question("delete many", delete_many, "pyarrow removes a folder so"),
    Question("wrong keys", wrong_keys, "nobody else may read or write"),
    Question("pyarrow", file_system, "it is what Ray Train saves and loads with"),
)
