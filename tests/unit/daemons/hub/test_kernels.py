"""Kernels of a person's server."""

from __future__ import annotations

import pytest

pytest.importorskip("jupyter_server", reason="JupyterLab is not installed")


def test_a_kernel_is_run_aside_as_its_server_would_run_it() -> None:
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_server.services.kernels.kernelmanager import (
        AsyncMappingKernelManager,
        ServerKernelManager,
    )

    from lab.daemons.hub.configuration import KERNEL

    own = AsyncMappingKernelManager(kernel_manager_class=KERNEL).kernel_manager_factory()
    usual = ServerKernelManager()
    for manager in (own, usual):
        manager._launch_args = {}
        manager._kernel_spec = KernelSpec(argv=["python", "-m", "ipykernel_launcher"])
    assert own.format_kernel_cmd(["--x"]) == ["aside", *usual.format_kernel_cmd(["--x"])]
