"""Retry policies: defaults, limits, exit codes, and AppWrapper's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.queue_requests import Retry
from lab.cli.queue_options import read_annotations
from lab.cluster.retries import PREFIX, RetryPolicy, exit_codes, of_annotations
from lab.errors import UsageError


def test_the_defaults_are_those_of_appwrapper() -> None:
    policy = RetryPolicy()
    assert (policy.limit, policy.pause, policy.warmup, policy.failure_grace) == (3, 90, 300, 60)
    assert policy.success_ttl == 7 * 24 * 3600
    assert not policy.terminal(1)


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": -1},
        {"pause": 24 * 3600 + 1},
        {"warmup": float("nan")},
        {"failure_grace": -1},
        {"terminal_exit_codes": (0,)},
        {"retryable_exit_codes": (256,)},
        {"terminal_exit_codes": (2,), "retryable_exit_codes": (2, 3)},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RetryPolicy(**fields)


def test_a_success_may_be_kept_longer_than_any_other_period() -> None:
    assert RetryPolicy(success_ttl=30 * 24 * 3600).success_ttl == 30 * 24 * 3600


def test_a_policy_survives_its_document() -> None:
    policy = RetryPolicy(2, 1, 2, 3, (2, 3), (5,), 9)
    document = json.loads(json.dumps(plain(policy)))
    assert RetryPolicy(**vars(parse(Retry, document, "the policy"))) == policy
    with pytest.raises(UsageError, match="more is unknown"):
        parse(Retry, {"more": 1}, "the policy")


@pytest.mark.parametrize("text", ["", ",", "two", "2;3", "-1", "1000000"])
def test_a_list_of_exit_codes_is_numbers(text: str) -> None:
    with pytest.raises(UsageError, match="--codes"):
        exit_codes(text, "--codes")


def test_exit_codes_of_a_list() -> None:
    assert exit_codes("2, 3,2", "--codes") == (2, 3)


def test_annotations_of_an_appwrapper() -> None:
    fields, left_out = of_annotations(
        {
            f"{PREFIX}retryLimit": "5",
            f"{PREFIX}retryPausePeriodDuration": "1m30s",
            f"{PREFIX}warmupGracePeriodDuration": "500ms",
            f"{PREFIX}failureGracePeriodDuration": "0",
            f"{PREFIX}successTTLDuration": "168h",
            f"{PREFIX}terminalExitCodes": "2,3",
            f"{PREFIX}retryableExitCodes": "5",
            f"{PREFIX}forcefulDeletionGracePeriodDuration": "10m",
            "kueue.x-k8s.io/queue-name": "a",
        },
        "a.yaml",
    )
    assert RetryPolicy(**fields) == RetryPolicy(5, 90, 0.5, 0, (2, 3), (5,), 168 * 3600)
    assert left_out == ("forcefulDeletionGracePeriodDuration",)


@pytest.mark.parametrize(
    ("ending", "value"),
    [
        ("retryLimit", "three"),
        ("retryPausePeriodDuration", "90"),
        ("retryPausePeriodDuration", "1m 30s"),
        ("terminalExitCodes", "a"),
        ("retrylimit", "3"),
    ],
)
def test_a_wrong_annotation_is_named(ending: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"a\.yaml.*{ending}"):
        of_annotations({f"{PREFIX}{ending}": value}, "a.yaml")


WRAPPER = f"""
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {{name: one, annotations: {{{PREFIX}retryLimit: "2"}}}}
"""


@pytest.mark.parametrize(
    "text",
    [WRAPPER, f'{PREFIX}retryLimit: "2"\n', f"{PREFIX}retryLimit: 2\n", f"kind: Secret\n---\n{WRAPPER}"],
    ids=["manifest", "annotations", "number", "several"],
)
def test_a_file_of_annotations(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert read_annotations(path) == ({"limit": 2}, ())


@pytest.mark.parametrize(
    "text", ["", "[1, 2]\n", "{", f"{WRAPPER}---{WRAPPER}", "a: 1\n---\nb: 2\n", "a: &a [*a]\n"]
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"a\.yaml"):
        read_annotations(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_annotations(tmp_path / "none.yaml")
