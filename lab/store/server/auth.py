"""Verifies signatures of AWS version 4 for the stand-in S3 server.

botocore builds the canonical request and the signature; this module says what the client claims to have
signed. It also takes the framing off uploads that come in chunks (`aws-chunked`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

from botocore.auth import SIGV4_TIMESTAMP, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from werkzeug.wrappers import Request

from lab.host.serving import Environ
from lab.store.server.keys import Key, Keyring, RefusalError

MAX_SKEW = timedelta(minutes=15)
MAX_EXPIRY_SECONDS = 7 * 24 * 3600
CHUNK_LINE = re.compile(rb"([0-9a-fA-F]+)(?:;chunk-signature=([0-9a-f]{64}))?")
UNSIGNED = "UNSIGNED-PAYLOAD"
VERSION_4 = "sign with AWS4-HMAC-SHA256, in boto3 by Config(signature_version='s3v4')"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

SIGNED_ANYWAY = frozenset({"HTTP_X_AMZ_DATE", "HTTP_X_AMZ_CONTENT_SHA256"})
"""Headers whose values are part of a signature in a header, named there or not."""

DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "HTTP_CONTENT_MD5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
    "HTTP_X_AMZ_CHECKSUM_CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "HTTP_X_AMZ_CHECKSUM_SHA1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "HTTP_X_AMZ_CHECKSUM_SHA256": lambda data: hashlib.sha256(data).digest(),
}
"""Checksums of a body that the standard library can compute; others are kept unchecked."""


@dataclass(frozen=True)
class Signature:
    """A verified signature, and what is needed to verify the chunks that follow it."""

    key: Key
    """The key that made it."""
    payload: str = UNSIGNED
    """The X-Amz-Content-SHA256 that was signed, or UNSIGNED-PAYLOAD."""
    # The rest verifies chunks, each of which is signed with the signature before it.
    value: str = ""
    timestamp: str = ""
    scope: str = ""
    sign: Callable[[str], str] = str
    query: tuple[tuple[str, str], ...] = ()
    """The request's query as it was verified, decoded, with the parameters of the signature."""


class _ClaimedAuth(S3SigV4Auth):
    """botocore's signer, over exactly the headers that the client says it signed."""

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        return request.headers


def authenticate(environ: Environ, raw_path: str, keys: Keyring, now: datetime) -> Signature:
    """The verified signature of a request. Raises RefusalError; reads nothing of the body."""
    query = whole = tuple(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    header = environ.get("HTTP_AUTHORIZATION", "")
    if header:
        claim = _header_claim(header)
        timestamp = environ.get("HTTP_X_AMZ_DATE", "")
        payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256", EMPTY_SHA256)
        expires = None
    elif any(name == "X-Amz-Signature" for name, _ in query):
        claim = dict(query)
        timestamp = claim.get("X-Amz-Date", "")
        payload = claim.get("X-Amz-Content-Sha256", UNSIGNED)
        expires = claim.get("X-Amz-Expires", "")
        claim = {name.removeprefix("X-Amz-"): value for name, value in claim.items()}
        query = tuple((name, value) for name, value in query if name != "X-Amz-Signature")
    else:
        raise RefusalError(403, "AccessDenied", f"the request is not signed; {VERSION_4}")

    scope = claim.get("Credential", "").rsplit("/", 4)
    names = claim.get("SignedHeaders", "").lower().split(";")
    if len(scope) != 5 or scope[4] != "aws4_request" or "host" not in names or not claim.get("Signature"):
        raise RefusalError(
            400, "AuthorizationHeaderMalformed", "the signature lacks a part, or leaves out the host"
        )
    access_key, date, region, service, _ = scope
    if service != "s3":
        raise RefusalError(400, "AuthorizationParametersError", "the signature is made for another service")
    key = keys.get(access_key)
    _check_time(timestamp, date, expires, now)

    signer = _ClaimedAuth(key.credentials, service, region)
    request = AWSRequest(
        method=environ["REQUEST_METHOD"], url=_canonical_url(environ, raw_path), params=query
    )
    request.headers = HTTPHeaders()
    for name in names:
        request.headers[name] = _header(environ, name)
    request.context["timestamp"] = timestamp
    if "x-amz-content-sha256" not in names:
        signer.payload = lambda _: payload
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    expected = signer.signature(to_sign, request)
    if not hmac.compare_digest(expected.encode(), claim["Signature"].encode()):
        raise RefusalError(403, "SignatureDoesNotMatch", "the signature was not made with this key's secret")
    _check_headers(environ, {*map(_variable, names), *(SIGNED_ANYWAY if header else ())})
    return Signature(
        key,
        payload,
        expected,
        timestamp,
        signer.credential_scope(request),
        lambda text: str(signer.signature(text, request)),
        whole,
    )


@dataclass(frozen=True)
class S3Request:
    """A request whose signature is verified, and what it asks for."""

    signature: Signature
    path: str
    """As it came, percent-encoded."""
    bucket: str
    """Empty where the request names none, as `key` is."""
    key: str
    query: Mapping[str, Sequence[str]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The query's parameters, without those of the signature."""
        return tuple(pair for pair in self.signature.query if not is_of_signature(pair[0]))

    @property
    def parameters(self) -> set[str]:
        """Their names."""
        return {name for name, _ in self.pairs}


def verified(request: Request, keys: Keyring, now: datetime) -> S3Request:
    """The request, read and its signature verified; nothing of its body is. Raises RefusalError."""
    path = str(request.environ.get("RAW_URI", "/")).split("?", 1)[0]
    if not path.startswith("/") or path.startswith("//"):
        raise RefusalError(400, "InvalidURI", "the request's path must start with one slash")
    signature = authenticate(request.environ, path, keys, now)
    bucket, _, key = unquote(path)[1:].partition("/")
    query: dict[str, list[str]] = {}
    for name, value in signature.query:
        query.setdefault(name, []).append(value)
    return S3Request(signature, path, bucket, key, query)


def is_of_signature(parameter: str) -> bool:
    """True for a query parameter that belongs to a signature, not to the question."""
    return parameter.lower().startswith("x-amz-")


def open_body(signature: Signature, environ: Environ, body: bytes) -> bytes:
    """The data of a signed body, with its chunk framing removed and its checksums verified.

    Changes `environ` to fit the plain body. Raises RefusalError when the body is not what was signed.
    """
    payload = signature.payload
    if payload.startswith("STREAMING-"):
        body, trailers = _dechunk(signature, body)
        for name, value in trailers.items():
            environ[_variable(name)] = value
        declared = environ.pop("HTTP_X_AMZ_DECODED_CONTENT_LENGTH", None)
        if declared is not None and declared != str(len(body)):
            raise RefusalError(400, "IncompleteBody", f"{len(body)} bytes came, {declared} were announced")
        environ["HTTP_X_AMZ_CONTENT_SHA256"] = UNSIGNED
        encodings = environ.pop("HTTP_CONTENT_ENCODING", "").split(",")
        if kept := [e.strip() for e in encodings if e.strip() not in ("", "aws-chunked")]:
            environ["HTTP_CONTENT_ENCODING"] = ",".join(kept)
    elif payload != UNSIGNED and hashlib.sha256(body).hexdigest() != payload:
        raise RefusalError(400, "XAmzContentSHA256Mismatch", "the body is not the one that was signed")
    completes_upload = environ["REQUEST_METHOD"] == "POST" and "uploadId=" in environ.get("QUERY_STRING", "")
    if not completes_upload:  # there the checksum is the whole object's, not this body's
        for variable, digest in DIGESTS.items():
            if variable in environ:
                _check_digest(variable, environ[variable], digest(body))
    return body


def _check_digest(variable: str, claimed: str, actual: bytes) -> None:
    name = variable.removeprefix("HTTP_").replace("_", "-").lower()
    try:
        sent = base64.b64decode(claimed.strip(), validate=True)
    except ValueError:
        sent = b""
    if len(sent) != len(actual):
        code = "InvalidDigest" if name == "content-md5" else "InvalidArgument"
        raise RefusalError(400, code, f"{name} is not {len(actual)} bytes in base64")
    if sent != actual:
        raise RefusalError(400, "BadDigest", f"the body does not have the {name} that was sent with it")


def _header_claim(header: str) -> dict[str, str]:
    algorithm, _, rest = header.partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        raise RefusalError(400, "InvalidRequest", VERSION_4)
    parts = (part.strip().partition("=") for part in rest.split(","))
    return {name: value for name, _, value in parts}


def _check_time(timestamp: str, date: str, expires: str | None, now: datetime) -> None:
    try:
        signed = datetime.strptime(timestamp, SIGV4_TIMESTAMP).replace(tzinfo=timezone.utc)
        lifetime = None if expires is None else int(expires)
    except ValueError:
        raise RefusalError(403, "AccessDenied", "the signature's date or expiry is unreadable") from None
    if not timestamp.startswith(date):
        raise RefusalError(403, "SignatureDoesNotMatch", "the signature's two dates differ")
    if lifetime is None:
        if abs(now - signed) > MAX_SKEW:
            raise RefusalError(403, "RequestTimeTooSkewed", "the request was signed at another time of day")
    elif not 0 < lifetime <= MAX_EXPIRY_SECONDS or signed - now > MAX_SKEW:
        raise RefusalError(403, "AccessDenied", "the signature's date or expiry is out of range")
    elif now > signed + timedelta(seconds=lifetime):
        raise RefusalError(403, "AccessDenied", "the signature has expired")


def _check_headers(environ: Environ, signed: set[str]) -> None:
    """Refuse an `x-amz-` header that whoever signed the request does not know of. Raises RefusalError.

    Such headers change what a request does: `x-amz-copy-source` makes a copy of an upload.
    """
    unsigned = sorted(name for name in environ if name.startswith("HTTP_X_AMZ_") and name not in signed)
    if unsigned:
        names = ", ".join(name[5:].replace("_", "-").lower() for name in unsigned)
        raise RefusalError(403, "AccessDenied", f"headers that the signature leaves out: {names}")


def _canonical_url(environ: Environ, raw_path: str) -> str:
    path = quote(unquote_to_bytes(raw_path), safe="/~")
    return f"http://{environ.get('HTTP_HOST', '')}{path}"


def _variable(name: str) -> str:
    variable = name.strip().upper().replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"


def _header(environ: Environ, name: str) -> str:
    value = str(environ.get(_variable(name), ""))
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _dechunk(signature: Signature, body: bytes) -> tuple[bytes, dict[str, str]]:
    """The data and the trailing headers of an aws-chunked body; signed chunks are verified."""
    signed = signature.payload.startswith("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    if not signed and signature.payload != "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
        raise RefusalError(501, "NotImplemented", f"unknown payload {signature.payload}")
    previous, position, chunks = signature.value, 0, []
    while True:
        end = body.find(b"\r\n", position)
        match = CHUNK_LINE.fullmatch(body[position : max(end, 0)])
        if end < 0 or match is None:
            raise RefusalError(400, "IncompleteBody", "the chunked body ends early or is malformed")
        size = int(match[1], 16)
        chunk = body[end + 2 : end + 2 + size]
        if len(chunk) < size:
            raise RefusalError(400, "IncompleteBody", "the chunked body ends early")
        if signed:
            claimed = (match[2] or b"").decode()
            previous = _check_chained(signature, "PAYLOAD", previous, [b"", chunk], claimed)
        position = end + 2 + size
        if not size:
            break
        chunks.append(chunk)
        position += 2
    trailers = {}
    for line in body[position:].decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            trailers[name.strip().lower()] = value.strip()
    trailer_signature = trailers.pop("x-amz-trailer-signature", "")
    if signed and trailers:
        text = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        _check_chained(signature, "TRAILER", previous, [text.encode()], trailer_signature)
    return b"".join(chunks), {n: v for n, v in trailers.items() if n.startswith("x-amz-checksum-")}


def _check_chained(signature: Signature, kind: str, previous: str, parts: list[bytes], claimed: str) -> str:
    hashes = [hashlib.sha256(part).hexdigest() for part in parts]
    lines = [f"AWS4-HMAC-SHA256-{kind}", signature.timestamp, signature.scope, previous, *hashes]
    expected = signature.sign("\n".join(lines))
    if not hmac.compare_digest(expected, claimed):
        raise RefusalError(403, "SignatureDoesNotMatch", "a chunk of the body is not the one that was signed")
    return expected
