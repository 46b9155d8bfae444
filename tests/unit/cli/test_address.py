"""labctl up --address: what is asked for, what is refused, and what a teacher is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli import class_options
from lab.flows.doctor.model import ProbedAddress
from lab.topology import LabSpec
from lab.topology.address import Address
from tests.unit.cli.fakes import PLAN, Labctl
from tests.unit.cli.queues import QueueLab
from tests.unit.host.test_certificates import make

UP = ("up", "--class", "--gpu", "none")


def test_the_address_is_asked_for_and_shown_with_its_authority(labctl: Labctl, tmp_path: Path) -> None:
    labctl.stub("lab.cli.commands.lab.provide")
    labctl.runtime.folder().mkdir(parents=True, exist_ok=True)
    certificate, _ = make(tmp_path, "the authority", 30)
    (labctl.runtime.folder() / "root.crt").write_bytes(certificate.read_bytes())
    shown = labctl.down().ok(*UP, "--address", "Class.Example.org:8443", "--listen", "10.0.0.5")
    address = Address("class.example.org", 8443, "10.0.0.5")
    assert labctl.runtime.spec().address == address
    for words in (address.url, str(labctl.runtime.folder() / "root.crt"), "SHA-256 ", "SSL_CERT_FILE"):
        assert words in shown
        assert words in labctl.ok("status", "--addresses")
    assert labctl.ok(*UP)
    assert labctl.runtime.spec().address == address


def test_a_certificate_of_ones_own_needs_no_authority(labctl: Labctl, tmp_path: Path) -> None:
    labctl.stub("lab.cli.commands.lab.provide")
    files = make(tmp_path, "class.example.org", 30)
    options = ("--tls-cert", str(files[0]), "--tls-key", str(files[1]))
    shown = labctl.down().ok(*UP, "--address", "class.example.org", *options)
    assert "https://class.example.org, and nothing else of the lab" in shown
    assert "authority" not in shown
    asked = labctl.runtime.spec().address
    assert asked is not None
    assert (asked.certificate, asked.key) == (str(files[0]), str(files[1]))


def test_a_certificate_of_ones_own_and_one_of_an_authority_exclude_each_other(
    labctl: Labctl, tmp_path: Path
) -> None:
    files = make(tmp_path, "class.example.org", 30)
    own = ("--tls-cert", str(files[0]), "--tls-key", str(files[1]), "--acme", "ada@example.org")
    result = labctl.down()(*UP, "--address", "class.example.org", *own)
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("error", "warned"), [("", False), ("certificate verify failed: self-signed certificate", True)]
)
def test_up_waits_for_the_certificate_of_a_public_authority(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, error: str, warned: bool
) -> None:
    labctl.stub("lab.cli.commands.lab.provide")
    monkeypatch.setattr(class_options, "CERTIFICATE_SECONDS", 0)
    monkeypatch.setattr(
        "lab.flows.doctor.facts.ask_address", lambda address, authority: ProbedAddress(address, (), error)
    )
    result = labctl.down()(*UP, "--address", "class.example.org", "--acme", "ada@example.org")
    assert result.exit_code == 0
    assert "waiting for a certificate of Let's Encrypt" in result.stderr
    assert ("no certificate of Let's Encrypt" in result.stderr) is warned
    assert (error in result.stderr, "authority:" in result.stdout) == (True, False)
    assert "https://class.example.org, and nothing else" in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--address", "https://class"), 2, "not the address of a machine"),
        (("--address", "class:0"), 2, "not the address of a machine"),
        (("--address", ""), 2, "is empty"),
        (("--listen", "10.0.0.5"), 2, "--listen needs --address"),
        (("--tls-cert", "cert"), 2, "--tls-cert needs --address"),
        (("--address", "class", "--listen", "eth0"), 2, "not an IP address of a machine"),
        (("--address", "class", "--tls-cert", "cert"), 2, "--tls-cert and --tls-key need each other"),
        (("--address", "class", "--tls-cert", "none", "--tls-key", "none"), 3, "--tls-cert: cannot read"),
        (("--acme", "ada@example.org"), 2, "--acme needs --address"),
        (("--address", "class.example.org", "--acme", "ada"), 2, "--acme 'ada': not an e-mail address"),
        (
            ("--address", "class.example.org:8443", "--acme", "a@b"),
            2,
            "does not vouch for",
        ),
        (("--address", "192.0.2.7", "--acme", "a@b"), 2, "does not vouch for 192.0.2.7"),
        (("--address", "class", "--acme", "a@b"), 2, "does not vouch for class"),
        (("--address", "class.example.org", "--acme-server", "https://ca"), 2, "--acme-server needs --acme"),
        (("--address", "class", "--acme", "a@b", "--acme-server", "http://ca"), 2, "not an https:// address"),
    ],
)
def test_what_makes_no_sense_is_refused(
    labctl: Labctl, options: tuple[str, ...], code: int, words: str
) -> None:
    result = labctl.down()(*UP, *options)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert not labctl.runtime.status().up


@pytest.mark.parametrize(
    ("own", "words"),
    [((), "SSL_CERT_FILE=$PWD/class.pem"), (("/a/cert.pem", "/a/key.pem"), "RAY_AUTH_TOKEN=..., ")],
)
def test_people_are_given_the_address(
    labctl: Labctl, tmp_path: Path, own: tuple[str, ...], words: str
) -> None:
    labctl.runtime.down()
    address = Address("class.example.org", 443, "192.0.2.7", *own)
    labctl.runtime.up(LabSpec(gpu=PLAN, classroom=True, address=address))
    QueueLab(labctl, tmp_path / "queue")
    labctl._patch.setattr(labctl.store, "ping", lambda: "moto 5")
    result = labctl("class", "add", "ann")
    assert result.exit_code == 0, result.output
    assert "RAY_ADDRESS=https://class.example.org RAY_AUTH_MODE=token" in result.stderr
    assert words in result.stderr


def test_an_address_is_for_a_class(labctl: Labctl) -> None:
    result = labctl.down()("up", "--gpu", "none", "--address", "class")
    assert (result.exit_code, "--address is for a class" in result.stderr) == (2, True)
