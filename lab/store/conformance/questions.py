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
from lab.store.conformance.requests import Bench, DeviationError, SkippedError, same, value, want
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


def multipart(bench: Bench) -> str:
    parts = (b"a" * PART, b"b" * 10)
    begun = want(bench.object("POST", "parts", b"", ("uploads", "")), 200, "beginning an upload in parts")
    if not (upload := value(begun.text, "UploadId")):
        raise DeviationError("beginning an upload in parts gives no UploadId")
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
    stored = hashlib.sha256(bench.object("GET", "parts").data).hexdigest()
    same(stored, hashlib.sha256(b"".join(parts)).hexdigest(), "the data")
    etag = bench.object("HEAD", "parts").headers.get("etag", "")
    if not etag.strip('"').endswith("-2"):
        raise DeviationError(f"the ETag of an upload in 2 parts is {etag}, which does not say so")
    return "5 MiB and 10 bytes became one object, which was not there before"


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
        raise SkippedError("pyarrow is not installed here: nobody tried what Ray Train does with the store")
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


QUESTIONS = (
    Question("directory markers", directory_markers, "pyarrow makes a marker for each folder of a run"),
    Question("multipart upload", multipart, "pyarrow writes every file so"),
    Question("wrong keys", wrong_keys, "nobody else may read or write"),
    Question("pyarrow", file_system, "it is what Ray Train saves and loads with"),
)
