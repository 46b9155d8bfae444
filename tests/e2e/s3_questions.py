"""Questions that MinIO and the stand-in are both asked, and the differences that are known and stay."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.s3_client import S3Reply, SigningClient, value, values

DATA = b"hello"
ETAG = hashlib.md5(DATA).hexdigest()
ANOTHER = '"' + "0" * 32 + '"'
CRC32 = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()
SHA256 = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
MIB5 = b"b" * (5 << 20)

COMPARED = (
    *("etag", "content-range", "content-type", "content-disposition", "cache-control", "content-language"),
    *("x-amz-meta-a", "x-amz-checksum-crc32", "x-amz-checksum-sha256", "x-amz-version-id"),
)
"""Headers of a success that are compared."""

ELEMENTS = ("Key", "Prefix", "ETag", "IsTruncated", "KeyCount", "PartNumber", "Size", "Code")
"""Elements of a success in XML that are compared."""


DIFFERENCES = {
    "objects below an object": ("below an object, list",),
    "names that MinIO refuses": (
        *("name 'n/a//b'", "name 'n/a//b', read", "name n/xx... of 302", "name n/xx... of 302, read"),
    ),
    "control characters in names": tuple(
        f"name {name!r}{read}" for name in ("n/a\rb", "n/a\x01b", "n/a\x00b") for read in ("", ", read")
    ),
    "tags": ("tags",),
    "parts of an object": ("part of an object",),
    "CRC32C and CRC64NVME": ("checksum: wrong CRC32C", "checksum: wrong CRC64NVME"),
    "what is done twice": ("abort again", "complete again", "make the bucket again"),
    "deletion of many": ("delete without MD5", "delete in another bucket"),
    "error codes": (*("checksum: wrong", "complete: nothing", "part -1", "part 0", "part x"),),
    "form of answers": ("complete", "list: encoded", "uploads", "uploads, none"),
}
"""Row of the table in docs/store.md -> questions that the two servers answer otherwise, and stay so."""


class Asker:
    """Asks one server question after question; `noted` has what is compared of each answer."""

    def __init__(self, training: SigningClient, root: SigningClient) -> None:
        self.training, self.root = training, root
        self.noted: dict[str, tuple[Any, ...]] = {}

    def __call__(
        self,
        name: str,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        root: bool = False,
    ) -> S3Reply:
        """Ask under a name of its own."""
        assert name not in self.noted, name
        answer = (self.root if root else self.training).ask(method, path, query, body, headers)
        self.noted[name] = compared(answer)
        return answer


def compared(answer: S3Reply) -> tuple[Any, ...]:
    """What must be the same of both servers' answers: of a refusal its status and code."""
    if answer.status >= 300:
        return answer.status, answer.code
    headers = {name: answer.headers[name] for name in COMPARED if name in answer.headers}
    if answer.headers.get("content-length", "0") == "0" or answer.text.lstrip().startswith("<"):
        headers.pop("content-type", None)
    if answer.text.lstrip().startswith("<"):
        return answer.status, headers, {name: values(answer.text, name) for name in ELEMENTS}
    return answer.status, headers, answer.text[:100]


def ask_everything(training: SigningClient, root: SigningClient) -> dict[str, tuple[Any, ...]]:
    """Ask a server that is empty but for the lab's bucket; name of each question -> what is compared."""
    ask = Asker(training, root)
    for topic in (objects, conditions, checksums, names, listings, uploads, deletions, copies, settings):
        topic(ask)
    return ask.noted


def objects(ask: Asker) -> None:
    described = {
        "x-amz-meta-a": "v",
        "Content-Type": "text/plain",
        "Cache-Control": "no-cache",
        "Content-Disposition": "inline",
        "Content-Language": "de",
    }
    ask("put", "PUT", "ray/a", body=DATA, headers=described)
    for method in ("GET", "HEAD"):
        ask(f"{method} an object", method, "ray/a")
        ask(f"{method} a missing object", method, "ray/never")
        ask(f"{method} in another bucket", method, "others/a")
        ask(f"{method} in a missing bucket", method, "others/a", root=True)
    for wanted in ("0-0", "1-2", "-2", "-0", "-99", "3-", "5-", "9-10", "2-1", "0-1,3-4", "x", "0-99"):
        ask(f"range {wanted}", "GET", "ray/a", headers={"Range": f"bytes={wanted}"})
    ask("range of another unit", "GET", "ray/a", headers={"Range": "chars=0-1"})
    ask("range of HEAD", "HEAD", "ray/a", headers={"Range": "bytes=1-2"})
    overrides = [("response-content-type", "x/y"), ("response-cache-control", "c")]
    ask("headers of the answer", "GET", "ray/a", overrides)
    ask("part of an object", "GET", "ray/a", [("partNumber", "1")])
    ask("delete a missing object", "DELETE", "ray/never")
    ask("PUT in another bucket", "PUT", "others/a", body=DATA)
    ask("PUT in a missing bucket", "PUT", "others/a", body=DATA, root=True)
    for name in ("STANDARD", "GLACIER"):
        ask(f"storage class {name}", "PUT", "ray/class", body=DATA, headers={"x-amz-storage-class": name})
    ask("tags", "PUT", "ray/tagged", body=DATA, headers={"x-amz-tagging": "a=b"})
    ask("large metadata", "PUT", "ray/large", body=DATA, headers={"x-amz-meta-a": "x" * 2100})


def conditions(ask: Asker) -> None:
    known = (ETAG, f'"{ETAG}"', "*", ANOTHER)
    for name in ("If-Match", "If-None-Match"):
        for method in ("GET", "HEAD", "PUT"):
            for etag in known:
                body = DATA if method == "PUT" else b""
                ask(f"{method} {name} {etag}", method, "ray/a", body=body, headers={name: etag})
    for name in ("If-Modified-Since", "If-Unmodified-Since"):
        for year in (1994, 2044):
            when = {name: f"Thu, 01 Dec {year} 16:00:00 GMT"}
            ask(f"GET {name} {year}", "GET", "ray/a", headers=when)
    ask("PUT If-Match of a missing object", "PUT", "ray/never", body=DATA, headers={"If-Match": ETAG})


def checksums(ask: Asker) -> None:
    for kind, sent in {
        "none": {},
        "right": {"x-amz-checksum-crc32": CRC32},
        "wrong": {"x-amz-checksum-crc32": "AAAAAA=="},
        "malformed": {"x-amz-checksum-crc32": "?"},
        "two": {"x-amz-checksum-crc32": CRC32, "x-amz-checksum-sha256": SHA256},
        "SHA-256": {"x-amz-checksum-sha256": SHA256},
        "wrong CRC32C": {"x-amz-checksum-crc32c": "AAAAAA=="},
        "wrong CRC64NVME": {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="},
        "wrong MD5": {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="},
        "malformed MD5": {"Content-MD5": "?"},
        "only named": {"x-amz-sdk-checksum-algorithm": "CRC32"},
    }.items():
        ask(f"checksum: {kind}", "PUT", "ray/sum", body=DATA, headers=sent)
    ask("checksum: put again", "PUT", "ray/sum", body=DATA, headers={"x-amz-checksum-crc32": CRC32})
    ask("checksum: read again", "GET", "ray/sum", headers={"x-amz-checksum-mode": "ENABLED"})


NAMES = (
    *("n/a/", "n/ ", "n/a ", "n/\\x", "n/%41", "n/+", "n/é", "n/e\u0301", "n/😀", "n/a\nb", "n/a\tb", "n/:"),
    *("n/a*b?c", "n/a<b>&c'\"", "n/~", "n/.hidden", "n/_-.!~*'()", "n/" + "/".join(["z" * 200] * 4)),
    *("n/a//b", "n/./a", "n/../a", "n/..", "n/", "n/a\rb", "n/a\x01b", "n/a\x00b"),
    *("n/" + "x" * 300, "n/" + "y/" * 600),
)


def names(ask: Asker) -> None:
    for name in NAMES:
        ask(f"name {shown(name)}", "PUT", f"ray/{name}", body=DATA)
        ask(f"name {shown(name)}, read", "GET", f"ray/{name}")
        ask.training.ask("DELETE", f"ray/{name}")


def shown(name: str) -> str:
    """A name of an object in a test's words."""
    return repr(name) if len(name) < 40 else f"{name[:4]}... of {len(name)}"


def listings(ask: Asker) -> None:
    for key in ("l/a", "l/b/1", "l/b/2", "l/c", "l/d/", "l/d/x", "l/é", "l/Z", "l/a b", "l/a+b", "l/a%b"):
        ask.training.ask("PUT", f"ray/{key}", body=DATA)
    newer = [("list-type", "2"), ("prefix", "l/")]
    older = [("prefix", "l/")]
    folders = ("delimiter", "/")
    for name, query in {
        "all": newer,
        "folders": [*newer, folders],
        "no names": [*newer, ("max-keys", "0")],
        "negative": [*newer, ("max-keys", "-1")],
        "no number": [*newer, ("max-keys", "x")],
        "from a name": [*newer, ("start-after", "l/b/1")],
        "folders from a name": [*newer, ("start-after", "l/b"), folders],
        "another delimiter": [*newer, ("delimiter", "b")],
        "a name": [("list-type", "2"), ("prefix", "l/a")],
        "nothing": [("list-type", "2"), ("prefix", "zz")],
        "encoded": [*newer, ("encoding-type", "url")],
        "another encoding": [*newer, ("encoding-type", "base64")],
        "no token": [*newer, ("continuation-token", "zzz")],
        "older": older,
        "older from a name": [*older, ("marker", "l/a")],
        "older folders": [*older, folders],
        "older folders from a name": [*older, ("marker", "l/b/"), folders],
    }.items():
        ask(f"list: {name}", "GET", "ray", query)
    pages(ask, "pages", [*newer, folders], "continuation-token", "NextContinuationToken")
    pages(ask, "older pages", [*older, folders], "marker", "NextMarker")
    ask.training.ask("PUT", "ray/par", body=DATA)
    ask("below an object", "PUT", "ray/par/child", body=DATA)
    ask("below an object, read", "GET", "ray/par/child")
    ask("below an object, list", "GET", "ray", [("list-type", "2"), ("prefix", "par")])
    for key in ("par", "par/child"):
        ask.training.ask("DELETE", f"ray/{key}")


def pages(ask: Asker, name: str, query: list[tuple[str, str]], parameter: str, element: str) -> None:
    token = ""
    for number in range(9):
        more = [(parameter, token)] if token else []
        answer = ask(f"{name}, {number}", "GET", "ray", [*query, ("max-keys", "2"), *more])
        token = value(answer.text, element)
        if not token:
            return


def begin(ask: Asker, key: str) -> str:
    return value(ask.training.ask("POST", f"ray/{key}", [("uploads", "")]).text, "UploadId")


def part(ask: Asker, name: str, key: str, upload: str, number: object, body: bytes) -> str:
    query = [("partNumber", str(number)), ("uploadId", upload)]
    return str(ask(name, "PUT", f"ray/{key}", query, body).headers.get("etag", ""))


def complete(ask: Asker, name: str, key: str, upload: str, etags: Iterable[tuple[int, str]]) -> None:
    listed = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in etags)
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    ask(name, "POST", f"ray/{key}", [("uploadId", upload)], body)


def uploads(ask: Asker) -> None:
    upload = begin(ask, "m")
    etags = [(n, part(ask, f"part {n}", "m", upload, n, data)) for n, data in ((2, MIB5), (5, b"x"))]
    for number in (0, 10_001, -1, "x"):
        part(ask, f"part {number}", "m", upload, number, b"x")
    part(ask, "part of another key", "other", upload, 1, b"x")
    part(ask, "part of no upload", "m", "none", 1, b"x")
    ask("parts", "GET", "ray/m", [("uploadId", upload)])
    ask("uploads", "GET", "ray", [("uploads", ""), ("prefix", "m")])
    complete(ask, "complete: wrong order", "m", upload, reversed(etags))
    complete(ask, "complete: wrong ETag", "m", upload, [etags[0], (5, ANOTHER)])
    complete(ask, "complete: unknown part", "m", upload, [*etags, (6, etags[1][1])])
    complete(ask, "complete: nothing", "m", upload, [])
    complete(ask, "complete", "m", upload, etags)
    ask("completed", "HEAD", "ray/m")
    ask("completed, a range", "GET", "ray/m", headers={"Range": f"bytes={len(MIB5) - 1}-"})
    complete(ask, "complete again", "m", upload, etags)
    small = begin(ask, "s")
    etags = [(n, part(ask, f"small part {n}", "s", small, n, b"x")) for n in (1, 2)]
    complete(ask, "complete: small parts", "s", small, etags)
    ask("abort", "DELETE", "ray/s", [("uploadId", small)])
    part(ask, "part after the abort", "s", small, 1, b"x")
    ask("abort again", "DELETE", "ray/s", [("uploadId", small)])
    ask("uploads, none", "GET", "ray", [("uploads", ""), ("prefix", "s")])


def deletions(ask: Asker) -> None:
    for name, inner in {
        "two": "<Object><Key>m</Key></Object><Object><Key>never</Key></Object>",
        "quiet": "<Quiet>true</Quiet><Object><Key>sum</Key></Object>",
        "none": "",
        "too many": "<Object><Key>x</Key></Object>" * 1001,
    }.items():
        delete_many(ask, f"delete {name}", "ray", f"<Delete>{inner}</Delete>".encode())
    delete_many(ask, "delete: no XML", "ray", b"<Del")
    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    ask("delete without MD5", "POST", "ray", [("delete", "")], body)
    ask("put after it", "PUT", "ray/a", body=DATA)
    delete_many(ask, "delete in another bucket", "others", body)


def delete_many(ask: Asker, name: str, bucket: str, body: bytes) -> None:
    digest = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    ask(name, "POST", bucket, [("delete", "")], body, digest)


def copies(ask: Asker) -> None:
    for name, source, more in (
        ("copy", "/ray/a", {}),
        ("copy: If-Match", "/ray/a", {"x-amz-copy-source-if-match": ANOTHER}),
        ("copy: If-None-Match", "/ray/a", {"x-amz-copy-source-if-none-match": f'"{ETAG}"'}),
        ("copy: missing", "/ray/never", {}),
        ("copy: another bucket", "/others/a", {}),
        ("copy: no source", "ray", {}),
        ("copy: another directive", "/ray/a", {"x-amz-metadata-directive": "MERGE"}),
        ("copy: a version", "/ray/a?versionId=abc", {}),
    ):
        ask(name, "PUT", "ray/copied", headers={"x-amz-copy-source": source, **more})
    onto = {"x-amz-copy-source": "/ray/a"}
    ask("copy onto itself", "PUT", "ray/a", headers=onto)
    ask("copy with metadata", "PUT", "ray/a", headers={**onto, "x-amz-meta-a": "new"} | REPLACE)
    ask("copied with metadata", "HEAD", "ray/a")


REPLACE = {"x-amz-metadata-directive": "REPLACE"}


def settings(ask: Asker) -> None:
    """What the key of jobs may not do, and the buckets of the root key."""
    for setting in ("acl", "policy", "versioning", "tagging", "lifecycle", "cors", "encryption", "website"):
        ask(f"read the bucket's {setting}", "GET", "ray", [(setting, "")])
    for setting in ("acl", "tagging", "retention", "legal-hold"):
        ask(f"read an object's {setting}", "GET", "ray/a", [(setting, "")])
    ask("change the bucket's policy", "PUT", "ray", [("policy", "")], b"{}")
    ask("change an object's tags", "PUT", "ray/a", [("tagging", "")], b"<Tagging/>")
    ask("location", "GET", "ray", [("location", "")])
    ask("buckets", "GET", "")
    ask("make a bucket", "PUT", "others")
    ask("remove the bucket", "DELETE", "ray")
    for name in ("A", "ab", "a_b", "-ab", "a..b", "192.168.1.1", "x" * 64, "abc.-d"):
        ask(f"bucket {name[:12]}", "PUT", name, root=True)
    ask("make the bucket again", "PUT", "ray", root=True)
    ask("remove a full bucket", "DELETE", "ray", root=True)
    ask("make another bucket", "PUT", "others", root=True)
    ask("look at another bucket", "HEAD", "others")
    ask("list another bucket", "GET", "others", [("list-type", "2")])
    ask("remove another bucket", "DELETE", "others", root=True)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, str]:
    """Questions that two servers answer otherwise -> both answers."""
    names = sorted({*one, *other})
    return {
        name: f"{one.get(name)} | {other.get(name)}" for name in names if one.get(name) != other.get(name)
    }
