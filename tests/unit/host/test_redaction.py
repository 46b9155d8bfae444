"""Nothing that is nobody's business stands in a text that others read, and what they need stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.host import redaction
from lab.host.redaction import Redaction

ANN = Path("/home/ann")
KEY, TOKEN = "s3cr3t/key+1=", "0123456789abcdef"
RULES = Redaction((KEY, TOKEN, ""), ("ann-laptop", "ray"), ANN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"refused {KEY}, {TOKEN}", "refused …, …", id="secrets"),
        pytest.param("http://ann:pw@mirror.example/simple", "http://…@mirror.example/simple", id="password"),
        pytest.param("http://127.0.0.1:9/?token=x", "http://127.0.0.1:9/?…", id="token of a URL"),
        pytest.param("https://s3.example/a?b=1&c=2 gone", "https://s3.example/a?… gone", id="signature"),
        pytest.param("at 172.18.0.6:2201.", "at ….", id="address with a port"),
        pytest.param("http://10.0.0.7/x/y", "http://…/x/y", id="address of a URL"),
        pytest.param("ab" * 32 + " here", "… here", id="what may be a token"),
        pytest.param("/tmp/x-1/train.py, line 3", "…/train.py, line 3", id="folders"),
        pytest.param("/home/ann/.raylab: no", "~/.raylab: no", id="home"),
        pytest.param("/home/ann", "~", id="home alone"),
        pytest.param("/home/ann/.raylab/course/a.log", "~/.raylab/course/a.log", id="folder of labs"),
        pytest.param("/home/ann/thesis/a.py, ~/thesis/b.py", "…/a.py, …/b.py", id="folders of a home"),
        pytest.param("/usr/bin:/home/bob/bin/x", "/usr/bin:…/x", id="folders of a list"),
        pytest.param("/home/annette/a.py", "…/a.py", id="another home"),
        pytest.param("on ann-laptop: no", "on …: no", id="machine"),
    ],
)
def test_what_others_must_not_read_is_hidden(text: str, expected: str) -> None:
    assert RULES.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "s3://ray/run/checkpoint_3",
        "epoch 3/20 of 5/7",
        "ray-head and ann-laptop-2",
        "http://127.0.0.1:8265 and 0.0.0.0:80 are taken",
        "GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a00 with driver 580.65.06",
        "torch 2.13.0.1.dev3",
        f"image sha256:{'ab' * 32}",
        "/usr/bin/docker, /etc/docker/daemon.json, /dev/shm",
        "`rm -r ~/.raylab/course/`",
    ],
)
def test_what_a_reader_needs_stays(text: str) -> None:
    assert RULES.text(text) == text


@dataclass(frozen=True)
class Document:
    """A value with texts at every depth."""

    texts: tuple[str, ...] = (TOKEN,)
    fields: dict[str, list[str]] = field(default_factory=lambda: {"checks": [f"is {TOKEN}"]})
    saved_sha256: str = "ab" * 32
    count: int = 3


def test_texts_are_reached_in_lists_mappings_and_dataclasses() -> None:
    hidden = RULES.everything(Document())
    assert hidden == Document(texts=("…",), fields={"checks": ["is …"]})


@pytest.mark.parametrize(
    ("file", "content", "secret"),
    [
        ("ray.token", "0123456789abcdef\n", "0123456789abcdef"),
        ("s3.json", '{"access_key": "LABACCESS1", "secret_key": "s3cr3t/key+1="}', KEY),
        ("s3.json", '{"access_key": "LABACCESS1", "secret_key": "s3cr3t/key+1="}', "LABACCESS1"),
        ("aws.ini", "[default]\naws_secret_access_key = another0secret\n", "another0secret"),
        ("redis.conf", "requirepass another0secret\n", "another0secret"),
    ],
)
def test_secrets_of_every_lab_are_known_and_names_of_fields_are_none(
    tmp_path: Path, file: str, content: str, secret: str
) -> None:
    folder = tmp_path / "course" / "secrets"
    folder.mkdir(parents=True)
    (folder / file).write_text(content)
    (folder / "bytes").write_bytes(b"\xff\xfe")
    rules = redaction.of_this_machine("given-by-hand", labs=tmp_path, user=ANN)
    said = "is no secret_key, access_key or aws_secret_access_key"
    assert rules.text(f"{secret} {said}, given-by-hand") == f"… {said}, …"


def test_this_machine_and_its_user_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.node", lambda: "ann-laptop")
    assert redaction.of_this_machine(labs=tmp_path).text(f"ann-laptop: {Path.home()}") == "…: ~"
