"""The cause of a failed job, told by its last words."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from lab.cluster.explain import CAUSES, INFEASIBLE, LINE_WIDTH, PAGE, explain, of_waiting
from tests.conftest import ROOT
from tests.unit.data.failures import DIED, DRIVER, FAILED, GROUP, LOGS, LOST, MERGE, MESSAGES, RANK

CASES = [(name, log) for name, logs in LOGS.items() for log in logs]


def name_of(message: str, log: str = "") -> str | None:
    explanation = explain(message, log)
    return explanation.cause.name if explanation else None


@pytest.mark.parametrize(("name", "log"), CASES)
def test_a_known_last_error_is_explained(name: str, log: str) -> None:
    assert name_of(FAILED, f"epoch 1/3\n{log}") == name
    assert name_of(f"{FAILED}{log}") == name, "the log is gone with its node"


@pytest.mark.parametrize(("name", "message"), MESSAGES.items())
def test_what_ray_itself_says_of_a_job_is_explained(name: str, message: str) -> None:
    assert name_of(message) == name


def test_every_row_of_the_table_has_its_message_here() -> None:
    names = [cause.name for cause in CAUSES]
    assert len(set(names)) == len(names)
    assert {name for name, _ in CASES} | set(MESSAGES) == set(names)


@pytest.mark.parametrize(("name", "log"), CASES)
def test_an_error_that_the_script_dealt_with_is_not_why_it_failed(name: str, log: str) -> None:
    assert name_of(FAILED, f"{log}no matter: going on\n{DRIVER}ValueError: loss is nan\n") is None
    assert name_of(FAILED, f"{log}{DRIVER}KeyError: 'lr'\n") is None
    assert name_of(FAILED, f"{log}{DRIVER}my.project.Unlucky: no\n") is None
    assert name_of(FAILED, log + "epoch\n" * 200 + "giving up\n") is None


@pytest.mark.parametrize(("name", "log"), CASES)
def test_the_last_of_several_errors_counts(name: str, log: str) -> None:
    other = next(cause for cause in ("module", "path") if cause != name)
    assert name_of(FAILED, f"{LOGS[other][0]}{log}") == name


@pytest.mark.parametrize(("name", "log"), CASES)
def test_what_another_process_printed_is_not_the_drivers_error(name: str, log: str) -> None:
    copied = "".join(f"(RayTrainWorker pid=913, ip=172.18.0.6) {line}\n" for line in log.splitlines())
    coloured = "".join(f"\x1b[36m(train_func pid=913)\x1b[0m {line}\n" for line in log.splitlines())
    assert name_of(FAILED, copied) is None
    assert name_of(FAILED, coloured) is None
    assert name_of(FAILED, f"{log}(raylet) ValueError: late\n{copied}") == name


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError is what you get; No module named 'x' it says\n",
        "epoch 3: the actor died because its node has died\n",
        "import torchmetrics  # ModuleNotFoundError: No module named 'torchmetrics'\n",
        f"{GROUP}{DIED}The actor is dead because it was killed by `ray.kill`.\n",
        f"{DRIVER}ValueError: Address already in use by no student\n",
        f"{DRIVER}torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 80, useIpv6: false, code: -13, name: EACCES, message: permission denied\n",
        f"{DRIVER}ray.exceptions.ActorDiedError: {DIED}The actor died because its node has died. Node Id: "
        "5f\n",
        "",
    ],
)
def test_words_that_only_look_alike_are_left_alone(text: str) -> None:
    assert name_of(FAILED, text) is None


def test_neither_a_stopped_job_nor_a_lost_head_is_explained() -> None:
    assert name_of("Job was intentionally stopped.", LOGS["module"][0]) is None
    assert name_of("the head was lost, and with it job a: the new head does not know it", LOST) is None


def test_an_error_about_other_errors_is_looked_behind() -> None:
    missing = LOGS["module"][0]
    trials = f'{DRIVER}ray.tune.error.TuneError: ("Trials did not complete", [trial_0001])\n'
    neighbour = (
        f"[Rank 1 Error Snippet]:\n{RANK}RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by "
        "peer [172.18.0.6]:2201\n"
    )
    assert name_of(FAILED, missing + trials) == "module"
    assert name_of(FAILED, LOGS["module"][1] + neighbour) == "module"
    assert name_of(FAILED, LOST + neighbour) == "node-lost"


def test_the_line_that_told_is_shown_and_cut() -> None:
    explanation = explain(FAILED, LOGS["module"][0])
    assert explanation is not None
    assert explanation.line == "ModuleNotFoundError: No module named 'torchmetrics'"
    long = explain(FAILED, f"{DRIVER}ModuleNotFoundError: No module named '{'x' * 500}'\n")
    assert long is not None
    assert len(long.line) == LINE_WIDTH


def test_a_job_that_waits_for_ever_has_its_section_too() -> None:
    explanation = of_waiting("no node has 2 GPU; the largest has 1")
    assert (explanation.cause, explanation.line) == (INFEASIBLE, "no node has 2 GPU; the largest has 1")


@pytest.mark.parametrize(
    ("job", "own", "both"),
    [
        ("{'working_dir': 'gcs://x.zip'}", "{'working_dir': '.'}", "working_dir"),
        ("{'working_dir': 'a', 'pip': ['x']}", "{'pip': ['y'], 'working_dir': '.'}", "pip and working_dir"),
        (
            "{'env_vars': {'A': '1', 'B': '2'}, 'working_dir': 'a'}",
            "{'env_vars': {'B': '3', 'C': '4'}}",
            "env_vars.B",
        ),
        ("{'py_modules': ['x'], 'env_vars': {}}", "{'py_modules': [], 'env_vars': None}", "py_modules"),
        ("{'x': <object at 0x7f>}", "{'x': 1}", "the same key of the runtime environment"),
        ("{'x': 1}", "{'y': 1}", "the same key of the runtime environment"),
    ],
)
def test_what_ray_cannot_merge_is_named(job: str, own: str, both: str) -> None:
    explanation = explain(FAILED, DRIVER + MERGE.format(job=job, own=own))
    assert explanation is not None
    assert explanation.title == f"ray.init and the job both name {both}"
    assert explanation.summary.startswith(f"{explanation.title} (ValueError: Failed to merge")


CONDA = (  # ray/_private/runtime_env/conda_utils.py
    "runtime_env setup failed: Failed to set up runtime environment.\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/subprocess.py", line 1950, in _execute_child\n'
    "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
    "FileNotFoundError: [Errno 2] No such file or directory: 'conda'\n\nDuring handling of the above "
    "exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    "ValueError: Could not find Conda executable at 'conda'. Ensure Conda is installed ...\n"
)


def test_a_missing_program_is_no_missing_file() -> None:
    assert name_of(CONDA) == "program"
    assert name_of(CONDA.partition("During")[0]) == "program"


# The page


def test_the_page_has_a_section_with_an_example_for_each_cause_and_for_no_other() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    part = page.partition("\n## What a job died of\n")[2].partition("\n## ")[0]
    pieces = re.split(r"^### `(.+)`$", part, flags=re.MULTILINE)
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    assert list(sections) == [cause.title for cause in CAUSES]
    for title, text in sections.items():
        assert re.search(r"^```(python|json|sh)\n", text, re.MULTILINE), f"{title}: no example"
        assert text.partition("```")[0].count("`") >= 2, f"{title}: no word of the job's own"


def test_the_address_of_a_section_is_that_of_its_heading() -> None:
    (cause,) = [cause for cause in CAUSES if cause.name == "tuner-trainer"]
    assert cause.docs == f"{PAGE}#tunetuner-was-given-a-trainer-of-ray-train-it-takes-a-function"


# What is installed


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("ray/dashboard/modules/job/job_supervisor.py", "failed with exit code {return_code}, "),
        ("ray/dashboard/modules/job/job_manager.py", '"Job supervisor actor failed to start within "'),
        ("ray/tune/experiment/experiment.py", "Improper 'run' - not string nor trainable."),
        (
            "ray/train/v2/_internal/execution/storage.py",
            "Unable to set up cluster storage with the following",
        ),
        (
            "ray/train/v2/_internal/exceptions.py",
            "The worker group startup timed out after {timeout} seconds",
        ),
        ("ray/train/v2/api/exceptions.py", "Training failed due to worker errors:\\n"),
        ("ray/train/lightning/_lightning_utils.py", "the strategy object should be one of "),
        ("ray/_private/worker.py", '"When connecting to an existing cluster, num_cpus "'),
        ("ray/_private/utils.py", 'f"Version mismatch: {mismatch_msg}"'),
        ("ray/_private/runtime_env/packaging.py", "Package size ({size_str}) exceeds the maximum size of "),
        ("ray/_private/runtime_env/dependency_utils.py", "Changing the ray version is not allowed: "),
        ("ray/_private/services.py", "already occupied. You can use `ray start "),
        ("ray/remote_function.py", "Could not serialize the function "),
        ("ray/exceptions.py", "The worker died unexpectedly while executing this task. "),
        ("torch/distributed/distributed_c10d.py", "Distributed package doesn't have NCCL built in"),
        ("torch/distributed/distributed_c10d.py", "trying to initialize the default process group twice!"),
        ("torch/cuda/__init__.py", "Torch not compiled with CUDA enabled"),
        ("pytorch_lightning/trainer/connectors/accelerator_connector.py", "No supported gpu backend found!"),
        ("pytorch_lightning/trainer/connectors/accelerator_connector.py", "an invalid strategy name: "),
    ],
)
def test_the_words_are_still_those_of_what_is_installed(file: str, words: str) -> None:
    package, _, inside = file.partition("/")
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert words in (Path(spec.origin).parent / inside).read_text(encoding="utf-8")


def test_who_was_killed_for_a_crowd_is_not_told_of_memory() -> None:
    assert name_of("Job entrypoint command failed with exit code 137\n", LOGS["crowd"][0]) == "crowd"
