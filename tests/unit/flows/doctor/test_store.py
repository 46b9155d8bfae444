"""`doctor --s3`: which key it takes, and how findings become checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.flows.doctor.store import endpoints_of, find_key, store_checks
from lab.store.conformance import QUESTIONS
from lab.topology import Credentials, Endpoints
from tests.unit.store.s3_wsgi import HOST, TRAINING, Server, WsgiPool

KEY = Credentials("access", "secret")
LABS = Credentials("labs-access", "labs-secret")
SOME = tuple(q for q in QUESTIONS if q.name in ("directory markers", "wrong keys"))


def lab() -> Endpoints:
    return Endpoints("http://127.0.0.1:8265", "ray-head:6379", HOST, LABS, "token")


def nowhere() -> None:
    return None


def test_a_profile_chooses_the_section(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(
        "[default]\naws_access_key_id=x\naws_secret_access_key=x\n"
        "[mine]\naws_access_key_id=access\naws_secret_access_key=secret%1\n"
    )
    key = find_key(HOST, tmp_path / "key", {"AWS_PROFILE": "mine"}, nowhere)
    assert key == Credentials("access", "secret%1")


@pytest.mark.parametrize(
    ("url", "environment", "key"),
    [
        (HOST, {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}, KEY),
        (HOST, {}, LABS),
        (f"{HOST}/", {}, LABS),
        ("http://127.0.0.1:1", {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}, KEY),
    ],
)
def test_without_a_file_the_environment_counts_then_the_labs_own_key(
    url: str, environment: Mapping[str, str], key: Credentials
) -> None:
    assert find_key(url, None, environment, lab) == key


def test_the_aws_file_of_the_environment_counts_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("[default]\naws_access_key_id = access\naws_secret_access_key = secret\n")
    environment = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "key")}
    assert find_key(HOST, None, environment, lab) == KEY


def test_a_strangers_store_does_not_get_the_labs_key() -> None:
    with pytest.raises(UsageError, match=r"no key .*http://example") as caught:
        find_key("http://example:9000", None, {}, lab)
    assert "--s3-credentials" in caught.value.hint


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "objects")
    server("PUT", "/ray")
    yield server
    server.die()


def test_every_finding_is_a_check(server: Server) -> None:
    environment = {"AWS_ACCESS_KEY_ID": TRAINING.access_key, "AWS_SECRET_ACCESS_KEY": TRAINING.secret_key}
    checks = store_checks(HOST, "ray", environment=environment, questions=SOME, http=WsgiPool(server))
    assert [(c.name, c.outcome) for c in checks] == [
        ("bucket", "passed"),
        ("directory markers", "passed"),
        ("wrong keys", "passed"),
        ("cleaned up", "passed"),
    ]
    assert "raylab-standin" in checks[0].detail


def test_a_bucket_that_may_not_be_used_fails_with_what_to_do(server: Server, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(json.dumps(vars(TRAINING)))
    checks = store_checks(HOST, "other", tmp_path / "key", questions=SOME, http=WsgiPool(server))
    assert (checks[0].outcome, checks[0].hint != "") == ("failed", True)
    assert {c.outcome for c in checks[1:]} == {"skipped"}


def test_an_address_that_is_none_is_a_wrong_use() -> None:
    with pytest.raises(UsageError, match="--s3 'minio:9000'"):
        store_checks("minio:9000", "ray", environment={})


def test_a_runtime_that_cannot_be_has_no_endpoints() -> None:
    assert endpoints_of("raylab", "no-such-runtime") is None
