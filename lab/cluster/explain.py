"""Explains why a job failed to somebody who meets the error for the first time: a table and its reader.

What ended a job is its driver's last error. Only that one is explained: the script has dealt with the errors
before it, and one that is not in the table speaks for itself. docs/troubleshooting.md has a section for
each row, with an example that works.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from lab.cluster.jobs import Job

PAGE = "docs/troubleshooting.md"

CROWD = "TooManyProcessesError"
"""Beginning of what a node says before it kills, see lab/probe/raylab_node/crowds.py."""

LAST_LINES = 60
"""Lines of the driver's own at the end of a log in which the error must stand."""

LINE_WIDTH = 160
"""Characters of the log's line that an explanation shows."""


@dataclass(frozen=True)
class Cause:
    """A row of the table: what the last error must say."""

    name: str
    title: str
    todo: str
    says: re.Pattern[str] = re.compile(r"(?!)")
    beside: re.Pattern[str] | None = None
    """What other lines of the log must say, too."""
    names: Callable[[str], str] | None = None
    """Gives the title from the words of the job."""

    @property
    def docs(self) -> str:
        """The page and its section, which has the title as heading."""
        anchor = re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")
        return f"{PAGE}#{anchor}"


@dataclass(frozen=True)
class Explanation:
    """A cause, and the words of the job that tell it."""

    cause: Cause
    line: str
    title: str
    """That of the cause, or a more exact one."""

    @property
    def summary(self) -> str:
        """The cause, and the words of the job that tell it."""
        return f"{self.title} ({self.line})" if self.line else self.title

    @property
    def advice(self) -> str:
        """The remedy, and the page that says more."""
        return f"{self.cause.todo}; {self.cause.docs}"


def _cause(
    name: str,
    title: str,
    todo: str,
    *says: str,
    beside: str = "",
    names: Callable[[str], str] | None = None,
) -> Cause:
    return Cause(name, title, todo, re.compile("|".join(says)), re.compile(beside) if beside else None, names)


MERGE = re.compile(
    r"Failed to merge the Job's runtime env (\{.*\}) with a ray\.init's runtime env (\{.*\}) because "
)


def _colliding(text: str) -> str:
    """Say what Ray cannot merge: keys, or variables, that a job and ray.init both name."""
    title = "ray.init and the job both name "
    try:
        match = MERGE.search(text)
        job, own = (ast.literal_eval(part) for part in match.groups()) if match else ({}, {})
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # not only plain values in it
        job = own = {}
    variables = set(job.pop("env_vars", None) or {}) & set(own.pop("env_vars", None) or {})
    both = [*sorted(set(job) & set(own)), *(f"env_vars.{name}" for name in sorted(variables))]
    return title + (" and ".join(both) or "the same key of the runtime environment")


GROUP = r"Training failed due to worker errors:[\s\S]*"
CRASHED = r"The actor is dead because its worker process has died\. Worker exit type: SYSTEM_ERROR"

INFEASIBLE = _cause(
    "infeasible",
    "more was asked for than the lab has",
    "`labctl top` shows what each node offers; ask for less, or start the lab with more",
    r"The worker group startup timed out after [\d.]+ seconds waiting for \d+ workers",
    r"Job supervisor actor failed to start within [\d.]+ seconds.*aren't available on the cluster",
    r"Job supervisor actor could not be scheduled",
)

CAUSES = (
    INFEASIBLE,
    _cause(
        "tuner-trainer",
        "tune.Tuner was given a trainer of Ray Train; it takes a function",
        "give it a function that makes the trainer and calls its fit()",
        r"TuneError: Improper 'run' - not string nor trainable\.",
    ),
    _cause(
        "storage-path",
        "checkpoints were to be stored where not every node finds them",
        'let RunConfig name the object store: storage_path="s3://ray"',
        r"Unable to set up cluster storage with the following settings",
    ),
    _cause(
        "ray-init",
        "ray.init was given resources, although it joined a cluster that is up",
        "call it without num_cpus, num_gpus and the like; let tasks, actors and ScalingConfig ask for them",
        r"When connecting to an existing cluster, (?:num_cpus and num_gpus|resources|labels"
        r"|object_store_memory|_system_config|_enable_object_reconstruction) must not be provided\.",
    ),
    _cause(
        "runtime-env-conflict",
        "ray.init and the job both name the same key of the runtime environment",
        "leave it out of ray.init: the job has it already; or submit without it",
        MERGE.pattern,
        names=_colliding,
    ),
    _cause(
        "cpu-build",
        "the lab has GPUs, and its PyTorch is a build for the CPU",
        "`labctl images build --gpu nvidia` (or amd) builds the right image; `--gpu simulated` needs none",
        r"raylab: PyTorch \S+ of this lab is a build for the CPU",
    ),
    _cause(
        "no-gpu",
        "the script needs a GPU, and there is none where it ran",
        'let it take what there is (accelerator="auto", backend "gloo"), or ask for the GPU (use_gpu=True)',
        r"Distributed package doesn't have NCCL built in",
        r"ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        r"Torch not compiled with CUDA enabled",
        r"RuntimeError: No CUDA GPUs are available",
        r"MisconfigurationException: No supported gpu backend found!",
        r"`CUDAAccelerator` can not run on your system",
    ),
    _cause(
        "module",
        "a Python module is missing where the job ran",
        "name its package in a runtime environment (--runtime-env), or send its file along (--working-dir)",
        r"ModuleNotFoundError: No module named '[^']+'",
    ),
    _cause(
        "program",
        "a program is missing where the job ran",
        "nodes have the programs of the lab's image, or of this machine where they are plain processes",
        r"Job entrypoint command failed with exit code 127\b",
        r"in _execute_child\n(?:[ \t].*\n){1,2}FileNotFoundError: \[Errno 2\] No such file or directory: ",
        r"ValueError: Could not find Conda executable at ",
    ),
    _cause(
        "path",
        "a file does not exist where the job ran",
        "nodes do not see your machine's files: send the file along, or read it from s3://ray or /mnt",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: ",
        r"can't open file '[^']+': \[Errno 2\] No such file or directory",
    ),
    _cause(
        "download",
        "a download failed: the node does not reach that server",
        "fetch the file where there is internet, and put it into the lab's folder of data sets or s3://ray",
        r"URLError: <urlopen error ",
        r"ConnectionError: HTTPSConnectionPool\(",
    ),
    _cause(
        "memory",
        "a node was almost out of memory, and Ray ended the process that used it",
        "use a smaller batch, fewer data loaders or fewer ranks for each node, or give nodes more memory",
        r"were killed due to the node running low on memory",
        r"Task was killed due to the node running low on memory",
        r"Memory on the node \(IP: [^)]+\) was [\d.]+GB used / [\d.]+GB limit",
    ),
    _cause(
        "no-failures",
        "training lost a rank, and its RunConfig allows no failure (max_failures 0, Ray's default)",
        "FailureConfig(max_failures=3) in its RunConfig lets it start again; max_preemption_failures counts "
        "only ends that Ray was told of before, as by `labctl fault-inject --fault drain`",
        rf"{GROUP}The actor (?:died|is dead) because its node has died\.",
        rf"{GROUP}{CRASHED}",
        beside=r"\[FailurePolicy\] RAISE\n.*: worker group\n.*\(max allowed: 0\)(?![\s\S]*\[FailurePolicy)",
    ),
    _cause(
        "crowd",
        "a part of the job ran too many processes, and the node ended it",
        "start fewer at once: a pool of as many processes as the job has CPUs is as fast",
        rf"{CROWD}: this part of the job ran \d+ processes and threads",
    ),
    _cause(
        "killed",
        "a process of the job was killed or crashed, as when Linux is out of memory",
        "`labctl top` shows the memory of each node while it runs; FailureConfig lets training start again",
        CRASHED,
        r"The worker died unexpectedly while executing this task\.",
        r"Job entrypoint command failed with exit code (?:-9|137)\b",
    ),
    _cause(
        "crashed",
        "the job's own program crashed in native code",
        "the log's last lines name the library; a training that had ended has its checkpoints all the same",
        r"Job entrypoint command failed with exit code (?:-(?:4|6|7|8|11)|13[2456]|139)\b",
    ),
    _cause(
        "gpu-memory",
        "the memory of the GPU is full",
        "use a smaller batch or model; `labctl top` shows who else is on that GPU",
        r"(?:CUDA|HIP) out of memory\. Tried to allocate ",
    ),
    _cause(
        "gpu-driver",
        "PyTorch cannot work with the driver of the GPU",
        "`labctl gpus` shows what the workers see; update the driver, or use a build of PyTorch for it",
        r"Unexpected error from cudaGetDeviceCount\(\)",
        r"MisconfigurationException: Device should be CPU, got cuda:\d+ instead",
        r"The NVIDIA driver on your system is too old",
    ),
    _cause(
        "gpu-twice",
        "two ranks of the job are on one GPU, which NCCL refuses",
        'give each rank a GPU of its own ("GPU": 1), or let them use Gloo: TorchConfig(backend="gloo")',
        r"Duplicate GPU detected : rank \d+ and rank \d+ both on CUDA device ",
    ),
    _cause(
        "node-lost",
        "training lost a node, and was not allowed to start again",
        "FailureConfig(max_failures=3) in its RunConfig allows it; Ray's default is 0",
        rf"{GROUP}The actor (?:died|is dead) because its node has died\.",
    ),
    _cause(
        "versions",
        "Ray or Python has another version than the cluster's",
        "use the lab's own: leave ray out of the runtime environment, and submit instead of connecting",
        r"RuntimeError: Version mismatch: The cluster was started with:",
        r"Ray version mismatch: cluster has Ray version ",
        r"Changing the ray version is not allowed: ",
    ),
    _cause(
        "working-dir",
        "the working directory is too large to be sent",
        "submit a smaller folder (--working-dir), and put data into the object store",
        r"Package size \([\d.]+MiB\) exceeds the maximum size of ",
    ),
    _cause(
        "packages",
        "the packages of the runtime environment could not be installed",
        "check their names, and that nodes reach the package index; or use what the lab has",
        r"ERROR: No matching distribution found for ",
        r"ERROR: Could not find a version that satisfies the requirement ",
        r"No solution found when resolving dependencies",
    ),
    _cause(
        "lightning",
        "Lightning was not told that Ray Train starts the processes",
        "give its Trainer RayDDPStrategy() and RayLightningEnvironment(), then call prepare_trainer",
        r"To use PyTorch Lightning with Ray, the strategy object should be one of ",
        r"Invalid cluster environment plugin\. The expected class is`ray\.train\.lightning\.",
    ),
    _cause(
        "two-lightnings",
        "the Trainer is of one package of Lightning, and Ray's strategy of the other",
        "where `lightning` is installed Ray uses that: import lightning.pytorch, or do not install it",
        r"You selected an invalid strategy name: `strategy=<ray\.train\.lightning\.",
    ),
    _cause(
        "process-group",
        "the script sets up torch.distributed, which Ray Train had done already",
        "leave init_process_group out: Ray Train calls it before the training function",
        r"trying to initialize the default process group twice!",
    ),
    _cause(
        "store-key",
        "the object store refused the key",
        "leave keys and endpoint out of the script: the lab's are in its environment",
        r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH)"
        r" during ",
        r"An error occurred \((?:AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch)\) when calling the ",
        r"botocore\.exceptions\.NoCredentialsError: Unable to locate credentials",
    ),
    _cause(
        "port",
        "a port that the script wants is in use",
        "let the system choose a free one (port 0), and leave MASTER_PORT to Ray Train",
        r"OSError: \[Errno (?:98|48)\] (?:Address already in use|error while attempting to bind on address)",
        r"The server socket has failed to listen on any local network address\. .*EADDRINUSE",
        r"because it's already occupied\. You can use `ray start --dashboard-port",
    ),
    _cause(
        "pickle",
        "an object of the script cannot be sent to another process",
        "create it inside the training function, task or actor that uses it",
        r"Could not serialize the (?:function|actor class|put value|argument) ",
        r"TypeError: cannot pickle '[^']+' object",
        r"PicklingError: Can't pickle ",
    ),
)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OF_OTHERS = re.compile(r"\((?:.* pid=\d+|raylet|autoscaler)[^)]*\)")
"""Beginning of a line that Ray has copied from another process into the driver's output."""

_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:\(\w+\))?(?::|$)")
_AFTER_FRAMES = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:\(\w+\))?(?::|$)")
_FRAME = re.compile(r'  File "[^"]+", line \d+, in ')
_CANNOT_OPEN = re.compile(r"\S*python[\d.]*: can't open file ")
_ABOUT_ANOTHER = re.compile(
    r"TuneError: .*Trials did not complete|No best trial found for the given metric"
    r"|Connection (?:closed|reset) by peer|gloo/transport|DistBackendError|[Bb]roken pipe"
)
"""Errors that follow from another: Tune's about its trials, and those of ranks whose neighbour is gone."""

_ENTRYPOINT = "Job entrypoint command failed with exit code "
"""Beginning of Ray's message where the command itself has failed; the end of its log follows."""


def explain(message: str, log: str = "") -> Explanation | None:
    """The cause of a failed job, from Ray's message on it and its log; None for what is not in the table."""
    if not message.startswith(_ENTRYPOINT):  # Ray's own last word: the log, if any, was not the end
        return _match(message)
    first, _, end = message.partition("\n")
    last = _last_error(log or end)
    first = "" if last.startswith(CROWD) else first.partition(", last available logs")[0]
    return _match(first) or _match(last, log or end)


def why_failed(job: Job, logs: Callable[[str], str]) -> Explanation | None:
    """The cause of a job that failed; `logs` gives the log of a job. None for any other job."""
    if job.status != "FAILED":
        return None
    log = ""  # its node may be gone with the log; the message has the end of it
    with contextlib.suppress(LabError):
        log = logs(job.submission_id)
    return explain(job.message, log)


def of_waiting(reason: str) -> Explanation:
    """Explanation of a job that waits for what no node can ever give."""
    return Explanation(INFEASIBLE, reason, INFEASIBLE.title)


def _last_error(log: str) -> str:
    """From the last error of the driver's own, with the frame that raised it, to the end; empty when there is
    none."""
    lines = [line for line in _COLOUR.sub("", log).splitlines() if not _OF_OTHERS.match(line)][-LAST_LINES:]
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        framed = number > 0 and lines[number - 1].startswith((" ", "\t"))
        error = _ERROR.match(line) or _CANNOT_OPEN.match(line) or (framed and _AFTER_FRAMES.match(line))
        if error and not _ABOUT_ANOTHER.search(line):
            begin = next((n for n in (number - 3, number - 2) if n > 0 and _FRAME.match(lines[n])), number)
            return "\n".join(lines[begin:])
    return ""


def _match(text: str, log: str = "") -> Explanation | None:
    """The cause whose words come last in the text, which is of this log; of equal ones the first."""
    matches = [
        (match, cause)
        for cause in CAUSES
        if cause.beside is None or cause.beside.search(log)
        for match in cause.says.finditer(text)
    ]
    if not matches:
        return None
    match, cause = max(matches, key=lambda one: one[0].end())
    line = text[text.rfind("\n", 0, match.end()) + 1 :].partition("\n")[0].strip()
    return Explanation(
        cause,
        line if len(line) <= LINE_WIDTH else f"{line[: LINE_WIDTH - 3]}...",
        cause.names(match[0]) if cause.names else cause.title,
    )
