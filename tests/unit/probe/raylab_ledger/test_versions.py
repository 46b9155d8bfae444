"""What a ledger says of the machine that trained."""

from __future__ import annotations

import getpass
import json
import platform
import socket

from raylab_ledger.versions import environment


def test_versions_and_size_are_told_but_no_name_and_no_path() -> None:
    found = environment()
    assert found["python"] == platform.python_version()
    assert found["cores"] >= 1
    assert found["memory_bytes"] > 1e8
    text = json.dumps(found)
    assert "/" not in text
    assert f'"{socket.gethostname()}"' not in text
    assert f'"{getpass.getuser()}"' not in text
