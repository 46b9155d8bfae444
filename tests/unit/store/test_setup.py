"""The one-shot set-up of an object store, over the stand-in server and over MinIO's admin API in memory."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError

from lab.errors import StoreError, UsageError, WaitTimeoutError
from lab.store import ObjectStore, setup
from lab.store.base import UnreachableStoreError
from lab.store.setup import POLICY, training_policy
from lab.topology import Credentials
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore
from tests.unit.store.admin_api import MinioPool
from tests.unit.store.s3_wsgi import CREDENTIALS, HOST, TRAINING, AnswerPool, Server, WsgiPool


@pytest.fixture
def minio(server: Server) -> MinioPool:
    return MinioPool(server, CREDENTIALS)


def run(pool: Any, key: Credentials = TRAINING, root: Credentials = CREDENTIALS) -> tuple[str, ...]:
    return setup.run(HOST, root, key, http=pool)


def test_the_stand_in_gets_its_bucket_once(server: Server) -> None:
    first, second = run(WsgiPool(server)), run(WsgiPool(server))
    assert first[0] == "bucket ray: made"
    assert second[0] == "bucket ray: there already"
    assert first[-1] == "training key: tried out, it reaches the bucket ray and no other"
    assert server.keys() == []


def test_minio_gets_bucket_policy_and_user(minio: MinioPool) -> None:
    done = run(minio)
    assert minio.policies == {POLICY: training_policy("ray")}
    assert minio.users == {
        TRAINING.access_key: {
            "status": "enabled",
            "secretKey": TRAINING.secret_key,
            "policyName": POLICY,
        }
    }
    assert done[0] == "bucket ray: made"
    assert f"policy {POLICY}: written" in done


def test_a_second_run_changes_nothing(minio: MinioPool) -> None:
    run(minio)
    before = (json.dumps(minio.users), json.dumps(minio.policies))
    done = run(minio)
    assert (json.dumps(minio.users), json.dumps(minio.policies)) == before
    assert done[0] == "bucket ray: there already"


def test_a_changed_secret_is_given_to_the_user(minio: MinioPool) -> None:
    minio.users[TRAINING.access_key] = {"status": "disabled", "secretKey": "another one", "policyName": "x"}
    run(minio)
    assert minio.users[TRAINING.access_key] == {
        "status": "enabled",
        "secretKey": TRAINING.secret_key,
        "policyName": POLICY,
    }


def test_a_former_training_key_is_removed_and_other_users_stay(minio: MinioPool) -> None:
    minio.users["former"] = {"status": "enabled", "secretKey": "12345678", "policyName": POLICY}
    minio.users["somebody"] = {"status": "enabled", "secretKey": "12345678", "policyName": "readonly"}
    assert "training key: a former one was removed" in run(minio)
    assert sorted(minio.users) == ["somebody", TRAINING.access_key]


def test_a_changed_policy_is_put_right(minio: MinioPool) -> None:
    minio.policies[POLICY] = {"Version": "2012-10-17", "Statement": []}
    run(minio)
    assert minio.policies[POLICY] == training_policy("ray")


def test_the_policy_names_one_bucket_and_grants_no_more_than_its_objects() -> None:
    statements = training_policy("ray")["Statement"]
    allowed = [s for s in statements if s["Effect"] == "Allow"]
    assert {r for s in allowed for r in s["Resource"]} == {"arn:aws:s3:::ray", "arn:aws:s3:::ray/*"}
    actions = {action for s in allowed for action in s["Action"]}
    assert not any("*" in action for action in actions)
    assert not actions & {"s3:CreateBucket", "s3:DeleteBucket", "s3:PutBucketPolicy", "s3:ListAllMyBuckets"}


def test_a_key_that_reaches_other_buckets_is_refused(server: Server) -> None:
    with pytest.raises(StoreError, match="not kept to"):
        run(WsgiPool(server), key=CREDENTIALS)


def test_a_training_key_that_does_not_work_is_told(server: Server) -> None:
    with pytest.raises(StoreError, match="access key"):
        run(WsgiPool(server), key=Credentials("stranger", "secret"))


def test_a_wrong_root_key_is_told_at_once(server: Server) -> None:
    with pytest.raises(StoreError, match="refuses the secret key"):
        run(WsgiPool(server), root=Credentials(CREDENTIALS.access_key, "wrong"))


@pytest.mark.parametrize(
    ("status", "body"), [(404, "404 page not found"), (403, "<?xml version='1.0'?><E/>")]
)
def test_a_store_without_an_admin_api_may_have_the_key_already(
    minio: MinioPool, server: Server, status: int, body: str
) -> None:
    minio.refuse["add-canned-policy"] = (status, body)
    server("PUT", "/ray")
    assert any("accepted already; not touched" in line for line in run(minio))


def test_a_store_without_an_admin_api_and_without_the_key_is_told(minio: MinioPool) -> None:
    minio.refuse["add-canned-policy"] = (404, "404 page not found")
    with pytest.raises(StoreError, match="no admin API") as caught:
        run(minio, key=Credentials("stranger", "secret"))
    assert "docs/store.md" in caught.value.hint


@pytest.mark.parametrize(("status", "named"), [(403, True), (404, False)])
def test_the_reason_of_a_store_that_refuses_in_s3s_words_is_told(
    minio: MinioPool, status: int, named: bool
) -> None:
    body = "<?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code></Error>"
    minio.refuse["add-canned-policy"] = (status, body)
    with pytest.raises(StoreError) as caught:
        run(minio, key=Credentials("stranger", "secret"))
    assert ("SignatureDoesNotMatch" in caught.value.message) == named
    assert ("no admin API" in caught.value.message) != named


@pytest.mark.parametrize("command", ["add-canned-policy", "add-user", "set-user-or-group-policy"])
def test_what_minio_refuses_is_told_with_its_reason(minio: MinioPool, command: str) -> None:
    minio.refuse[command] = (400, '{"Code": "XMinioSomething", "Message": "no such thing"}')
    with pytest.raises(StoreError, match="XMinioSomething"):
        run(minio)


def test_an_answer_of_a_user_list_that_cannot_be_opened_is_told(minio: MinioPool) -> None:
    minio.refuse["list-users"] = (200, "x" * 200)
    with pytest.raises(StoreError, match="list the users"):
        run(minio)


class Late(FakeObjectStore):
    """A store that answers from the call number `answers` on."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.calls, self.answers = itertools.count(1), answers
        self.clock = FakeClock(0.0)
        self.said: list[str] = []

    def ping(self) -> str:
        if next(self.calls) < self.answers:
            raise UnreachableStoreError("http://minio:9000 cannot be reached: Connection refused")
        return "MinIO"

    def wait(self, seconds: float = 60.0) -> str:
        return setup.wait_for(self, self.said.append, seconds=seconds, clock=self.clock)


def test_a_store_that_comes_late_is_waited_for_and_that_is_said() -> None:
    late = Late(answers=15)
    assert late.wait() == "MinIO"
    assert len(late.said) == 1
    assert "Connection refused" in late.said[0]


def test_a_store_that_never_comes_is_not_waited_for_for_ever() -> None:
    late = Late(answers=1000)
    with pytest.raises(WaitTimeoutError, match=r"20 s: .*Connection refused"):
        late.wait(20)
    assert late.clock() == 20


def test_a_store_that_is_not_ready_yet_counts_as_unreachable(server: Server) -> None:
    class Starting(WsgiPool):
        def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
            body = b"<Error><Code>XMinioServerNotInitialized</Code><Message>wait</Message></Error>"
            return urllib3.HTTPResponse(
                body, headers={"content-type": "application/xml"}, status=503, request_method=method
            )

    with pytest.raises(UnreachableStoreError, match="is not ready"):
        ObjectStore(HOST, CREDENTIALS, http=Starting(server)).ping()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    files = {
        "LAB_S3_ROOT_USER_FILE": CREDENTIALS.access_key,
        "LAB_S3_ROOT_PASSWORD_FILE": f"{CREDENTIALS.secret_key}\n",
        "LAB_S3_TRAINING_KEY_FILE": json.dumps(vars(TRAINING)),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return {"AWS_ENDPOINT_URL": HOST, **{name: str(tmp_path / name) for name in files}}


def test_as_a_program_it_says_what_it_did(server: Server, environment: dict[str, str]) -> None:
    said: list[str] = []
    assert setup.main(environment, say=said.append, http=WsgiPool(server)) == 0
    assert said[0].startswith(f"{HOST} is moto")
    assert said[-1] == "the object store is set up"
    assert not any(secret in line for line in said for secret in ("labsecret", "trainingsecret"))


def test_as_a_program_its_last_line_and_exit_code_say_what_failed(environment: dict[str, str]) -> None:
    dead = AnswerPool(NewConnectionError(HTTPConnection("minio", 9000), "Connection refused"))
    said: list[str] = []
    code = setup.main(environment, say=said.append, http=dead, clock=FakeClock())
    assert code == WaitTimeoutError.exit_code
    assert said[-1].startswith("the object store could not be set up: the object store does not answer after")


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("LAB_S3_ROOT_USER_FILE", "", "is empty"),
        ("LAB_S3_TRAINING_KEY_FILE", "{}", "holds no key"),
        ("LAB_S3_TRAINING_KEY_FILE", "hush-hush", "holds no key"),
        ("LAB_S3_ROOT_PASSWORD_FILE", None, "cannot be read"),
        ("AWS_ENDPOINT_URL", "", "is not set"),
    ],
)
def test_settings_that_are_wrong_are_told(
    environment: dict[str, str], tmp_path: Path, variable: str, text: str | None, message: str
) -> None:
    if variable == "AWS_ENDPOINT_URL":
        environment[variable] = ""
    elif text is None:
        Path(environment[variable]).unlink()
    else:
        Path(environment[variable]).write_text(text)
    said: list[str] = []
    assert setup.main(environment, say=said.append) == UsageError.exit_code
    assert message in said[-1]
    assert "hush-hush" not in said[-1]
