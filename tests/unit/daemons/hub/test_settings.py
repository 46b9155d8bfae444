from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import stat
from pathlib import Path

import pytest
import yaml

from lab.api.hub import HOMES_INSIDE, VARIABLE, HubSettings
from lab.daemons.hub.caddy import SOCKET, caddy_settings
from lab.daemons.hub.settings import (
    KEPT,
    Guesses,
    from_environment,
    furnish,
    keeps_server,
    server_environment,
    stays,
)
from lab.errors import UsageError
from lab.people.registry import SERVER, Newcomer, Registry
from lab.runtime.local.processes import MARK
from tests.conftest import ROOT


def settings(folder: Path) -> HubSettings:
    return HubSettings(
        lab="raylab",
        folder=str(folder / "hub"),
        homes=str(folder / "hub" / "homes"),
        tools=str(folder / "hub"),
        drop_in=str(folder / "hub" / "jupyterhub_config.py"),
        people=str(folder / "people"),
        mark=f"{folder}:hub",
        host="127.0.0.1",
        port=8000,
        api_port=8081,
        gateway="http://127.0.0.1:8280",
        store="http://127.0.0.1:9000",
        workspace=str(folder / "workspace"),
        modules="/there",
        jupyter="/there/compose/jupyter",
        data="/data",
        page="https://class.example.org/class/",
    )


def test_what_labctl_says_is_what_the_hub_reads(tmp_path: Path) -> None:
    given = settings(tmp_path)
    assert from_environment({VARIABLE: json.dumps(dataclasses.asdict(given))}) == given
    for text in ("", "{", "{}", '{"lab": 1}'):
        with pytest.raises(UsageError, match=VARIABLE):
            from_environment({VARIABLE: text})
    with pytest.raises(UsageError, match=VARIABLE):
        from_environment({})


def test_the_compose_file_says_what_the_hub_reads() -> None:
    service = yaml.safe_load((ROOT / "compose" / "hub.yaml").read_text())["services"]["hub"]
    text = re.sub(r"\$\{LAB_\w+:-((?:[^{}]|\{\w+\})*)\}", r"\1", service["environment"][VARIABLE])
    made = from_environment({VARIABLE: re.sub(r"\$\{LAB_\w+:-((?:[^{}])*)\}", r"\1", text)})
    assert (made.lab, made.page) == ("raylab", "http://127.0.0.1:8280/class/")
    assert made.accounts
    assert made.homes == HOMES_INSIDE
    assert not made.homes.startswith(f"{made.folder}/")  # which nobody but the hub may enter
    mounted = {volume.split(":")[-2 if volume.endswith(":ro") else -1] for volume in service["volumes"]}
    assert made.jupyter.split(os.pathsep) == ["/etc/raylab/jupyter/people", "/etc/raylab/jupyter"]
    assert {
        made.people,
        made.workspace,
        "/etc/raylab/jupyter",
        made.data,
        str(Path(made.drop_in).parent),
    } <= mounted
    assert made.tools in mounted


def test_a_server_has_the_keys_of_its_person_and_of_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_TOKEN_PATH", "AWS_SECRET_ACCESS_KEY", "JUPYTER_TOKEN_FILE"):
        monkeypatch.setenv(name, "the lab's")
    registry = Registry(tmp_path / "people")
    ann, ben = registry.invite([Newcomer("ann"), Newcomer("ben")])
    made = server_environment(settings(tmp_path), ann.person, "of her server", "/usr/bin")
    assert made["RAY_ADDRESS"] == "http://127.0.0.1:8280"
    assert made["RAY_AUTH_TOKEN"] == "of her server"
    assert made["RAYLAB_RUNTIME"] == "class"
    assert made["AWS_SECRET_ACCESS_KEY"] == ann.person.key.secret_key
    assert made["RAYLAB_STORAGE"] == "s3://ray/people/ann"
    assert made["RAYLAB_CLASS_URL"] == "https://class.example.org/class/"
    assert made["RAYLAB_WORKSPACE"] == str(tmp_path / "hub" / "homes" / "ann" / "work")
    assert made["HOME"] == str(tmp_path / "hub" / "homes" / "ann")
    assert made[MARK] == f"{tmp_path}:hub-ann"
    assert made["PATH"].split(os.pathsep)[0] == str(tmp_path / "hub" / "bin")
    assert made["PATH"].endswith(os.pathsep.join(("", "/usr/bin", f"{made['HOME']}/.local/bin")))
    assert "PROMPT_COMMAND" not in made, "where people have no users, pip's packages are everybody's"
    apart = dataclasses.replace(settings(tmp_path), accounts=True)
    assert "pip install" in server_environment(apart, ann.person, "x", "/usr/bin")["PROMPT_COMMAND"]
    said = " ".join(made.values())
    for secret in ("the lab's", ann.token, ben.person.key.secret_key, ben.person.key.access_key):
        assert secret not in said
    assert not [name for name in (*made, *KEPT) if name.endswith("_PATH") and "TOKEN" in name]
    assert {MARK, VARIABLE}.isdisjoint(KEPT)


def test_who_stays(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    (ann,) = registry.invite([Newcomer("ann")])
    registry.add([ann.person])
    state = {"token_at": ann.person.token_at}
    assert stays(registry, "ann", state)
    for other in (None, {}, {"token_at": 1.0}):
        assert not stays(registry, "ann", other)
    assert not stays(registry, "zoe", state)
    assert not keeps_server(registry, "ann", state)
    registry.grant(SERVER, ["ann"])
    assert keeps_server(registry, "ann", state)
    assert not keeps_server(registry, "ann", {})
    registry.take_back(SERVER, "ann")
    assert not keeps_server(registry, "ann", state)
    registry.close("ann")
    assert not stays(registry, "ann", state)


def test_a_home_has_a_copy_that_is_made_once(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "homes" / "ann"
    (workspace / "notebooks" / ".ipynb_checkpoints").mkdir(parents=True)
    (workspace / "__pycache__").mkdir()
    notebook = workspace / "notebooks" / "01.ipynb"
    notebook.write_text("as it was")
    notebook.chmod(0o444)
    (home / ".work.partial").mkdir(parents=True)  # of a copy that was broken off
    furnish(home, workspace)
    hers = home / "work" / "notebooks" / "01.ipynb"
    assert sorted(path.name for path in (home / "work").rglob("*")) == ["01.ipynb", "notebooks"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(hers.stat().st_mode) & stat.S_IWUSR
    hers.write_text("hers")
    furnish(home, workspace)
    assert (hers.read_text(), notebook.read_text()) == ("hers", "as it was")


def test_a_home_that_stood_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    home = tmp_path / "homes" / "ann"
    home.mkdir(parents=True)
    home.chmod(0o755)
    furnish(home, tmp_path / "workspace")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_caddy_leads_the_longest_beginning_first_and_is_set_through_a_closed_socket(tmp_path: Path) -> None:
    targets = {"/": "http://127.0.0.1:8081", "/user/ann/": "http://127.0.0.1:4001"}
    made = json.loads(json.dumps(caddy_settings("127.0.0.1:8000", tmp_path, targets, ("10.0.0.0/8",))))
    assert made["admin"]["listen"] == f"unix/{tmp_path / SOCKET}|0600"
    server = made["apps"]["http"]["servers"]["hub"]
    assert server["listen"] == ["127.0.0.1:8000"]
    assert server["trusted_proxies"]["ranges"] == ["10.0.0.0/8"]
    first, *others = server["routes"]
    assert first["handle"][0]["response"]["set"] == {"Connection": ["close"]}
    assert "terminal" not in first
    ways = [
        (way["match"][0]["path"], way["handle"][0]["upstreams"][0]["dial"], way["terminal"]) for way in others
    ]
    assert ways == [
        (["/user/ann/*", "/user/ann"], "127.0.0.1:4001", True),
        (["/*"], "127.0.0.1:8081", True),
    ]
    for way in others:  # JupyterHub's log has the person, and not what she says of herself
        assert way["handle"][0]["headers"]["request"]["set"] == {"X-Real-Ip": ["{http.vars.client_ip}"]}


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Failed login for 'ann'", False),
        ("403 POST /hub/login (@127.0.0.1) 2003.11ms", False),
        ("429 POST /hub/login (@127.0.0.1) 2.11ms", False),
        ("403 GET /hub/invite?code=[secret] (@127.0.0.1) 2003.11ms", False),
        ("403 GET /hub/admin (ann@127.0.0.1) 20.11ms", True),
        ("500 POST /hub/login (@127.0.0.1) 20.11ms", True),
        ("200 GET /hub/login (@127.0.0.1) 5.00ms", True),
        ("User logged in: ann", True),
    ],
)
def test_the_log_has_no_line_for_each_wrong_token(line: str, kept: bool) -> None:
    record = logging.LogRecord("tornado.access", logging.WARNING, "", 1, "%s", (line,), None)
    assert Guesses().filter(record) is kept
