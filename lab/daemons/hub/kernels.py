"""Kernels of a person's server. Loaded by JupyterLab alone: the hub's configuration names the class."""

from __future__ import annotations

from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

from lab.host.jupyter import ASIDE


class AsideKernel(ServerKernelManager):
    """A kernel that gives way to what answers pages."""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """The kernel's command line, run by ASIDE."""
        return [ASIDE, *super().format_kernel_cmd(extra_arguments)]
