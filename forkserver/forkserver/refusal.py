"""Refusals: for every doubt, a process starts in the ordinary way and is not forked.

A fork has what its server read when it started: the interpreter and its flags, the environment variables that
Python, Ray and the libraries read as they are loaded, the modules; and it has its server's rights. `reason`
compares them with what is asked for. It is a pure function of the request and of what the server knows of
itself.
"""

from __future__ import annotations

import json
import os
import re
from itertools import zip_longest

from forkserver.application import DEFAULT, Application

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping, Sequence
    from typing import Any

SETUP_WORKER = "setup_worker.py"
"""Ray's script (2.60) that makes a worker's environment and becomes default_worker.py."""

READ_AT_START = (
    *("PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC", "LOCPATH", "LC_", "LANG", "JE_", "MIMALLOC_", "THP_"),
    *("OPENBLAS_", "GOTO_", "MKL_", "KMP_", "GOMP_", "OMP_", "ACC_", "BLIS_", "NUMEXPR_", "NUMBA_"),
    *("NPY_", "NUMPY_", "GFORTRAN_", "DNNL_", "ONEDNN_", "MKLDNN_", "I_MPI_", "OMPI_", "MPI_", "INTEL_"),
    *("TORCH", "PYTORCH_", "NVIDIA_", "CUDA_", "CUBLAS", "NVRTC_", "HIP_", "ROCR_", "HSA_"),
    *("TRITON_", "KINETO_", "LLVM_", "LIBNVVM_", "NV_", "CASK_", "PTXAS_", "XLA_", "JAX_", "TF_"),
    *("HF_", "TRANSFORMERS_", "MPL", "FREETYPE_", "ARROW_", "AZURE_", "XDG_", "PROTOCOL_BUFFERS_"),
    *("RAY_", "GRPC_", "RUST_", "SSL", "OPENSSL_", "AS_SECURE_LOG_FILE", "PSUTIL_"),
)
"""Prefixes of variables that are read when a process starts or a library is loaded, and never again: those
that `reads` cannot see, because they are read before the server's first import, or in C."""

READ_LATER = frozenset(
    {
        *("PYTHONPATH", "PYTHONUNBUFFERED", "TZ"),  # the fork acts on them
        "PATH",  # at each search for a program; as it is imported, torchmetrics looks for LaTeX
        "PYTHONBREAKPOINT",  # at each call of breakpoint()
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),  # likewise
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID"),  # marks.py; a number for logs
        *("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "RAY_CLIENT_MODE"),
        *("RAY_API_SERVER_ADDRESS", "RAY_OVERRIDE_JOB_RUNTIME_ENV", "RAY_SERIALIZED_RUNTIME_ENV"),
        "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC",  # at each blocking call
        "RAY_USAGE_STATS_ENABLED",  # at each report; `ray start --disable-usage-stats` sets it
        "RAY_worker_niceness",  # by a worker, once it is told what job it works for
        *("RAY_TRAIN_CALLBACKS", "RAY_JOB_STOP_SIGNAL", "RAY_JOB_STOP_WAIT_TIME_S"),
        # read by programs that are no Python
        *("RAY_REDIS_ADDRESS", "RAY_external_storage_namespace", "RAY_LD_PRELOAD_ON_WORKERS"),
        "RAY_enable_pipe_based_agent_to_parent_health_check",  # child.py
    }
)
"""Exceptions: variables that are read later too, or that a fork sees to."""

READ_BY_THE_KERNEL = ("RLIMIT_STACK", "RLIMIT_AS", "RLIMIT_DATA")
"""Limits that count as a process starts, or that a fork may be above already."""

LATER_TOO = ("RAY_EXPERIMENTAL_NOSET_",)
"""Prefixes of further exceptions: Ray reads these when it gives a task its devices."""

FLAGS_OF_PYTHON = ("-u", "-S", "-s")
"""Flags that may stand between interpreter and script: Ray hands on `-S` and `-s`."""

NO_SCRIPT = ("-m", "-c")
"""Options that may stand in place of a script; the working directory is then searched first."""

MOST_ENTRIES = 5_000
"""Limit of entries in a folder that is searched; a larger one is refused."""


def effective_environment(request: Mapping[str, Any]) -> dict[str, str]:
    """The environment that the program will see: for a worker, with its runtime environment."""
    environment = dict(request["environment"])
    context = runtime_context(request["argv"])
    environment.update(
        {str(k): str(v) for k, v in (context.get("env_vars") or {}).items()} if context else {}
    )
    return environment


def runtime_context(argv: Sequence[str]) -> dict[str, Any] | None:
    """Ray's instructions to setup_worker.py; None for any other program. Raises ValueError."""
    if len(argv) < 2 or os.path.basename(argv[1]) != SETUP_WORKER:
        return None
    for position, word in enumerate(argv):
        if word.startswith("--serialized-runtime-env-context="):
            context = json.loads(word.partition("=")[2] or "{}")
        elif word == "--serialized-runtime-env-context" and position + 1 < len(argv):
            context = json.loads(argv[position + 1] or "{}")
        else:
            continue
        return context if isinstance(context, dict) else {}
    return {}


def folder_of(context: Mapping[str, Any]) -> str:
    """The working directory that a runtime environment asks for; empty for none.

    Raises ValueError for anything else that it wants done before the worker starts.
    """
    prefix = list(context.get("command_prefix") or ())
    if not prefix:
        return ""
    if len(prefix) == 3 and prefix[0] == "cd" and prefix[2] == "&&":
        return str(prefix[1]).strip("'\"")
    raise ValueError(f"a command comes first: {' '.join(map(str, prefix))}")


def new_folders(path: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The folders of a module search path that the server's own does not have."""
    return tuple(dict.fromkeys(entry for entry in path if entry not in known))


def hidden(folder: str, loaded: Collection[str]) -> str:
    """The module in this folder that has the name of one that the server has loaded; empty for none.

    Raises ValueError for a folder that is too large to look through.
    """
    try:
        with os.scandir(folder or ".") as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_ENTRIES:
                    raise ValueError(f"{folder} has too many entries to look through")
                name = module_name(entry)
                if name in loaded:
                    return name
    except OSError:
        return ""
    return ""


def module_name(entry: os.DirEntry[str]) -> str:
    """The module that Python would import from this entry; empty for none, or a namespace package."""
    stem, ending = os.path.splitext(entry.name)
    if ending in (".py", ".pyc"):
        return stem
    if ending == ".so":
        return entry.name.partition(".")[0]
    try:
        package = not ending and os.path.isfile(os.path.join(entry.path, "__init__.py"))
    except ValueError:
        return ""
    return entry.name if package else ""


def differing(
    environment: Mapping[str, str],
    own: Mapping[str, str],
    read: Container[str] = frozenset(),
    application: Application = DEFAULT,
) -> str:
    """The first variable that is read at the start of a process and is another one here; empty for none.

    `read` has those that the server's modules were seen to read as they were imported.
    """
    at_start = (*READ_AT_START, *application.read_at_start)
    for name in sorted({*environment, *own}):
        later = name in READ_LATER or name in application.read_later or name.startswith(LATER_TOO)
        matters = (name.startswith(at_start) or name in read) and not later
        if matters and environment.get(name, "") != own.get(name, ""):
            return name
    return ""


def beyond(request: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Property of the process that a fork of this server (`own`) cannot take on; empty for none."""
    for theirs, ours in zip_longest(request["standing"], own["standing"], fillvalue=""):
        if theirs != ours:
            return f"another {re.split(r'[: ]', theirs or ours)[0]} (user, rights, namespace)"
    if request["scheduler"] != own["scheduler"]:
        return "another scheduling policy"
    if request["nice"] < own["nice"]:
        return f"a higher priority: nice {request['nice']}"
    if request["oom_score"] < own["oom_score"]:
        return f"a lower oom_score_adj: {request['oom_score']}"
    for name, (soft, hard) in request["limits"].items():
        if name in READ_BY_THE_KERNEL and [soft, hard] != own["limits"][name]:
            return f"another {name}"
        if _amount(hard) > _amount(own["limits"][name][1]):
            return f"a higher {name}"
    return ""


def _amount(limit: int) -> float:
    """The value of a limit; -1 is none."""
    return float("inf") if limit == -1 else limit


def same_interpreter(one: str, other: str) -> bool:
    """Tell whether both name one interpreter in one environment, as `python` and `python3` do."""
    if one == other:
        return True
    return os.path.dirname(one) == os.path.dirname(other) and os.path.realpath(one) == os.path.realpath(other)


def search_path(
    request: Mapping[str, Any], environment: Mapping[str, str], base: Sequence[str], first: str
) -> list[str]:
    """Value of `sys.path` in a process with this environment; `first` is the folder of its script."""
    if request.get("path") is not None:  # what has been added to `base` by imports comes last
        return list(dict.fromkeys((first, *request["path"], *base)))
    extra = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [first, *extra, *base]


def reason(
    request: Mapping[str, Any],
    *,
    executable: str,
    flags: Sequence[int],
    own: Mapping[str, Any],
    known: Collection[str],
    loaded: Collection[str],
    read: Container[str],
    application: Application = DEFAULT,
) -> str:
    """The reason for which a server with these properties refuses this request; empty when it forks.

    `own` describes the server as `launcher.describe` does, `known` are the folders of its module search path,
    `loaded` the top-level names of its modules that come from files, `read` the variables that those have
    read.
    """
    environment = own["environment"]
    argv = request["argv"]
    if not argv or not same_interpreter(argv[0], executable):
        return f"another interpreter: {argv[0] if argv else 'none'}"
    if request.get("flags") is not None and list(request["flags"]) != list(flags):
        return "other flags of Python"
    words = [word for word in argv[1:] if word not in FLAGS_OF_PYTHON]
    if not words or (words[0].startswith("-") and words[0] not in NO_SCRIPT):
        return f"neither a script nor a module: {' '.join(argv[1:3])}"
    try:
        context = runtime_context(argv)
        folder = request["cwd"]
        if context is not None:
            folder = folder_of(context) or folder
            if not same_interpreter(context.get("py_executable") or executable, executable):
                return f"another interpreter: {context['py_executable']}"
            if context.get("override_worker_entrypoint"):
                return "another worker"
            if context.get("java_jars") or "--language=JAVA" in argv or "--language=CPP" in argv:
                return "another language"
        wanted = effective_environment(request)
        name = differing(wanted, environment, read, application)
        another = f"another {name}" if name else ""
        doubt = application.doubt(wanted, environment) or another or beyond(request, own)
        if doubt:
            return doubt
        if not os.access(folder, os.X_OK):
            return f"no way into {folder}"
        first = ""  # that of a worker is Ray's
        if context is None:
            script = os.path.join(request["cwd"], words[0])
            first = folder if words[0] in NO_SCRIPT else os.path.dirname(os.path.realpath(script))
        path = search_path(request, wanted, (), first)
        for subfolder in new_folders([entry for entry in path if entry], known):
            shadowed = hidden(os.path.join(folder, subfolder), loaded)
            if shadowed:
                return f"{subfolder} has a module of its own called {shadowed}"
    except ValueError as error:
        return str(error)
    return ""
