"""The hub's configuration: what differs from JupyterHub's own defaults, of which none is made weaker."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.api.hub import HubSettings
from lab.daemons.hub import accounts
from lab.daemons.hub.routes import leading
from lab.daemons.hub.servers import serving
from lab.daemons.hub.settings import IDLE_SECONDS, TOGETHER, WORK, Guesses
from lab.daemons.hub.sign_in import signing_in
from lab.errors import SetupError
from lab.host.files import make_private, write_private
from lab.host.jupyter import ASIDE, INDEX, write_aside, write_labctl
from lab.host.reading import SMALL, read_text
from lab.runtime import proxy
from lab.runtime.local.processes import MARK

if TYPE_CHECKING:
    from traitlets.config import Config

KEY = "auth_state.key"
"""File with the key of what the hub keeps of a sign-in."""

KERNEL = "lab.daemons.hub.kernels.AsideKernel"
"""The class of people's kernels, which their servers import."""

CULLER = "idle-culler"
POLL_SECONDS = 10
"""Pause between two looks at a server, at its person's token and at the memory of all that she runs."""

REFRESH_SECONDS = 30
"""Time for which a sign-in is believed before it is looked up in the list of people again."""


def configure(c: Config, settings: HubSettings) -> None:
    """Set what the class needs. Raises SetupError."""
    folder = make_private(Path(settings.folder))
    homes = make_private(Path(settings.homes))
    if settings.accounts:
        homes.chmod(0o711)  # people pass through it, each to her own
        accounts.own_packages()
    write_labctl(Path(settings.tools))
    write_aside(Path(settings.tools))
    own = f"http://{settings.host}:{settings.api_port}"
    there = f"http://{settings.listen or settings.host}:{settings.port}"
    hub = c.JupyterHub
    hub.bind_url, hub.hub_bind_url = there, own
    hub.trusted_downstream_ips = [settings.host]
    hub.db_url = f"sqlite:///{folder / 'jupyterhub.sqlite'}"
    hub.cookie_secret_file = str(folder / "cookie_secret")
    hub.proxy_class = leading(folder, proxy.program(), settings.trusted)
    hub.authenticator_class = signing_in(Path(settings.people))
    hub.spawner_class = serving(settings)
    hub.template_paths = [str(Path(__file__).parent / "templates")]
    hub.template_vars = {"announcement_login": "Your name, and the token that your teacher gave you."}
    hub.logging_config = {
        "filters": {"guesses": {"()": f"{Guesses.__module__}.{Guesses.__name__}"}},
        "handlers": {"console": {"filters": ["guesses"]}},
    }
    hub.cleanup_servers = False  # they go on without the hub
    hub.load_roles = [
        {
            "name": CULLER,
            "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
            "services": [CULLER],
        }
    ]
    hub.services = [
        {
            "name": CULLER,
            "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE_SECONDS:.0f}"],
            "environment": {MARK: settings.mark},
        }
    ]
    c.PeopleAuthenticator.allow_all = True  # whom it knows; another authenticator says that for itself
    c.PeopleAuthenticator.enable_auth_state = True
    c.PeopleAuthenticator.auth_refresh_age = REFRESH_SECONDS
    c.PeopleAuthenticator.auth_refresh_strict = True  # her tokens of JupyterHub's API end, too
    c.PeopleAuthenticator.refresh_pre_spawn = True
    c.CryptKeeper.keys = [_key(folder / KEY)]
    c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
    c.Spawner.args = [
        f"--ServerApp.terminado_settings={{'shell_command': ['{ASIDE}', 'bash']}}",
        f"--MappingKernelManager.kernel_manager_class={KERNEL}",
    ]
    c.Spawner.default_url = f"/lab/tree/{INDEX}"
    c.Spawner.notebook_dir = f"~/{WORK}"
    c.Spawner.poll_interval = POLL_SECONDS
    c.Spawner.mem_limit = TOGETHER
    c.Spawner.http_timeout = c.Spawner.start_timeout = 120
    if (drop_in := Path(settings.drop_in)).exists():  # any authenticator of JupyterHub, for one
        from traitlets.config.loader import PyFileConfigLoader

        c.merge(PyFileConfigLoader(drop_in.name, path=str(drop_in.parent)).load_config())


def _key(path: Path) -> bytes:
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    try:
        return bytes.fromhex(read_text(path, SMALL).strip())
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} cannot be read: {error}", "delete it; everybody signs in again") from error
