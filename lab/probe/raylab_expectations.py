"""What each patch expects of Ray: the functions that it replaces or calls, with their parameters.

Ray's inner parts may be others in another version. A patch would then fail in the middle of a training, or do
nothing without a word. So each expectation is looked up in Ray's source, which takes milliseconds and imports
nothing of it: by labctl before `up`, as a node starts (`raylab_patches.ray_start`), and by `labctl doctor`.

    python -m raylab_expectations

prints a JSON object: patch -> what does not fit.
"""

from __future__ import annotations

import os
import re
import sys

from raylab_extended import extended

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[str], "str | None"]
    """Name of a module -> its source, None where it is not installed. Raises OSError where it is missing."""


class Expectation:
    """One name of a module and its parameters, or a text in its source."""

    def __init__(self, module: str, name: str, signature: str = "", *, text: bool = False) -> None:
        self.module, self.name, self.signature, self.text = module, name, signature, text

    def unmet(self, read: Read) -> str:
        """The difference between this and the source; empty for none, and where nothing is installed."""
        try:
            source = read(self.module)
        except OSError:
            return f"there is no module {self.module}"
        if source is None:
            return ""
        if self.text:
            return "" if self.name in source else f"{self.module} has no {self.name}"
        taken = parameters(source, self.name)
        if taken is None:
            return f"{self.module} has no {self.name}"
        if not self.signature or _same(_names(self.signature), taken):
            return ""
        return f"{self.module}: {self.name} takes ({', '.join(taken)}), not {self.signature}"


def expect(module: str, name: str, signature: str = "") -> Expectation:
    """Expect a name in a module, such as `f` or `C.f`, with a signature such as `(self, a, b=, ...)`.

    `b=` has a default, `...` stands for any more parameters. Without a signature the name is enough: of a
    class, a variable, or an attribute that a class gives itself.
    """
    return Expectation(module, name, signature)


def expect_text(module: str, text: str) -> Expectation:
    """Expect a text in the source of a module, for what has no name."""
    return Expectation(module, text, text=True)


V2 = "ray.train.v2._internal"
CALLBACK = f"{V2}.execution.callback"
CONTROLLER = expect(CALLBACK, "ControllerCallback.after_controller_start", "(self, train_run_context)")
WORKER = expect(CALLBACK, "WorkerCallback.after_init_train_context", "(self)")
SERVICES = "ray._private.services"
CONSTANTS = "ray._private.ray_constants"
NODE = "ray._private.node"
GROUP = f"{V2}.execution.worker_group.worker_group"
TUNER = "ray.tune.impl.tuner_internal"
START_PROCESS = expect(
    SERVICES, "start_ray_process", "(command, process_type, fate_share, env_updates=, ...)"
)
ENVIRONMENTS = "ray._private.runtime_env"

CORE: Mapping[str, tuple[Expectation, ...]] = {
    "simulated_gpu": (
        CONTROLLER,
        WORKER,
        expect("ray.train.torch.config", "_TorchBackend.on_start", "(self, worker_group, backend_config)"),
        expect("ray.train.torch.config", "_is_backend_nccl", "(backend)"),
        expect(GROUP, "WorkerGroup.get_resources_per_worker", "(self)"),
        expect("ray.air._internal.device_manager", "_torch_device_manager"),
        expect("ray.air._internal.device_manager.cpu", "CPUTorchDeviceManager"),
    ),
    "listeners": (
        expect_text("torch.distributed.rendezvous", "TCPStore("),
        expect("torchft.checkpointing.http_transport", "_IPv6HTTPServer"),
        expect("torchft.checkpointing.http_transport", "HTTPTransport.address", "(self)"),
        expect_text("ray.serve._private.replica", "add_port_to_grpc_server("),
        expect("xgboost.collective", "init", "(**args)"),
    ),
    "pip_environments": (
        expect(f"{ENVIRONMENTS}.virtualenv_utils", "create_or_get_virtualenv", "(path, cwd, logger)"),
        expect(f"{ENVIRONMENTS}.virtualenv_utils", "is_in_virtualenv", "()"),
        expect(f"{ENVIRONMENTS}.virtualenv_utils", "get_virtualenv_path", "(target_dir)"),
        expect(f"{ENVIRONMENTS}.virtualenv_utils", "check_output_cmd"),
        expect(f"{ENVIRONMENTS}.pip", "PipPlugin.__init__", "(self, resources_dir)"),
        expect(
            f"{ENVIRONMENTS}.pip",
            "PipProcessor._install_pip_packages",
            "(self, path, pip_packages, cwd, pip_env, logger)",
        ),
        expect(f"{ENVIRONMENTS}.uv", "UvPlugin.__init__", "(self, resources_dir)"),
    ),
    "ray_start": (
        START_PROCESS,
        expect(SERVICES, "resolve_ip_for_localhost", "(host)"),
        expect(SERVICES, "find_bootstrap_address", "(temp_dir)"),
        expect(NODE, "Node._prepare_socket_file", "(self, socket_path, default_prefix)"),
        expect_text(SERVICES, 'f"--node_ip_address={node_ip_address}"'),
        expect(CONSTANTS, "ENABLE_RAY_CLUSTER"),
        expect(CONSTANTS, "DEFAULT_RUNTIME_ENV_DIR_NAME"),
        expect_text("ray.scripts.scripts", "services.resolve_ip_for_localhost("),
    ),
    "redis_password": (
        START_PROCESS,
        expect(SERVICES, "find_gcs_addresses", "()"),
        expect_text(SERVICES, 'f"--redis_password={redis_password}"'),
        expect_text(SERVICES, "redis_password: Optional[str] = None,\n    metrics_agent_port"),
    ),
    "accelerator": (
        expect(
            "pytorch_lightning.trainer.connectors.accelerator_connector",
            "_AcceleratorConnector.__init__",
            "(self, devices=, num_nodes=, accelerator=, strategy=, ...)",
        ),
        expect(
            "lightning_fabric.connector",
            "_Connector.__init__",
            "(self, accelerator=, strategy=, devices=, ...)",
        ),
    ),
    "resume": (
        expect("ray.train.v2.api.config", "RunConfig.__post_init__", "(self)"),
        expect("ray.train.v2.api.config", "RunConfig.name"),
    ),
    "tuned_trainer": (
        expect(
            TUNER,
            "TunerInternal.__init__",
            "(self, restore_path=, storage_filesystem=, resume_config=, trainable=, ...)",
        ),
        expect(TUNER, "TunerInternal.fit", "(self)"),
        expect_text(TUNER, "max_concurrent_trials=self._tune_config.max_concurrent_trials"),
        expect("ray.train.v2.api.data_parallel_trainer", "DataParallelTrainer.train_run_context"),
        expect("ray.train.v2.api.config", "ScalingConfig._resources_per_worker_not_none", "(self)"),
        expect("ray.tune.integration.ray_train", "TuneReportCallback"),
    ),
    "outage": (expect("ray._private.worker", "init", "(address=, ...)"),),
    "outside": (
        expect(SERVICES, "canonicalize_bootstrap_address_or_die", "(addr, temp_dir=)"),
        expect_text("ray.scripts.scripts", "services.canonicalize_bootstrap_address_or_die(address)"),
        expect("ray.scripts.scripts", "timeline", "(address)"),
        expect("ray.scripts.scripts", "datetime"),
        expect("ray._private.internal_api", "get_state_from_address", "(address=)"),
    ),
}


_every: dict[str, tuple[Expectation, ...]] = {}


def expectations() -> dict[str, tuple[Expectation, ...]]:
    """Patch -> what it expects, those of extensions included."""
    if not _every:  # a look at each patch asks for all of them
        _every.update(CORE)
        for module in extended("expectations"):
            _every.update(module.EXPECTATIONS)
    return _every


OUTDENTED = re.compile(r"\n[^\s)#]")

_unmet: dict[str, str] = {}
"""Patch -> what was found in this process."""


def unmet(patch: str, read: Read | None = None) -> str:
    """What of a patch's expectations does not hold here; empty when all do."""
    if read is None and patch in _unmet:
        return _unmet[patch]
    problems = (expectation.unmet(read or source_of) for expectation in expectations()[patch])
    problem = next(filter(None, problems), "")
    if read is None:
        _unmet[patch] = problem
    return problem


def unfit(read: Read | None = None) -> dict[str, str]:
    """The patches that do not fit this Ray -> what is another than they expect."""
    problems = {patch: unmet(patch, read) for patch in expectations()}
    return {patch: problem for patch, problem in problems.items() if problem}


_sources: dict[str, str] = {}


def source_of(module: str) -> str | None:
    """The source of a module that is not imported for that; None where its package is not installed.

    Raises OSError for a module that the installed package does not have.
    """
    if module not in _sources:
        from importlib.util import find_spec

        top, *rest = module.split(".")
        spec = find_spec(top)
        if spec is None or not spec.submodule_search_locations:
            return None
        place = os.path.join(next(iter(spec.submodule_search_locations)), *rest)
        path = os.path.join(place, "__init__.py") if os.path.isdir(place) else f"{place}.py"
        with open(path, encoding="utf-8") as file:
            _sources[module] = file.read()
    return _sources[module]


def parameters(source: str, name: str) -> list[str] | None:
    """The parameters of the function of this name, `a=` for one with a default; none of anything else.

    None when there is nothing of that name. It looks for text: patterns would have to be compiled.
    """
    *classes, last = name.split(".")
    scope = f"\n{source}"
    for outer in classes:
        scope = _body(scope, outer)
    indent = "    " * len(classes)
    start = max(scope.rfind(f"\n{indent}{word} {last}(") for word in ("def", "async def"))
    if start >= 0:
        return _parameters(scope[scope.index("(", start) :])
    ways = [f"\n{indent}{last}{end}" for end in (":", " =", "=")]
    ways += (
        [f" self.{last}{end}" for end in (":", " =")]
        if classes
        else [f"\nclass {last}{end}" for end in ":("] + [f" {last}{end}" for end in (",\n", "\n", ", ")]
    )
    return [] if any(way in scope for way in ways) else None


def _body(source: str, name: str) -> str:
    """The lines of the class of this name; empty for none."""
    start = max(source.find(f"\nclass {name}{end}") for end in ":(")
    if start < 0:
        return ""
    begin = source.index("\n", start + 1)
    end = OUTDENTED.search(source, begin)
    return source[begin : end.start() if end else None]


def _parameters(text: str) -> list[str]:
    """The parameters at the beginning of this text, which begins with their parenthesis."""
    import ast

    depth = end = 0
    while depth or not end:
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    taken = ast.parse(f"def f{text[:end]}: pass").body[0].args  # type: ignore[attr-defined]
    positional = [argument.arg for argument in (*taken.posonlyargs, *taken.args)]
    required = len(positional) - len(taken.defaults)
    names = [name if at < required else f"{name}=" for at, name in enumerate(positional)]
    if taken.vararg or taken.kwonlyargs:
        names.append(f"*{taken.vararg.arg}" if taken.vararg else "*")
    names += [
        argument.arg if default is None else f"{argument.arg}="
        for argument, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    ]
    return [*names, *([f"**{taken.kwarg.arg}"] if taken.kwarg else [])]


def _names(signature: str) -> list[str]:
    return [name.strip() for name in signature.strip("()").split(",") if name.strip()]


def _same(expected: list[str], taken: list[str]) -> bool:
    if expected[-1:] == ["..."]:
        return taken[: len(expected) - 1] == expected[:-1]
    return taken == expected


if __name__ == "__main__":
    import json

    json.dump(unfit(), sys.stdout)
