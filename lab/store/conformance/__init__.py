"""Examines if an S3 server does what Ray Train (through pyarrow) and labctl ask of it.

Asked is what servers were seen to do otherwise, and what Ray Train does through pyarrow. Each question
makes real requests below one prefix of its own, which is removed at the end; other objects are neither
read nor changed. All must pass for Ray and the lab to work.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

from lab.errors import StoreError
from lab.store.conformance.questions import QUESTIONS, Question
from lab.store.conformance.requests import Bench, DeviationError, S3Reply, SigningClient, SkippedError, value
from lab.topology import Check

__all__ = ["FOLDER", "QUESTIONS", "Question", "SigningClient", "examine", "reach"]

FOLDER = ".raylab/conformance"
"""Each run has a folder with a random name in it."""

REGION_HEADER = "x-amz-bucket-region"

OTHER_STORE = "use a store that does this: docs/store.md names those that were looked at"


def examine(
    client: SigningClient, bucket: str, *, questions: tuple[Question, ...] = QUESTIONS
) -> Iterator[Check]:
    """Ask everything, one answer after the other; a last one says whether the run's objects are gone.

    Nothing is raised: a server that is not reached, refuses the key or has no such bucket is a failed
    check, and the rest is skipped.
    """
    bench = Bench(client, bucket, f"{FOLDER}/{secrets.token_hex(8)}")
    reached = _reach(bench)
    yield reached
    if reached.outcome != "passed":
        yield from (Check(q.name, "skipped", "the bucket cannot be used") for q in questions)
        return
    try:
        for question in questions:
            yield _answer(bench, question)
    finally:
        left = _clean_up(bench)
    yield left


def _reach(bench: Bench) -> Check:
    name = "bucket"
    try:
        answer, refusal = reach(bench.client, bench.bucket)
    except StoreError as error:
        refusal = error
    if refusal is not None:
        return Check(name, "failed", refusal.message, refusal.hint)
    server = answer.headers.get("server", "a server that does not say its name")
    return Check(name, "passed", f"{bench.client.endpoint_url} ({server}) lists {bench.bucket}")


def reach(client: SigningClient, bucket: str) -> tuple[S3Reply, StoreError | None]:
    """The answer to a listing of the bucket, and the error that says why it cannot be used, if so.

    Raises UnreachableStoreError.
    """
    answer = client.ask("GET", bucket, [("list-type", "2"), ("max-keys", "1")])
    if answer.status == 200 and "ListBucketResult" in answer.text:
        return answer, None
    if 300 <= answer.status < 400:
        return answer, _elsewhere(client, bucket, answer)
    hints = {
        "NoSuchBucket": "make the bucket, or name another with --bucket",
        "InvalidAccessKeyId": "give the store's key with --s3-credentials",
        "XAdminUserNotFound": "give the store's key with --s3-credentials",
        "SignatureDoesNotMatch": "give the store's key with --s3-credentials; AWS_REGION must be the store's",
        "AccessDenied": "give the key the rights of docs/store.md, or name another bucket with --bucket",
        "RequestTimeTooSkewed": "set the clocks of this machine and of the store",
        "AuthorizationHeaderMalformed": _set_region(answer),
        "SlowDown": "try again when the store is less busy",
    }
    code = answer.code or "no S3 answer"
    detail = f"{client.endpoint_url} answers HTTP {answer.status} ({code}) for the bucket {bucket}"
    return answer, StoreError(detail, hints.get(code, "check the address: is it an S3 server?"))


def _set_region(answer: S3Reply) -> str:
    region = answer.headers.get(REGION_HEADER) or value(answer.text, "Region")
    return f"set AWS_REGION={region or 'to that of the store'}"


def _elsewhere(client: SigningClient, bucket: str, answer: S3Reply) -> StoreError:
    """The error for a store that wants to be asked elsewhere. Nothing follows: a key is for one address."""
    to = urlsplit(answer.headers.get("location", ""))
    host = to.netloc or value(answer.text, "Endpoint") or "HOST"
    code = f" ({answer.code})" if answer.code else ""
    by_region = REGION_HEADER in answer.headers
    return StoreError(
        f"{client.endpoint_url} answers HTTP {answer.status}{code} for the bucket {bucket}: it is elsewhere",
        _set_region(answer) if by_region else f"give its own address: --s3 {to.scheme or 'https'}://{host}",
    )


def _answer(bench: Bench, question: Question) -> Check:
    try:
        return Check(question.name, "passed", question.ask(bench))
    except SkippedError as error:
        return Check(question.name, "skipped", str(error))
    except DeviationError as error:
        return Check(question.name, "failed", f"{error} (needed for: {question.why})", OTHER_STORE)
    except StoreError as error:
        return Check(question.name, "failed", error.message, error.hint)


def _clean_up(bench: Bench) -> Check:
    name = "cleaned up"
    try:
        for _ in range(10):
            names = bench.keys()
            if not names:
                return Check(name, "passed", f"nothing is left below {bench.prefix}")
            for object_name in names:
                bench.object("DELETE", object_name)
        raise DeviationError("the objects stay in the listing")
    except (DeviationError, StoreError) as error:
        detail = f"objects below s3://{bench.bucket}/{bench.prefix} may be left: {error}"
        return Check(name, "warning", detail, "delete them by hand")
