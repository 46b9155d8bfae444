"""Retry policies: defaults, limits and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.queue_requests import Retry
from lab.cluster.retries import RetryPolicy, exit_codes, policy_of
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
    assert policy_of(parse(Retry, document, "the policy")) == policy
    with pytest.raises(UsageError, match="more is unknown"):
        parse(Retry, {"more": 1}, "the policy")


@pytest.mark.parametrize("text", ["", ",", "two", "2;3", "-1", "1000000"])
def test_a_list_of_exit_codes_is_numbers(text: str) -> None:
    with pytest.raises(UsageError, match="--codes"):
        exit_codes(text, "--codes")


def test_exit_codes_of_a_list() -> None:
    assert exit_codes("2, 3,2", "--codes") == (2, 3)
