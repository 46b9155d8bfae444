"""Options of `up` for a class and its one address, and what people are told of that."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import values
from lab.cli.context import App, options
from lab.errors import UsageError
from lab.host.clock import MONOTONIC, Clock, settle
from lab.topology import Endpoints
from lab.topology.address import Address

if TYPE_CHECKING:
    from lab.lab import Lab

OPTIONS = (
    click.option("--class", "classroom", is_flag=True,
                 help="For a class: a gateway serves jobs and queues to people with a token each; "
                 "see `labctl class`."),
    click.option("--hub", is_flag=True,
                 help="With --class: JupyterHub too, with a JupyterLab for each person."),
    click.option("--address", type=values.Text(), metavar="HOST[:PORT]",
                 help="With --class: open this one port to other machines, with TLS. [default PORT: 443]"),
    click.option("--listen", type=values.Text(), metavar="IP",
                 help="Address of this machine to listen on, if HOST is that of a router in front of it."),
    click.option("--tls-cert", "certificate", type=values.Place(dir_okay=False), metavar="FILE",
                 help="A certificate of your own for HOST, as PEM. [default: the lab makes one]"),
    click.option("--tls-key", "key", type=values.Place(dir_okay=False), metavar="FILE",
                 help="Its key, without a passphrase."),
    click.option("--acme", type=values.Text(), metavar="EMAIL",
                 help="A certificate from Let's Encrypt, which asks HOST at port 443. You accept its terms."),
    click.option("--acme-server", type=values.Text(), metavar="URL",
                 help="Directory of another authority that speaks ACME."),
)  # fmt: skip

CERTIFICATE_SECONDS, CERTIFICATE_EVERY = 90, 2.0
"""How long `up` waits for a public authority, which asks from several places; and between two looks."""

BELONG = ("--listen", "--tls-cert", "--tls-key", "--acme", "--acme-server")


def class_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command --class and --hub, and --address with its own as the one argument `address`."""

    @functools.wraps(command)
    def with_address(
        *args: object, address: str | None, listen: str | None, certificate: Path | None, key: Path | None,
        acme: str | None, acme_server: str | None, **rest: object,
    ) -> object:  # fmt: skip
        given = zip(BELONG, (listen, certificate, key, acme, acme_server), strict=True)
        if address is None and (stray := next((option for option, value in given if value), "")):
            raise UsageError(f"{stray} needs --address", "labctl up --class --address HOST")
        chosen = None
        if address is not None:
            named = Address.of(address)
            named = replace(named, listen=listen or "", acme=acme or "", acme_server=acme_server or "")
            chosen = _with_own(named, certificate, key)
        return command(*args, address=chosen, **rest)

    return options(*OPTIONS)(with_address)


def _with_own(address: Address, certificate: Path | None, key: Path | None) -> Address:
    """The address with a certificate of one's own, if there is one. Raises UsageError, NotFoundError."""
    from lab.host.certificates import check_own

    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key need each other", "name both files, or none")
    if certificate is None or key is None:
        return address
    certificate, key = certificate.absolute(), key.absolute()
    check_own(certificate, key, address.host)
    return replace(address, certificate=str(certificate), key=str(key))


def reached(app: App, lab: Lab, clock: Clock = MONOTONIC) -> tuple[str, ...]:
    """The lines of `words` for a lab that has just been started.

    Waits until a public authority has made the certificate, at most CERTIFICATE_SECONDS, and else warns.
    """
    address, endpoints = lab.view.spec().address, lab.endpoints()
    if address is not None and address.acme:
        from lab.flows.doctor.facts import ask_address

        app.out.note(f"waiting for a certificate of {address.public_authority}")
        seen = settle(
            lambda: ask_address(address, ""), lambda seen: not seen.error, timeout=CERTIFICATE_SECONDS,
            every=CERTIFICATE_EVERY, clock=clock,
        )  # fmt: skip
        if seen.error:
            app.out.warn(
                f"no certificate of {address.public_authority} after {CERTIFICATE_SECONDS} s: {seen.error}",
                "`labctl logs proxy` has its answer; the proxy goes on asking, `labctl doctor` looks again",
            )
    return words(endpoints)


def words(endpoints: Endpoints) -> tuple[str, ...]:
    """Lines that say where a class is reached from other machines, and why it can be trusted there."""
    from lab.host.certificates import fingerprint

    if not endpoints.address:
        return ()
    reached = f"people reach the class at {endpoints.address}, and nothing else of the lab"
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
