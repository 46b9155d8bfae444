from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.mark.parametrize(
    ("forwarded", "words"),
    [
        ("192.0.2.7, 172.18.0.5", "172.18.0.5, for 192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7,2001:db8::7", "2001:db8::7, for 192.0.2.7"),
        ("192.0.2.7, ben's laptop", "10.0.0.9, for 192.0.2.7"),
        ("", "10.0.0.9"),
    ],
)
def test_the_log_says_for_whom_the_classs_proxy_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forwarded: str, words: str
) -> None:
    from lab.daemons.hub.sign_in import signing_in

    origins: list[str] = []

    async def hold_back(origin: str) -> bool:
        origins.append(origin)
        return True

    request = SimpleNamespace(remote_ip="10.0.0.9", headers={"X-Forwarded-For": forwarded})
    kind = signing_in(tmp_path)
    monkeypatch.setattr(kind, "slowdown", SimpleNamespace(hold_back=hold_back))
    asyncio.run(kind().hold_back(SimpleNamespace(request=request)))
    assert origins == [words]
