"""Presigned URLs of AWS Signature Version 2, which boto3 makes for a store of its own address by default.

What is signed: AWS, "Signing and authenticating REST requests", its part "Query string request
authentication alternative" (https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html).
What is refused, and how: MinIO (cmd/signature-v2.go). As there, headers count only as headers, not where the
query repeats them, a parameter without `=` makes a URL invalid, and `Expires` may lie as far ahead as wanted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import datetime

from botocore.auth import HmacV1Auth

from lab.host.serving import Environ
from lab.store.server.keys import Key, Keyring, RefusalError

ACCESS_KEY = "AWSAccessKeyId"
PARAMETERS = frozenset({ACCESS_KEY, "Signature", "Expires", "content-md5", "content-type"})
"""Query parameters of the signature. The last two repeat signed headers."""

SUBRESOURCES = frozenset(HmacV1Auth.QSAOfInterest)
"""Query parameters that are signed: those of the document, and newer ones as botocore signs them."""

INSTEAD = "boto3 signs the newer way with Config(signature_version='s3v4')"


def verify(
    environ: Environ,
    raw_path: str,
    query: Sequence[tuple[str, str]],
    keys: Keyring,
    now: datetime,
) -> Key:
    """The key that signed a presigned URL; `query` is decoded. Raises RefusalError."""
    parameters = dict(query)
    expires = parameters.get("Expires", "")
    if not (parameters.get(ACCESS_KEY) and parameters.get("Signature") and expires):
        raise _invalid(f"a presigned URL needs {ACCESS_KEY}, Signature and Expires")
    for part in environ.get("QUERY_STRING", "").split("&"):
        if "=" not in part:
            raise _invalid(f"{part or 'an empty parameter'} in a presigned URL has no value; {INSTEAD}")
    key = keys.get(parameters[ACCESS_KEY])
    if not re.fullmatch(r"-?[0-9]{1,18}", expires):
        raise _invalid("Expires must be the seconds since 1970 as a number")
    if int(expires) < int(now.timestamp()):
        raise RefusalError(403, "AccessDenied", "the presigned URL has expired")
    text = string_to_sign(environ, raw_path, query, expires)
    digest = hmac.new(key.credentials.secret_key.encode(), text, hashlib.sha1).digest()
    if not hmac.compare_digest(base64.b64encode(digest), parameters["Signature"].encode()):
        what = "the presigned URL was not made for this request with this key's secret"
        raise RefusalError(403, "SignatureDoesNotMatch", f"{what}; {INSTEAD}")
    return key


def string_to_sign(environ: Environ, raw_path: str, query: Sequence[tuple[str, str]], expires: str) -> bytes:
    """The document's StringToSign, with Expires in place of the date."""
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_X_AMZ_")
    }
    amz = [f"{name}:{value.strip()}" for name, value in sorted(headers.items())]
    md5, kind = environ.get("HTTP_CONTENT_MD5", ""), environ.get("CONTENT_TYPE", "")
    head = "\n".join([environ["REQUEST_METHOD"], md5.strip(), kind.strip(), expires, *amz, raw_path])
    signed = sorted((pair for pair in query if pair[0] in SUBRESOURCES), key=lambda pair: pair[0])
    resource = "&".join(f"{name}={value}" if value else name for name, value in signed)
    return head.encode("latin-1") + (f"?{resource}" if resource else "").encode()  # WSGI's text is latin-1


def _invalid(message: str) -> RefusalError:
    return RefusalError(400, "AuthorizationQueryParametersError", message)
