"""Sign-in links of people of a class: a row each in a CSV file, a card each on a page to print."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from lab.people.policy import Role

SECONDS_OF_DAY = 86_400.0
MOST_DAYS = 366

PATH = "/hub/invite"
"""The page of the hub that a link leads to; its query is `code`."""

STYLE = """
body { font: 11pt/1.4 system-ui, sans-serif; margin: 0; }
.cards { display: grid; grid-template-columns: 1fr 1fr; }
.card { border: 1px dashed #888; padding: 5mm 6mm; min-height: 48mm; break-inside: avoid; }
h2 { font-size: 15pt; margin: 0 0 2mm; }
.link { font: 9pt/1.3 ui-monospace, monospace; overflow-wrap: anywhere; }
p { margin: 0 0 2mm; }
@page { margin: 10mm; }
"""


@dataclass(frozen=True)
class Link:
    """A link with which a person signs in, once."""

    name: str
    role: Role
    address: str
    until: float
    """Its end, in seconds since the epoch."""

    @property
    def last_minute(self) -> str:
        """The end in the machine's time zone."""
        return datetime.fromtimestamp(self.until).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def address_of(hub: str, code: str) -> str:
    return f"{hub.rstrip('/')}{PATH}?{urlencode({'code': code})}"


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A CSV file of rows with these columns."""
    text = io.StringIO()
    csv.writer(text).writerows((columns, *rows))
    return text.getvalue()


def as_csv(links: Sequence[Link]) -> str:
    """The links as a CSV file with the columns name, role, link and until."""
    rows = ((one.name, one.role.value, one.address, one.last_minute) for one in links)
    return csv_text(("name", "role", "link", "until"), rows)


def as_page(title: str, links: Sequence[Link]) -> str:
    """The links as a page of HTML to print, two cards in a row, those of students first."""
    cards = "\n".join(map(_card, sorted(links, key=lambda link: link.role is not Role.STUDENT)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="referrer" content="no-referrer"><style>{STYLE}</style></head>\n'
        f'<body><div class="cards">\n{cards}\n</div></body></html>\n'
    )


def _card(link: Link) -> str:
    address = html.escape(link.address)
    role = "" if link.role is Role.STUDENT else f" <small>{link.role.value}</small>"
    return (
        f'<div class="card"><h2>{html.escape(link.name)}{role}</h2>\n'
        f"<p>Open this address before {html.escape(link.last_minute)}, and press the button there:</p>\n"
        f'<p class="link"><a href="{address}">{address}</a></p>\n'
        f"<p>It works once: whoever is first is signed in as {html.escape(link.name)}. "
        "In that browser it leads back to the lab.</p></div>"
    )
