"""The configuration of a class's JupyterHub."""

import os

from lab.daemons.hub.configuration import configure
from lab.daemons.hub.settings import from_environment

configure(get_config(), from_environment(os.environ))  # type: ignore[name-defined]  # noqa: F821
