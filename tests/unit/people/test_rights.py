from __future__ import annotations

import pytest

from lab.people.policy import Role
from lab.people.rights import KeyRights, policy, rights

ANN = rights(Role.STUDENT, "ann")

READS = {
    "people/ann/model/checkpoint_000001/a.pt": True,
    "people/ann/": True,
    "people/ann": True,
    "people/anna/model": False,
    "people/ben/model": False,
    "people/": True,
    "shared/food11.zip": True,
    "sharedx": False,
    ".raylab/ledger/ann-job/0.jsonl": True,
    ".raylab/ledger/anna-job/0.jsonl": False,
    ".raylab/receipts/x": False,
    ".raylab/receipts/ann-job-1.json": True,
    ".raylab/receipts/anna-job-1.json": False,
    ".raylab/receipts/": False,
    "digits/checkpoint_000001": False,
    "": False,
}


@pytest.mark.parametrize(("name", "may"), READS.items())
def test_reading(name: str, may: bool) -> None:
    assert ANN.may_read(name) == may


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("people/ann/x", True),
        ("people/", True),
        ("people", False),
        ("people/ben/x", False),
        ("shared/x", False),
        (".raylab/ledger/ann-1/x", True),
        (".raylab/ledger/ben-1/x", False),
        (".raylab/receipts/ann-1.json", False),
        ("", False),
    ],
)
def test_writing(name: str, may: bool) -> None:
    assert ANN.may_write(name) == may


@pytest.mark.parametrize("name", ["people/", ".raylab/", ".raylab/ledger/", "people/ben/x", "shared/x", ""])
def test_what_stands_for_a_folder_of_all_is_not_deleted(name: str) -> None:
    assert not ANN.may_delete(name)


@pytest.mark.parametrize("name", ["people/ann/", "people/ann/x", ".raylab/ledger/ann-1/x"])
def test_her_own_is_deleted(name: str) -> None:
    assert ANN.may_delete(name)


@pytest.mark.parametrize(
    "prefix", ["", "people", "people/", "people/a", "people/ann", ".raylab", ".raylab/ledger/"]
)
def test_no_names_of_others_are_listed(prefix: str) -> None:
    assert not ANN.may_list(prefix)


@pytest.mark.parametrize("prefix", ["people/ann/", "people/ann/run", "shared/", ".raylab/ledger/ann-1/"])
def test_her_own_names_are_listed(prefix: str) -> None:
    assert ANN.may_list(prefix)


def test_an_assistant_reads_all_and_writes_her_own() -> None:
    mine = rights(Role.ASSISTANT, "eva")
    assert mine.may_read("people/ann/x")
    assert mine.may_read(".raylab/ledger/ann-1/x")
    assert mine.may_read(".raylab/receipts/ann-1.json")
    assert not mine.may_write(".raylab/receipts/eva-1.json")
    assert not mine.may_write("people/ann/x")
    assert mine.may_write("people/eva/x")


def test_a_teacher_has_the_whole_bucket() -> None:
    mine = rights(Role.TEACHER, "tom")
    assert mine.may_read("anything")
    assert mine.may_write("anything")
    assert mine.may_list("")
    assert mine.may_delete("people/")
    assert mine.markers == ()


def test_the_policy_of_minio_says_the_same() -> None:
    statements = policy("ray", ANN)["Statement"]
    by_action = {action: one for one in statements for action in one["Action"]}
    assert by_action["s3:PutObject"]["Resource"] == [
        "arn:aws:s3:::ray/.raylab/",
        "arn:aws:s3:::ray/.raylab/ledger/",
        "arn:aws:s3:::ray/.raylab/ledger/ann-*",
        "arn:aws:s3:::ray/people/",
        "arn:aws:s3:::ray/people/ann/",
        "arn:aws:s3:::ray/people/ann/*",
    ]
    for action in ("s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        # MinIO takes the right to delete `people/` for that to delete all below it
        assert by_action[action]["Resource"] == [
            "arn:aws:s3:::ray/.raylab/ledger/ann-*",
            "arn:aws:s3:::ray/people/ann/*",
        ]
    assert "arn:aws:s3:::ray/shared/*" in by_action["s3:GetObject"]["Resource"]
    assert not any("ray/*" in resource for one in statements for resource in one.get("Resource", ()))
    assert statements[-1] == {"Effect": "Deny", "Action": ["admin:CreateServiceAccount"]}


def test_the_whole_bucket_in_a_policy() -> None:
    statements = policy("ray", KeyRights(("",), ("",)))["Statement"]
    assert [one["Resource"] for one in statements if "s3:PutObject" in one["Action"]] == [
        ["arn:aws:s3:::ray/*"]
    ]
