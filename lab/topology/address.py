"""The one address at which other machines reach a class."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from lab.errors import UsageError

HTTPS_PORT = 443

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


@dataclass(frozen=True)
class Address:
    """The one address at which other machines reach a class, through TLS.

    Raises UsageError for what can be none.
    """

    host: str
    """A name in lower case, or an IP address without brackets."""
    port: int = HTTPS_PORT
    listen: str = ""
    """The address of this machine that is listened on; empty until the host's has been looked up."""
    certificate: str = ""
    """File (PEM) of a certificate of the teacher's own; empty: the proxy's own authority makes one."""
    key: str = ""
    """File of its key."""
    acme: str = ""
    """E-mail address for a public authority that makes and renews the certificate; empty: none is asked."""
    acme_server: str = ""
    """The directory of that authority, an https:// address; empty: Let's Encrypt's."""

    @classmethod
    def of(cls, text: str) -> Address:
        """The address HOST or HOST:PORT; an IPv6 address with a port is in brackets."""
        match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+)|([0-9a-f:.]+))(?::(\d{1,5}))?", text.lower())
        if match is None or (match[3] and match[4]):
            raise _no_address(text)
        return cls(match[1] or match[2] or match[3], int(match[4] or HTTPS_PORT))

    def __post_init__(self) -> None:
        ip = _ip(self.host)
        name = rf"(?=.{{1,253}}$)({_LABEL}\.)*(?![0-9]+$){_LABEL}"
        if not 1 <= self.port <= 65535 or (ip is None and not re.fullmatch(name, self.host)):
            raise _no_address(f"{self.host}:{self.port}")
        if ip is not None and (ip.is_unspecified or ip.is_multicast):
            raise _no_address(self.host)
        listen = _ip(self.listen)
        if self.listen and (listen is None or listen.is_unspecified):
            hint = "name one IP address of this machine, such as --listen 10.0.0.5"
            raise UsageError(f"--listen {self.listen!r}: not an IP address of a machine", hint)
        self._check_authority(ip is not None)

    def _check_authority(self, is_ip: bool) -> None:
        if self.acme and self.certificate:
            raise UsageError("--acme and --tls-cert exclude each other", "name one certificate's source")
        if self.acme and not re.fullmatch(r"[^@\s]+@[^@\s]+", self.acme):
            hint = "the authority writes there when something is wrong: --acme ada@example.org"
            raise UsageError(f"--acme {self.acme!r}: not an e-mail address", hint)
        if self.acme_server and not self.acme:
            raise UsageError("--acme-server needs --acme", "--acme EMAIL --acme-server URL")
        if self.acme_server and not re.fullmatch(r"https://[^\s]+", self.acme_server):
            hint = "the directory's address, as https://acme.example.org/directory"
            raise UsageError(f"--acme-server {self.acme_server!r}: not an https:// address", hint)
        if self.acme and not self.acme_server and (is_ip or self.port != HTTPS_PORT or "." not in self.host):
            raise UsageError(
                f"--acme: Let's Encrypt does not vouch for {bracketed(self.host)}:{self.port}",
                "it asks a public name at port 443: --address class.example.org",
            )

    @property
    def url(self) -> str:
        """The address as a browser has it."""
        port = "" if self.port == HTTPS_PORT else f":{self.port}"
        return f"https://{bracketed(self.host)}{port}"

    @property
    def words(self) -> str:
        """It, and who vouches for it, in a few words."""
        source = self.certificate or (f"a certificate of {self.public_authority}" if self.acme else "")
        return f"reached at {self.url}{f' with {source}' if source else ''}"

    @property
    def own_authority(self) -> bool:
        """True where the proxy's own authority vouches for it."""
        return not (self.certificate or self.acme)

    @property
    def public_authority(self) -> str:
        """The name of the authority that --acme asks."""
        return self.acme_server.partition("://")[2].partition("/")[0] or "Let's Encrypt"


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _no_address(text: str) -> UsageError:
    hint = "HOST or HOST:PORT, as a browser has it: class.example.org, or 192.0.2.7:8443"
    return UsageError(f"--address {text!r}: not the address of a machine", hint)
