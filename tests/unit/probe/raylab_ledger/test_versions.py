"""What a ledger says of the machine that trained."""

from __future__ import annotations

import getpass
import json
import platform
import socket

from raylab_ledger.train import environment


def test_versions_and_size_are_told_but_no_name_and_no_path() -> None:
    described = environment()
    assert described["python"] == platform.python_version()
    assert described["cores"] >= 1
    assert described["memory_bytes"] > 1e8
    text = json.dumps(described)
    assert "/" not in text
    assert f'"{socket.gethostname()}"' not in text
    assert f'"{getpass.getuser()}"' not in text
