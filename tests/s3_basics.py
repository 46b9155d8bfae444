"""What S3 does, and every store that was looked at: asked of the lab's own servers, beside QUESTIONS."""

from __future__ import annotations

import base64
import hashlib
from xml.sax.saxutils import escape

from lab.store.conformance import Question
from lab.store.conformance.requests import Bench, DeviationError, S3Reply, same, value, values, want


def page(bench: Bench, *query: tuple[str, str], prefix: str) -> S3Reply:
    """A page of a listing of this run's objects."""
    asked = (("list-type", "2"), ("prefix", bench.key(prefix)), *query)
    return want(bench.client.ask("GET", bench.bucket, asked), 200, "listing")


def begin(bench: Bench) -> str:
    """The ID of a new upload in parts."""
    answer = bench.object("POST", "aborted", b"", ("uploads", ""))
    return value(want(answer, 200, "beginning an upload in parts").text, "UploadId")


def delete_all(bench: Bench, names: list[str]) -> S3Reply:
    """One request that deletes many objects."""
    listed = "".join(f"<Object><Key>{escape(bench.key(name))}</Key></Object>" for name in names)
    body = f"<Delete>{listed}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return bench.client.ask("POST", bench.bucket, [("delete", "")], body, {"Content-MD5": digest})


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


def listing(bench: Bench) -> str:
    for name in ("l/a/1", "l/a/2", "l/b", "l/c/3"):
        bench.put(name, b"x")
    text = page(bench, ("delimiter", "/"), prefix="l/").text
    below = [prefix for part in text.split("<CommonPrefixes>")[1:] for prefix in values(part, "Prefix")[:1]]
    same([p.removeprefix(f"{bench.prefix}/") for p in below], ["l/a/", "l/c/"], "the folders of a listing")
    same(values(text, "Key"), [bench.key("l/b")], "the objects of a listing with delimiter")
    keys: list[str] = []
    token: tuple[tuple[str, str], ...] = ()
    for _ in range(4):
        text = page(bench, ("max-keys", "1"), *token, prefix="l/").text
        keys += values(text, "Key")
        if value(text, "IsTruncated") != "true":
            break
        token = (("continuation-token", value(text, "NextContinuationToken")),)
    same(keys, [bench.key(n) for n in ("l/a/1", "l/a/2", "l/b", "l/c/3")], "a listing page by page")
    return "folders by delimiter, order, and pages that follow one another"


def abort(bench: Bench) -> str:
    upload = begin(bench)
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
    answer = want(delete_all(bench, [*names, "many/never"]), 200, "deleting many at once")
    if "<Error>" in answer.text:
        raise DeviationError(f"deleting many at once: {value(answer.text, 'Code')}")
    same(bench.keys("many/"), [], "the listing after deleting many")
    return "many objects were deleted by one request"


BASICS = tuple(
    Question(ask.__name__, ask, "every client of S3")
    for ask in (
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
    )
)
