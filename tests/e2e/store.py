"""What must be true of the object store of any lab that is up."""

from __future__ import annotations

import pytest

from lab.host.secrets import Secrets, load_or_make
from lab.store import ObjectStore, setup
from lab.store.base import AccessDeniedError
from tests.e2e.harness import Shell
from tests.s3_client import SigningClient


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
