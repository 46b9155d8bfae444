"""Options of `up` for the one address of a class, and what people are told of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import click

from lab.cli import values
from lab.cli.context import options
from lab.errors import UsageError
from lab.topology import Endpoints
from lab.topology.address import Address

OPTIONS = (
    click.option("--address", type=values.Text(), metavar="HOST[:PORT]",
                 help="With --class: open this one port to other machines, with TLS. [default PORT: 443]"),
    click.option("--listen", type=values.Text(), metavar="IP",
                 help="Address of this machine to listen on, where HOST leads to a router before it."),
    click.option("--tls-cert", "certificate", type=values.Place(dir_okay=False), metavar="FILE",
                 help="A certificate of your own for HOST, as PEM. [default: the lab makes one]"),
    click.option("--tls-key", "key", type=values.Place(dir_okay=False), metavar="FILE",
                 help="Its key, without a passphrase."),
)  # fmt: skip

BELONG = ("--listen", "--tls-cert", "--tls-key")


def address_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command --address and what belongs to it, as the one argument `address`."""

    @functools.wraps(command)
    def with_address(
        *args: object, address: str | None, listen: str | None, certificate: Path | None, key: Path | None,
        **rest: object,
    ) -> object:  # fmt: skip
        given = zip(BELONG, (listen, certificate, key), strict=True)
        if address is None and (stray := next((option for option, value in given if value), "")):
            raise UsageError(f"{stray} needs --address", "labctl up --class --address HOST")
        chosen = None if address is None else _chosen(address, listen or "", certificate, key)
        return command(*args, address=chosen, **rest)

    return options(*OPTIONS)(with_address)


def _chosen(text: str, listen: str, certificate: Path | None, key: Path | None) -> Address:
    """The address that a person names. Raises UsageError, NotFoundError."""
    from lab.host.certificates import check_own

    known = Address.of(text)
    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key need each other", "name both files, or none")
    if certificate is None or key is None:
        return Address(known.host, known.port, listen)
    certificate, key = certificate.absolute(), key.absolute()
    check_own(certificate, key, known.host)
    return Address(known.host, known.port, listen, str(certificate), str(key))


def words(endpoints: Endpoints) -> tuple[str, ...]:
    """Lines that say where a class is reached from other machines, and why it can be trusted there."""
    from lab.host.certificates import fingerprint

    if not endpoints.address:
        return ()
    reached = f"other machines reach the class at {endpoints.address}, and nothing else of the lab"
    if not endpoints.authority:
        return (reached,)
    try:
        known = f"SHA-256 {fingerprint(Path(endpoints.authority))}"
    except (OSError, ValueError):
        known = "not there yet: labctl logs proxy"
    return (
        reached,
        f"its authority: {endpoints.authority}",
        f"  {known}",
        "give people this file, say as class.pem: they compare its SHA-256 and import it into their browser;",
        "  in a shell: export SSL_CERT_FILE=$PWD/class.pem REQUESTS_CA_BUNDLE=$PWD/class.pem",
    )
