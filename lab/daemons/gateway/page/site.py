"""The class's page over HTTP: signing in and out, the page and its live part, and what its buttons do.

All that it shows and does goes through the gateway's own routes, with the rights of whoever is signed in.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from lab.cluster.api import known_shape
from lab.daemons.gateway.access import Access, Asked, ForbiddenError
from lab.daemons.gateway.bodies import BODY_SECONDS, Turns, read_body
from lab.daemons.gateway.page.model import HEALTH, JOBS, NODES, QUEUES, WORKLOADS, Cell, Look
from lab.daemons.gateway.page.receipts import ReceiptReader
from lab.daemons.gateway.page.records import receipt_tables, verdict_tone
from lab.daemons.gateway.page.sessions import COOKIE, SESSION_SECONDS, Session, Sessions
from lab.daemons.gateway.page.shared import Shared
from lab.daemons.gateway.page.tables import facts, refusal, tables, trouble
from lab.daemons.gateway.ray_api import RayJobs
from lab.daemons.gateway.routes import STATUSES, Routes
from lab.daemons.gateway.upstream import Reply
from lab.errors import ClusterError, LabError, NotFoundError, RefusedError, StateError, UsageError
from lab.host.clock import WALL, Clock
from lab.host.reading import read_text
from lab.host.web import STYLE, templates
from lab.people.progress import Progress, read_progress
from lab.people.registry import Person, Registry

if TYPE_CHECKING:
    from aiohttp import web

PAGE = "/class"
HERE = Path(__file__).parent

FORM_BYTES = 4096

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
FILES = {
    "style.css": ("text/css", (STYLE, HERE / "style.css")),
    "live.js": ("text/javascript", (HERE / "live.js",)),
}
"""What the page loads: type, and the files that it is made of."""

JOB = re.compile(r"([^/]+)/([^/]+)")
UNQUEUED = re.compile(r"/([^/]+)")
SERVER = re.compile(r"JupyterLab/([^/]+)")
QUEUE = re.compile(r"(ClusterQueue|LocalQueue)/([^/]*)/([^/]+)")


@dataclass(frozen=True)
class Act:
    """Something that a button does."""

    label: str
    what: str
    """The question, with the name of what it is done to."""
    form: re.Pattern[str]
    path: str = ""
    """Page of the gateway that does it, with the parts of what it is done to."""
    policy: str = ""
    """In its place: the policy that it sets of a queue."""
    message: str = ""
    """What is said to whoever looks, with the person's name."""


STOP = ("Stop it", "Stop the job {name}? It ends for good. What it has stored stays.")

ACTS = {
    "stop": Act(*STOP, JOB, "/workloads/{}/{}/cancel", message="Stopped by {}"),
    "stop-unqueued": Act(*STOP, UNQUEUED, "/api/jobs/{}/stop"),
    "hold": Act(
        "Put it on hold",
        "Put queue {name} on hold? Jobs that run go on; none that waits begins until it is resumed.",
        QUEUE,
        policy="Hold",
    ),
    "resume": Act(
        "Resume it", "Resume queue {name}? Jobs that wait there may begin at once.", QUEUE, policy="None"
    ),
    "kill": Act(
        "Kill it",
        "Kill a node under the job {name}, once it has a checkpoint? The node comes back, a job that "
        "recovers goes on, and the receipt is shown here.",
        JOB,
        "/workloads/{}/{}/fault",
    ),
    "end": Act(
        "End it",
        "End the JupyterLab of {name}? Its kernels and terminals end within 10 seconds, and what was not "
        "saved is lost. Jobs and files stay. It starts again when it is opened.",
        SERVER,
        "/people/{}/end-server",
    ),
}


class ClassPage:
    """Answers what is below /class/."""

    def __init__(
        self,
        access: Access,
        shared: tuple[Shared, Shared],
        sessions: Sessions,
        receipts: ReceiptReader,
        wrong: Callable[[web.Request], Awaitable[bool]],
        seen: MutableMapping[str, float],
        turns: Turns,
        clock: Clock = WALL,
    ) -> None:
        """`shared` are the queues and Ray as the page asks them, `turns` those of a person's requests.

        `wrong` holds back the answer to a wrong token, unless too many wait (False); `seen` has the time of
        each person's last request.
        """
        self._sessions, self._receipts, self._wrong, self._seen = sessions, receipts, wrong, seen
        self._registry: Registry = access.registry
        self._access, self._shared = access, shared
        self._looking = _routes(Access(access.registry, *shared))
        self._acting = _routes(access)
        self._turns, self._clock = turns, clock

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request, refusals included."""
        try:
            return await self._answer(request)
        except LabError as error:
            status = next((status for kind, status in STATUSES if isinstance(error, kind)), 502)
            if isinstance(error, StateError):  # its message quotes the list
                error = StateError("the list of the class cannot be read", "tell your teacher")
            return self._html(status, "message", said=error.message, hint=error.hint)

    async def _answer(self, request: web.Request) -> web.Response:
        page = request.path.removeprefix(PAGE).removeprefix("/")
        if request.path == PAGE:
            return _elsewhere()
        if request.method == "GET" and page in FILES:
            kind, files = FILES[page]
            return _response(200, "".join(read_text(file) for file in files), kind)
        session = self._sessions.of(request.cookies)
        if request.method == "POST":
            return await self._posted(request, page, session)
        if request.method != "GET":
            raise UsageError(f"{request.path[:80]} takes GET and POST")
        if session is None:
            return self._html(401 if page else 200, "sign-in", said="", hint="")
        self._seen[session.person.name] = self._clock()
        async with self._turns.turn(session.person.name):
            return await self._shown(request, page, session)

    async def _shown(self, request: web.Request, page: str, session: Session) -> web.Response:
        """A page of somebody who is signed in."""
        if page in ("", "now"):
            look = await self._look(session.person)
            name = "page" if not page else "now"
            with known_shape("an answer of the lab"):
                shown = tables(look)
                figures = facts(look, shown[0])
                given = {"look": look, "tables": shown, "facts": figures, "trouble": trouble(look)}
                return self._html(200, name, session, **given)
        if page == "ask":
            act, parts = _act(request.query)
            question = act.what.format(name="/".join(filter(None, parts[1:] or parts)))
            return self._html(200, "ask", session, act=act, asked=request.query, question=question)
        if page.startswith("receipt/"):
            receipt = await self._receipts.get(session.person, page.removeprefix("receipt/"))
            made = receipt_tables(receipt)
            tone = verdict_tone(receipt.verdict)
            return self._html(200, "receipt", session, receipt=receipt, tables=made, tone=tone)
        raise NotFoundError(f"there is no page {request.path[:80]!a}")

    async def _look(self, person: Person) -> Look:
        """All that this person may see now."""
        paths = (WORKLOADS, QUEUES, HEALTH, NODES, JOBS)
        query = {NODES: "detail=1&limit=10000"}
        asked = (Asked(person, "GET", path, query.get(path, ""), attempts=True) for path in paths)
        replies, receipts = await asyncio.gather(
            asyncio.gather(*map(self._looking.answer, asked)), self._receipts.latest(person)
        )
        return Look(
            person,
            lambda action, owner: self._access.may(person, action, owner),
            self._access.owner,
            self._registry.people(),
            self._seen,
            self._clock(),
            dict(zip(paths, replies, strict=True)),
            receipts,
            self._progress(),
            breaks=self._access.breaker is not None,
        )

    def _progress(self) -> Progress | LabError:
        try:
            return read_progress(self._registry.path.parent)
        except LabError:
            return StateError("what was collected cannot be read", "`labctl class collect` writes it again")

    # Forms

    async def _posted(self, request: web.Request, page: str, session: Session | None) -> web.Response:
        _check_origin(request.headers)
        data = await read_body(request, FORM_BYTES, BODY_SECONDS)
        form = {name: values[-1] for name, values in parse_qs(bytes(data).decode(errors="replace")).items()}
        if page == "sign-in":
            return await self._sign_in(request, form)
        if session is None:
            return self._html(401, "sign-in", said="You are no longer signed in.", hint="")
        if not hmac.compare_digest(session.form_key.encode(), form.get("key", "").encode()):
            raise ForbiddenError(
                "this form does not belong to your session", "open the page again, and use its buttons"
            )
        if page == "sign-out":
            self._sessions.end(session)
            response = _elsewhere()
            response.del_cookie(COOKIE, path=PAGE)
            return response
        if page == "do":
            async with self._turns.turn(session.person.name):
                await self._do(session.person, form)
            return _elsewhere()
        raise NotFoundError(f"there is no page {request.path[:80]!a}")

    async def _sign_in(self, request: web.Request, form: Mapping[str, str]) -> web.Response:
        person = self._registry.owner(form.get("token", "").strip())
        if person is None or person.name != form.get("name", "").strip().lower():
            if not await self._wrong(request):
                return self._html(429, "sign-in", said="Too many wrong tokens: try again later.", hint="")
            said = "Nobody in this class has that name and token."
            return self._html(403, "sign-in", said=said, hint="Your teacher can give you another token.")
        response = _elsewhere()
        secure = request.secure or request.headers.get("X-Forwarded-Proto", "").lower() == "https"
        response.set_cookie(
            COOKIE, self._sessions.begin(person).cookie, max_age=SESSION_SECONDS, path=PAGE, secure=secure,
            httponly=True, samesite="Strict",
        )  # fmt: skip
        return response

    async def _do(self, person: Person, form: Mapping[str, str]) -> None:
        """What a button says. Raises RefusedError, which says why not."""
        act, parts = _act(form)
        if act.policy:
            await self._set_policy(person, act.policy, parts)
        else:
            path = act.path.format(*(quote(part, safe="") for part in parts))
            body = {"message": act.message.format(person.name)} if act.message else {}
            await self._post(person, path, body)
        for shared in self._shared:
            shared.forget()

    async def _set_policy(self, person: Person, policy: str, parts: tuple[str, ...]) -> None:
        """Put a queue on hold, or end that; the rest of it stays as it is."""
        kind, space, name = parts
        objects = _good(await self._acting.answer(Asked(person, "GET", "/objects"))).json()
        for one in objects:
            names = one["metadata"]
            if (one["kind"], names.get("namespace", ""), names["name"]) == (kind, space, name):
                changed = {**one, "spec": {**one["spec"], "stopPolicy": policy}}
                files = [{"name": "page.yaml", "text": json.dumps(changed)}]
                return await self._post(person, "/apply", {"files": files})
        raise NotFoundError(f"there is no {kind} {name[:80]!a}")

    async def _post(self, person: Person, path: str, body: object) -> None:
        _good(await self._acting.answer(Asked(person, "POST", path, body=json.dumps(body).encode())))

    # Answers

    def _html(self, status: int, name: str, session: Session | None = None, **values: object) -> web.Response:
        template = templates(HERE).get_template(f"{name}.html.j2")
        text = template.render(session=session, nothing=Cell(), **values)
        return _response(status, text, "text/html")


def _routes(access: Access) -> Routes:
    return Routes(access, RayJobs(access))


def _act(asked: Mapping[str, str]) -> tuple[Act, tuple[str, ...]]:
    """The act that a request names, and the parts of what it is done to. Raises UsageError."""
    act = ACTS.get(asked.get("act", ""))
    match = act.form.fullmatch(asked.get("on", "")) if act else None
    if act is None or match is None:
        raise UsageError("the page has no such button", "open it again")
    return act, match.groups()


def _good(reply: Reply) -> Reply:
    """An answer that is no refusal. Raises ForbiddenError, NotFoundError, ClusterError, RefusedError."""
    if not reply.good:
        kinds = {403: ForbiddenError, 404: NotFoundError}
        kind = kinds.get(reply.status, ClusterError if reply.status >= 500 else RefusedError)
        raise kind(refusal(reply), "nothing was changed")
    return reply


def _check_origin(headers: Mapping[str, str]) -> None:
    """Refuse a form of another site, as browsers tell it; the key of a form is asked besides."""
    site = headers.get("Sec-Fetch-Site", "same-origin")
    origin, host = headers.get("Origin"), headers.get("Host", "")
    if site not in ("same-origin", "none") or origin not in (None, f"http://{host}", f"https://{host}"):
        raise ForbiddenError(
            "this form was sent by another site", "open the page itself, and use its buttons"
        )


def _elsewhere() -> web.Response:
    response = _response(303, "", "text/html")
    response.headers["Location"] = f"{PAGE}/"
    return response


def _response(status: int, text: str, kind: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=text, content_type=kind, charset="utf-8", headers=HEADERS)
