"""Values that a person types are understood or refused."""

from __future__ import annotations

import click
import pytest

from lab.cli import format, values
from lab.errors import UsageError

AFTER = click.Option(["--after"])


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("7", 7.0),
        ("1.5", 1.5),
        (".5s", 0.5),
        (" 3S ", 3.0),
        ("3600", 3600.0),
    ],
)
def test_durations(written: str, seconds: float) -> None:
    assert values.Duration().convert(written, AFTER, None) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "not a duration"),
        ("soon", "not a duration"),
        ("10x", "not a duration"),
        ("1s2s", "not a duration"),
        ("nan", "not a duration"),
        ("inf", "not a duration"),
        ("1e9", "not a duration"),
        ("-1s", "more than zero"),
        ("0", "more than zero"),
        ("0ms", "more than zero"),
        ("61m", "at most 1 hour"),
        ("3601", "at most 1 hour"),
        ("9" * 400, "at most 1 hour"),
    ],
)
def test_absurd_durations_are_refused(written: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        values.Duration().convert(written, AFTER, None)
    assert caught.value.message.startswith("--after ")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a" * 240, "a" * 240),
        ("a" * 1000, "a" * 180 + "[... 1000 characters ...]" + "a" * 60),
        ("x " * 5000, "x " * 375 + "[... 10000 characters ...]" + "x " * 125),
        ("short and\nsweet", "short and\nsweet"),
    ],
)
def test_what_is_too_long_for_a_person_is_cut_in_its_middle(written: str, shown: str) -> None:
    assert format.shortened(written) == shown


def test_zero_is_a_duration_where_it_makes_sense() -> None:
    assert values.Duration(zero=True).convert("0", AFTER, None) == 0.0
    with pytest.raises(UsageError, match="zero or more"):
        values.Duration(zero=True).convert("-0.1s", AFTER, None)


@pytest.mark.parametrize("written", ["0", "11", "-5", "1.5", "many", ""])
def test_numbers_outside_their_limits_are_refused(written: str) -> None:
    with pytest.raises(UsageError, match=r"--after .*must be"):
        values.WholeNumber(1, 10).convert(written, AFTER, None)


def test_numbers_within_their_limits() -> None:
    assert [values.WholeNumber(1, 10).convert(n, AFTER, None) for n in ("1", "10")] == [1, 10]


@pytest.mark.parametrize("written", ["-0.5", "nan", "inf", "101", "few"])
def test_amounts_outside_their_limits_are_refused(written: str) -> None:
    with pytest.raises(UsageError, match=r"--after .*must be"):
        values.Amount(100).convert(written, AFTER, None)


def test_amounts_may_be_fractions() -> None:
    assert values.Amount(100).convert("0.5", AFTER, None) == 0.5


@pytest.mark.parametrize("written", ["", "-x", "a b", "x/y", "../up", "a" * 65])
def test_job_names_that_cannot_be_are_refused(written: str) -> None:
    with pytest.raises(UsageError, match="not a job name"):
        values.JobName().convert(written, AFTER, None)


def test_port_settings() -> None:
    assert values.ports(("s3=9000", "dashboard=8265")) == (("s3", 9000), ("dashboard", 8265))


@pytest.mark.parametrize(
    "written", [("s3",), ("s3=",), ("s3=x",), ("s3=1.5",), ("s3=9000", "s3=9001"), ("s3=9000", "gcs=9000")]
)
def test_port_settings_that_make_no_sense_are_refused(written: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--port"):
        values.ports(written)


def test_parameters_keep_everything_after_the_first_equals_sign() -> None:
    assert values.settings(("storage=s3://ray?a=b", "lr=")) == {"storage": "s3://ray?a=b", "lr": ""}


@pytest.mark.parametrize("written", [("epochs",), ("=3",), ("lr=1", "lr=2")])
def test_parameters_that_make_no_sense_are_refused(written: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="-p "):
        values.settings(written)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min"),
        (125.0, "2 min 5 s"),
        (3600.0, "1 h"),
        (10920.0, "3 h 2 min"),
    ],
)
def test_durations_as_people_read_them(seconds: float | None, shown: str) -> None:
    assert format.seconds(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1200, "1.2 kB"),
        (123_456, "123 kB"),
        (999_600, "1.0 MB"),
        (2.5e9, "2.5 GB"),
        (3e12, "3.0 TB"),
    ],
)
def test_sizes_as_people_read_them(count: float, shown: str) -> None:
    assert format.size(count) == shown


def test_tokens_are_cut_out_of_addresses() -> None:
    assert format.without_secrets("http://127.0.0.1:8888/lab?token=hush") == "http://127.0.0.1:8888/lab"
    assert format.without_secrets("http://127.0.0.1:1/?a=b&token=hush#x") == "http://127.0.0.1:1/?a=b#x"
