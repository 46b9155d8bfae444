"""The narrow interface of a check, and what it gets to look at. Standard library only."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASS, WARN, EVICT, UNKNOWN = "PASS", "WARN", "EVICT", "UNKNOWN"

GPU, NODE = "gpu", "node"
"""Kinds of checks: made for each GPU of the node, or once for the node itself."""

CPU = "cpu"
"""The device that stands for a node without its GPUs."""

SIMULATED = "simulated"

NOT_HERE = 69
"""Exit code of a module of the probe that cannot do its work on this node; its last line says why."""

LINE = 200
"""Characters of a program's line in a message."""


class NotHereError(Exception):
    """The check cannot be made on this node, and why: a program, a library or a counter is missing."""


class UnreadableError(Exception):
    """The check could not tell this time, and why."""


class LostError(Exception):
    """The GPU no longer answers its driver, and why."""


@dataclass(frozen=True)
class Finding:
    """Result of one check of one device."""

    state: str
    value: float | None = None
    unit: str = ""
    message: str = ""
    """One sentence for a person; empty where nothing is worth one."""


@dataclass(frozen=True)
class Check:
    """One check. `run` gets a device; it raises NotHereError, UnreadableError or LostError."""

    name: str
    kind: str
    interval: float
    """Seconds between two runs."""
    run: Callable[[Context, str], Finding]
    deadline: float = 20.0
    """Seconds after which it is ended: a check that hangs is WARN, without a value."""


class Context:
    """The node as a check sees it: a narrow interface, which tests implement too."""

    def __init__(
        self,
        environ: Mapping[str, str],
        facts: Mapping[str, Any] | None = None,
        root: Path = Path("/"),
        nvml: Callable[[], Any] | None = None,
    ) -> None:
        """`facts` is what the agent knows by talking: `peers`, `clock`. `nvml` loads NVML's module."""
        self.environ, self.facts, self.root = environ, facts or {}, root
        self.notes: dict[str, Any] = {}
        """What checks remember from one run to the next, by their name."""
        self._load_nvml, self._nvml = nvml or load_nvml, None

    @property
    def vendor(self) -> str:
        """Vendor of the lab's GPUs: nvidia, amd, simulated or none."""
        return self.environ.get("RAYLAB_GPU", "none")

    @property
    def scratch(self) -> Path:
        """The folder where programs of this node write."""
        return Path(self.environ.get("TMPDIR", "/tmp"))

    def machine(self) -> str:
        """Kind of the machine, such as x86_64."""
        return os.uname().machine

    def wall(self) -> float:
        """Seconds since the epoch, as this node believes."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that nobody sets."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def text(self, path: str) -> str:
        """A small file below the root. Raises NotHereError where there is none to read, UnreadableError."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise NotHereError(f"/{path}: {error.strerror}") from error
        except OSError as error:
            raise UnreadableError(f"/{path}: {error.strerror}") from error

    def command(
        self, argv: Sequence[str], seconds: float, more: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Exit code and output of a program, given `more` variables.

        Raises NotHereError where it is not installed, UnreadableError when it does not end in time.
        """
        try:
            ended = subprocess.run(
                list(argv),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                env={**self.environ, **(more or {})},
                check=False,
            )
        except FileNotFoundError as error:
            raise NotHereError(f"{argv[0]} is not installed") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnreadableError(f"{argv[0]}: {error}") from error
        return ended.returncode, ended.stdout.decode(errors="replace")

    def measure(self, module: str, device: str, *, seconds: float) -> dict[str, Any]:
        """The JSON object that a module of the probe prints last, in a Python of its own on this GPU.

        It has low priority. Raises NotHereError where it ends with NOT_HERE, UnreadableError where it prints
        no object; the message is the last line that it wrote, which of a traceback is the error.
        """
        probe = str(Path(__file__).resolve().parent.parent)
        own = {"PYTHONPATH": probe}
        if self.vendor == "nvidia":
            own["CUDA_VISIBLE_DEVICES"] = device
        code, output = self.command(("nice", "-n", "19", sys.executable, "-m", module), seconds, own)
        last = [line.strip() for line in output.splitlines() if line.strip()][-1:] or ["it printed nothing"]
        if code == NOT_HERE:
            raise NotHereError(last[0][-LINE:])
        try:
            document = json.loads(last[0])
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise UnreadableError(f"{module.rpartition('.')[2]} ended with {code}: {last[0][-LINE:]}")
        return document

    def nvml(self) -> Any:
        """NVML's module, initialised. Raises NotHereError, UnreadableError."""
        if self._nvml is None:
            module = self._load_nvml()
            try:
                module.nvmlInit()
            except module.NVMLError as error:
                code = getattr(error, "value", None)
                if code in (module.NVML_ERROR_LIBRARY_NOT_FOUND, module.NVML_ERROR_NO_PERMISSION):
                    raise NotHereError(f"NVML: {error}") from error
                raise UnreadableError(f"NVML does not start: {error}") from error
            self._nvml = module
        return self._nvml


def load_nvml() -> Any:
    """The module of nvidia-ml-py, or the copy that Ray brings, without importing Ray. Raises NotHereError."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        pass
    ray = importlib.util.find_spec("ray")
    for place in (ray.submodule_search_locations or ()) if ray else ():
        path = Path(place) / "_private/thirdparty/pynvml/pynvml.py"
        spec = importlib.util.spec_from_file_location("raylab_pynvml", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules["raylab_pynvml"] = module  # its structures look for their module
            spec.loader.exec_module(module)
            return module
    raise NotHereError("the package nvidia-ml-py is not installed")
