"""Sign-in with name and token, or with a link, against the people of the lab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import BaseHandler
from tornado import web
from tornado.netutil import is_valid_ip

from lab.daemons.gateway.tokens import FORWARDED, Slowdown, origin
from lab.daemons.hub.settings import stays
from lab.host.serving import log
from lab.people.policy import Role
from lab.people.registry import Person, Registry

if TYPE_CHECKING:
    from jupyterhub.app import JupyterHub
    from jupyterhub.user import User

OLD_LINK = (
    "This link was used already, has ended, or was replaced by a later one. Ask your teacher for another."
)


def old_link() -> web.HTTPError:
    """The answer to a link that signs nobody in; JupyterHub would show the words twice without a reason."""
    return web.HTTPError(403, OLD_LINK, reason="Forbidden")


class PeopleAuthenticator(Authenticator):
    """Knows whom the list of people knows. `registry` is set by a subclass: see `signing_in`."""

    registry: Registry
    slowdown = Slowdown(log)

    async def authenticate(self, handler: BaseHandler, data: Mapping[str, str]) -> dict[str, object] | None:
        """The person with this name and token, or with the link of this code, which is used by that."""
        if code := data.get("code"):
            person = self.registry.redeem(code)
        else:
            person = self.registry.owner(data.get("password", ""))
            if person is not None and person.name != data.get("username"):
                person = None
        if person is None:
            await self.hold_back(handler)
            return None
        return {
            "name": person.name,
            "admin": person.role is Role.TEACHER,
            "auth_state": {"token_at": person.token_at},
        }

    async def hold_back(self, handler: BaseHandler) -> None:
        """Answer what is wrong late: the later, the more there was of it. Raises HTTPError.

        The hub's own proxy adds the address of its peer, which may be the class's proxy, after the person's.
        """
        request = handler.request
        *forwarded, peer = (one.strip() for one in request.headers.get(FORWARDED, "").split(","))
        source = origin(peer if is_valid_ip(peer) else request.remote_ip, forwarded)
        if not await self.slowdown.hold_back(source):
            raise web.HTTPError(429, "Too many wrong tokens: try again later.")

    async def refresh_user(self, user: User, handler: BaseHandler | None = None) -> bool:
        """False once the person has left or got another token: she has to sign in again."""
        if handler is not None and not hasattr(handler, "_token_authenticated"):
            handler._token_authenticated = False  # JupyterHub 6.1 reads it where it has not set it
        return stays(self.registry, user.name, await user.get_auth_state())

    def get_handlers(self, app: JupyterHub) -> list[tuple[str, type[BaseHandler]]]:
        return [*super().get_handlers(app), ("/invite", InviteHandler)]


def signing_in(folder: Path) -> type[PeopleAuthenticator]:
    """The authenticator of the people whose list is in this folder."""
    return type("PeopleAuthenticator", (PeopleAuthenticator,), {"registry": Registry(folder)})


class InviteHandler(BaseHandler):
    """The page of a link. To look at it uses nothing: programs that follow links of mails do so, too."""

    async def get(self) -> None:
        """Show whose link it is, with a button."""
        person: Person | None = self.authenticator.registry.linked(self.get_query_argument("code", ""))
        if person is None and self.current_user is not None:  # she opens her card again
            self.redirect(f"{self.hub.base_url}spawn")
            return
        if person is None:
            await self.authenticator.hold_back(self)
            raise old_link()
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")
        xsrf = self.xsrf_token.decode("ascii")
        code = self.get_query_argument("code")
        self.finish(await self.render_template("invite.html", person=person.name, code=code, xsrf=xsrf))

    async def post(self) -> None:
        """Sign in."""
        user = await self.login_user({"code": self.get_body_argument("code", "") or "none"})
        if user is None:
            raise old_link()
        self._jupyterhub_user = user
        self.redirect(self.get_next_url(user))
