"""Labs of plain processes on object stores of their own owners: there before, with a key and a bucket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.services import STORE
from lab.store import ObjectStore, upstream
from lab.store.upstream import Upstream
from tests.e2e.chaos import StoreChaosTests
from tests.e2e.harness import ROOT, UP, Bench, Ended, Running, Shell
from tests.e2e.receipts import assert_recovered
from tests.e2e.servers import S3Server
from tests.stores import BUCKET, KEY, STORES, free_port, self_signed, store_of


@dataclass
class There:
    """A lab on a store that was there before, and how it is started."""

    bench: Bench
    store: Upstream
    options: tuple[str, ...]

    @property
    def objects(self) -> list[str]:
        """The objects of the bucket, as the store's owner sees them."""
        owner = ObjectStore(self.store.url, self.store.credentials, bucket=BUCKET)
        return [entry.key for entry in owner.list()]


@pytest.fixture(scope="module", params=STORES)
def make(request: pytest.FixtureRequest) -> str:
    """The make of the store."""
    return str(request.param)


@pytest.fixture(scope="module")
def there(make: str, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    """A lab that is down, and its store, which has no bucket yet."""
    folder = tmp_path_factory.mktemp(make)
    key = folder / "key.ini"
    key.write_text(
        f"[default]\naws_access_key_id = {KEY.access_key}\naws_secret_access_key = {KEY.secret_key}\n"
    )
    key.chmod(0o600)
    bench = Bench(home, "there")
    with store_of(make, folder, free_port()) as store:
        options = ("--s3", store.url, "--s3-credentials", str(key), "--bucket", BUCKET)
        try:
            yield There(bench, store, options)
        finally:
            bench.remove()


@pytest.fixture
def up(there: There) -> There:
    """The lab, up."""
    there.bench.labctl(*UP, *there.options, "--yes")
    return there


def test_a_key_that_is_wrong_and_a_store_that_is_gone_start_nothing(there: There, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"access_key": KEY.access_key, "secret_key": "wrong"}))
    key.chmod(0o600)
    wrong = (*UP, *there.options, "--s3-credentials", str(key), "--yes")
    assert "SignatureDoesNotMatch" in there.bench.labctl(*wrong, code=13).err
    gone = (*UP, *there.options, "--s3", f"http://127.0.0.1:{free_port()}", "--yes")
    assert "cannot be reached" in there.bench.labctl(*gone, code=13).err
    key.chmod(0o644)
    assert "others may read" in there.bench.labctl(*wrong, code=11).err
    assert there.bench.processes() == {}


@pytest.mark.parametrize("make", ["versitygw"], indirect=True)
def test_over_tls_a_store_is_used_whose_certificate_is_named_and_no_other(
    there: There, make: str, tmp_path: Path
) -> None:
    right, other = (
        self_signed(tmp_path / f"{name}.pem", f"IP:{address}")
        for name, address in (("right", "127.0.0.1"), ("other", "127.0.0.9"))
    )
    up = (*UP, *there.options, "--yes", "--s3")
    with store_of(make, tmp_path, free_port(), certificate=right) as store:
        assert "self-signed certificate" in there.bench.labctl(*up, store.url, code=27).err
        none = there.bench.labctl(*up, store.url, "--s3-ca", there.options[3], code=2)
        assert "the file holds no certificates" in none.err
        plain = there.bench.labctl(*up, store.url.replace("https", "http"), code=13)
        assert "the connection broke" in plain.err or "no S3 answer" in plain.err
        doctor = ("doctor", "--s3", store.url, "--s3-credentials", there.options[3], "--bucket", BUCKET)
        assert "not trusted: its certificate" in there.bench.labctl(*doctor, code=15).out
        upstream.check(store, lambda _: None)
        checked = there.bench.labctl(*doctor, "--s3-ca", str(right), "--json", code=15).document["checks"]
        assert [check["name"] for check in checks_failed(checked)] == ["wrong keys"]
        gateway = S3Server("gateway", tmp_path / "gateway", store)
        try:
            gateway.start()
            gateway.store.put("a", b"data")
            assert gateway.store.get("a") == b"data"
        finally:
            gateway.kill()
    (folder := tmp_path / "elsewhere").mkdir()
    with store_of(make, folder, free_port(), certificate=other) as store:
        said = there.bench.labctl(*up, store.url, "--s3-ca", str(other), code=27).err
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in said
    assert there.bench.processes() == {}


def checks_failed(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that did not pass."""
    return [check for check in checks if check["outcome"] != "passed"]


def test_a_training_keeps_its_checkpoints_there_and_the_key_is_nowhere(there: There, make: str) -> None:
    refused = there.bench.labctl(*UP, *there.options, code=11)
    assert f"has no bucket {BUCKET}" in refused.err
    assert there.bench.processes() == {}
    there.bench.labctl(*UP, *there.options, "--yes")
    job = there.bench.digits(epochs=2)
    there.bench.succeeds(job)
    assert any("checkpoint" in name for name in there.objects)
    assert any(name.startswith(f".raylab/ledger/{job}") for name in there.objects)

    status = there.bench.labctl("status", "--json")
    (store,) = [service for service in status.document["services"] if service["service"] == STORE]
    assert f"gateway to {there.store.url}, bucket {BUCKET}" in store["detail"]

    shown = [status.out, there.bench.labctl("status", "--show-secrets", "--json").out]
    shown += [path.read_text(errors="replace") for path in (there.bench.folder / "logs").glob("*.log")]
    holders = []
    for process in there.bench.processes().values():
        words = str((process.cmdline(), process.environ()))
        shown.append(words)
        holders += [process.pid] if "--upstream" in words else []
    assert [text[:200] for text in shown if KEY.secret_key in text] == []
    assert len(holders) == 1, "the gateway alone knows where the key is"

    there.bench.labctl("down")
    assert f"bucket {BUCKET} at {there.store.url}" in there.bench.labctl("status").out
    before = there.objects
    said = there.bench.labctl("down", "--volumes", "--yes").out
    assert f"stored objects: kept in bucket {BUCKET} at {there.store.url}" in said
    assert "deleted" not in said
    assert there.objects == before
    assert not (there.bench.folder / "secrets" / "s3-upstream.json").exists()


@pytest.mark.rare
def test_a_lab_that_was_down_finds_its_objects_again(up: There) -> None:
    up.bench.lab.store.put("mine", b"data")
    up.bench.labctl("down")
    assert "up --no-s3` starts a store" in up.bench.labctl(*UP).err
    assert up.bench.lab.store.get("mine") == b"data"
    up.bench.labctl("down")
    assert f"stay in bucket {BUCKET}" in up.bench.labctl(*UP, "--no-s3").err
    assert not up.bench.lab.store.exists("mine")
    up.bench.labctl("down")


@pytest.mark.rare
def test_one_command_breaks_and_proves_the_recovery_on_a_store_that_is_there(up: There) -> None:
    ended = up.bench.labctl("demo", "--epochs", "8", "--json", timeout=480)
    _, receipt = ended.documents
    assert_recovered(receipt)
    assert receipt["checkpoint"]["uri"].startswith("s3://ray/")
    check_judged_from_there(up, receipt)


def check_judged_from_there(there: There, receipt: Mapping[str, Any]) -> None:
    """`labctl receipt` says the same of the bucket itself, by a key in a file, and what is wrong."""
    key, other = Path(there.options[3]), there.bench.home / "other.ini"
    other.write_text(key.read_text().replace(KEY.secret_key, "0" * 20))
    job, before = receipt["job"]["submission_id"], there.objects

    def judged(
        file: Path, job: str, bucket: str = BUCKET, url: str = there.store.url, code: int = 0
    ) -> Ended:
        place = ("--storage", f"s3://{bucket}", "--endpoint", url, "--json")
        given = {**there.bench.environment, "AWS_SHARED_CREDENTIALS_FILE": str(file)}
        argv = (sys.executable, str(ROOT / "labctl.py"), "receipt", job, *place)
        ended = Running(argv, given, there.bench.home).end()
        assert ended.code == code, ended
        return ended

    again = judged(key, job).document
    assert (again["verdict"], again["attempts"], again["checkpoint"]) == (
        "recovered",
        receipt["attempts"],
        receipt["checkpoint"],
    )
    assert there.objects == before
    assert job in judged(key, "other", code=3).err
    nobody = f"http://127.0.0.1:{free_port()}"
    for ended, words in (
        (judged(other, job, code=13), "refuses the secret key"),
        (judged(key, job, "nowhere", code=13), "has no bucket 'nowhere'"),
        (judged(key, job, url=nobody, code=13), "cannot be reached"),
    ):
        assert words in ended.err
        assert "check --storage, --endpoint and the key" in ended.err


@pytest.mark.rare
class TestUpstreamChaos(StoreChaosTests):
    @pytest.fixture
    def shell(self, up: There) -> Shell:
        return up.bench
