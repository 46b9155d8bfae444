"""Single-user servers: a JupyterLab for each person, in a folder of her own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner, set_user_setuid

from lab.api.hub import HubSettings
from lab.daemons.hub import accounts, memory
from lab.daemons.hub.settings import (
    FILE_BYTES,
    KEPT,
    MEMORY_BYTES,
    WORK,
    furnish,
    home_of,
    keeps_server,
    mark_of,
    server_environment,
)
from lab.people.registry import SERVER, Person, Registry
from lab.runtime.local import processes

NICE = 5
"""A server gives way to what trains."""

GRACE_SECONDS = 5.0
"""Time that what is left of a server has to end."""

PROGRESS_SECONDS = 0.5


class PersonServer(LocalProcessSpawner):
    """One person's server. `settings` and `registry` are set by a subclass: see `serving`."""

    settings: HubSettings
    registry: Registry
    pid: int
    """Number of its first process, 0 for none."""
    doing = ""
    """Step of a start that is waited for."""
    token_at = 0.0
    """Time of the token of the person for whom it was started."""
    uid = 0
    """Number of the Unix user that it runs as, where the hub has users of its own."""
    account = ""
    """The name of that user."""
    remark = ""
    """What was said last of the memory of all that she runs."""

    async def start(self) -> tuple[str, int]:
        """Make her folder, give the server a token, and start it."""
        name = self.user.name
        person = self.registry.get(name)
        self.doing = "your folder and your copy of the notebooks"
        await self._move_in(home_of(self.settings, name), Path(self.settings.workspace))
        self.doing = "a token for your jobs"
        self._token = self.registry.grant(SERVER, [name])[name]
        self._person, self.token_at = person, person.token_at
        self.doing = "JupyterLab, until it answers; 5 to 30 seconds"
        address: tuple[str, int] = await super().start()
        return address

    async def _move_in(self, home: Path, workspace: Path) -> None:
        """Make her home and, where the hub has users of its own, the user whose it is."""
        if not self.settings.accounts:
            await asyncio.to_thread(furnish, home, workspace)
            return
        self.uid = accounts.claim(home, self.registry.path.parent.stat().st_uid)
        self.account = await asyncio.to_thread(accounts.account, self.user.name, self.uid, home)
        self._sockets = accounts.sockets(self.uid)
        await asyncio.to_thread(accounts.furnish_as, self.uid, home, workspace)

    def get_env(self) -> dict[str, str]:
        """JupyterHub's variables for it, and hers."""
        person: Person = self._person
        path = os.environ.get("PATH", os.defpath)
        hers = server_environment(self.settings, person, self._token, path)
        sockets = {"JUPYTER_RUNTIME_DIR": str(self._sockets)} if self.settings.accounts else {}
        return {**super().get_env(), **hers, **sockets}

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Nothing of the machine's users."""
        return env

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        work = str(home_of(self.settings, name) / WORK)
        become = set_user_setuid(self.account, chdir=False) if self.settings.accounts else None

        def prepare() -> None:
            os.umask(0o077)
            os.nice(NICE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for kind, most in ((resource.RLIMIT_DATA, MEMORY_BYTES), (resource.RLIMIT_FSIZE, FILE_BYTES)):
                with contextlib.suppress(ValueError, OSError):  # a lower limit is there already
                    resource.setrlimit(kind, (most, most))
            if become is not None:
                accounts.limit()
                become()
            os.chdir(work)  # as she may enter it

        return prepare

    async def poll(self) -> int | None:
        """None while it runs. It ends with its token, also when its person leaves or gets another one.

        What it has left of processes ends with it, even if it was killed. What takes more memory
        than a person may have ends without it.
        """
        name, ran = self.user.name, bool(self.pid)
        if self.settings.accounts and self.proc is None and not accounts.owns(self.uid, self.pid):
            self.pid = 0
        status: int | None = await super().poll()
        if status is None and not keeps_server(self.registry, name, {"token_at": self.token_at}):
            self.log.info("the server of %s ends with its token", name)
            status = 0
        if ran and status is not None:
            await self._end()
        elif ran and self.mem_limit:
            said, self.remark = self.remark, await asyncio.to_thread(self._bound_memory)
            if self.remark not in ("", said):
                self.log.warning("what %s runs %s", name, self.remark)
        return status

    def _bound_memory(self) -> str:
        if not self.settings.accounts:
            group = memory.marked(mark_of(self.settings, self.user.name))
            return memory.end_largest(group, self.pid, self.mem_limit, memory.shares)
        group = accounts.processes_of(self.uid)
        return memory.end_largest(group, self.pid, self.mem_limit, partial(memory.shares_as, self.uid))

    async def stop(self, now: bool = False) -> None:
        """End it with all that was started in it, and its token."""
        await super().stop(now)
        await self._end()

    async def _end(self) -> None:
        name = self.user.name
        if self.settings.accounts:
            await asyncio.to_thread(accounts.end, self.uid)
        else:
            mark = mark_of(self.settings, name)
            await asyncio.to_thread(processes.end, None, mark, grace=GRACE_SECONDS)
        self.registry.take_back(SERVER, name)

    async def progress(self) -> AsyncIterator[dict[str, object]]:
        """Say what is waited for, as it changes."""
        said, percent = "", 10
        while True:
            if self.doing != said:
                said, percent = self.doing, min(percent + 25, 90)
                yield {"progress": percent, "message": f"waiting for {said}"}
            await asyncio.sleep(PROGRESS_SECONDS)

    def get_state(self) -> dict[str, object]:
        return {**super().get_state(), "token_at": self.token_at, "uid": self.uid}

    def load_state(self, state: dict[str, float]) -> None:
        super().load_state(state)
        self.token_at = state.get("token_at", 0.0)
        self.uid = int(state.get("uid", 0))


def serving(settings: HubSettings) -> type[PersonServer]:
    """The servers of this hub."""
    own = {"settings": settings, "registry": Registry(Path(settings.people))}
    kept = {"env_keep": list(KEPT)}
    return type("PersonServer", (PersonServer,), {**own, **kept})
