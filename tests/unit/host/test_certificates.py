"""Certificates of one's own, before a server shows them."""

from __future__ import annotations

import datetime
import re
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.errors import NotFoundError, UsageError
from lab.host.certificates import check_own, fingerprint

DAY = datetime.timedelta(days=1)


def make(folder: Path, host: str, days: int, name: str = "own") -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, plain))
    return files


def test_a_certificate_and_its_key(tmp_path: Path) -> None:
    certificate, key = make(tmp_path, "class.example.org", 30)
    assert check_own(certificate, key, "class.example.org") == pytest.approx(
        time.time() + 30 * 86_400, abs=60
    )
    assert re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", fingerprint(certificate))


@pytest.mark.parametrize(
    ("host", "days", "words"),
    [
        ("other.example.org", 30, "is not valid for other.example.org: Hostname mismatch"),
        ("class.example.org", -1, "is not valid for class.example.org: certificate has expired"),
    ],
)
def test_a_certificate_that_no_client_would_accept(tmp_path: Path, host: str, days: int, words: str) -> None:
    certificate, key = make(tmp_path, "class.example.org", days)
    with pytest.raises(UsageError, match=re.escape(words)):
        check_own(certificate, key, host)


def test_files_that_are_none(tmp_path: Path) -> None:
    certificate, key = make(tmp_path, "class", 30)
    _, other = make(tmp_path, "class", 30, "other")
    with pytest.raises(NotFoundError, match=r"--tls-key: .*: No such file"):
        check_own(certificate, tmp_path / "gone", "class")
    for pair in ((certificate, other), (key, certificate), (key, key)):
        with pytest.raises(UsageError, match="not a certificate"):
            check_own(*pair, "class")
