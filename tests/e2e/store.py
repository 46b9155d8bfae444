"""What must be true of the object store of any lab that is up."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from lab.host.secrets import Secrets, load_or_make
from lab.store import ObjectStore, setup
from lab.store.base import AccessDeniedError
from lab.store.conformance import QUESTIONS, SigningClient
from tests.e2e.harness import Shell


def check_conformance(bench: Shell, differs: Collection[str] = ()) -> None:
    """`doctor --s3` finds nothing wrong with it, asked with the lab's own key; Ray's file system included.

    `differs` are the checks that a store behind the lab's is known to fail (docs/store.md).
    """
    url = bench.lab.endpoints().s3
    document = bench.labctl("doctor", "--s3", url, "--json", code=15 if differs else 0).document
    checks = {check["name"]: check for check in document["checks"]}
    assert {name for name, check in checks.items() if check["outcome"] != "passed"} == set(differs), document
    assert {question.name for question in QUESTIONS} <= set(checks)
    refused = bench.labctl("doctor", "--s3", url, "--bucket", "not-the-labs", code=15)
    assert "AccessDenied" in str(refused)


def check_keys(bench: Shell) -> None:
    """The key of jobs reaches the bucket `ray` alone; the set-up can run again and changes nothing."""
    endpoints = bench.lab.endpoints()
    secrets = load_or_make(bench.folder / "secrets")
    assert endpoints.credentials == secrets.store
    check_keys_of(endpoints.s3, secrets)


def check_keys_of(url: str, secrets: Secrets) -> None:
    """The same, of the store at this address."""
    root = SigningClient(url, secrets.root)
    training = ObjectStore(url, secrets.store)
    assert root.ask("PUT", "others").status == 200
    try:
        assert root.ask("PUT", "others/private", body=b"private").status == 200
        stranger = training.in_bucket("others")
        for denied in (stranger.list, lambda: stranger.get("private"), lambda: stranger.put("a", b"")):
            with pytest.raises(AccessDeniedError):
                denied()
        with pytest.raises(AccessDeniedError):
            training.ensure_bucket("mine")
        listed = SigningClient(url, secrets.store).ask("GET", "")
        assert ("<Name>ray<" in listed.text, "<Name>others<" in listed.text) == (True, False)
    finally:
        root.ask("DELETE", "others/private")
        assert root.ask("DELETE", "others").status == 204
    done = setup.run(url, secrets.root, secrets.store)
    assert done[0] == "bucket ray: there already"
    assert done[-1].startswith("training key: tried out")
