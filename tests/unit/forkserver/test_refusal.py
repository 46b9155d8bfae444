"""What a fork server forks, and why it does not fork the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forkserver import refusal
from forkserver.application import Application
from forkserver.reads import Reads

PYTHON = "/venv/bin/python"
FLAGS = (0, 0, 0)
WORKER = [PYTHON, "/ray/workers/setup_worker.py", "/ray/workers/default_worker.py", "--node-id=1"]


STANDING: dict[str, Any] = {
    "standing": ["net net:[1]", "Uid:\t1000\t1000", "root /"],
    "scheduler": 0,
    "nice": 0,
    "oom_score": 0,
    "limits": {"RLIMIT_NOFILE": [1024, 4096], "RLIMIT_STACK": [8388608, -1], "RLIMIT_CORE": [0, -1]},
}


MINE = Application(
    read_at_start=("MINE_",),
    read_later=frozenset({"MINE_LATER"}),
    doubt=lambda wanted, own: "a day for nothing" if wanted.get("DAY") != own.get("DAY") else "",
)


def request(argv: list[str], cwd: str = "/", **more: Any) -> dict[str, Any]:
    return {**STANDING, "argv": argv, "environment": {"HOME": "/home"}, "cwd": cwd, **more}


def reason(asked: dict[str, Any], environment: Mapping[str, str] | None = None, **own: Any) -> str:
    known: dict[str, Any] = {
        "executable": PYTHON,
        "flags": FLAGS,
        "own": {**STANDING, "environment": environment or {"HOME": "/home"}},
        "known": frozenset({"/lib"}),
        "loaded": frozenset({"torch", "pandas"}),
        "read": Reads({"RANK", "PATH"}, {"TQDM_"}),
        "application": MINE,
    }
    return refusal.reason(asked, **{**known, **own})


def with_context(**context: Any) -> dict[str, Any]:
    words = [*WORKER, f"--serialized-runtime-env-context={json.dumps(context)}", "--language=PYTHON"]
    return request(words)


@pytest.mark.parametrize(
    "argv",
    [
        [PYTHON, "/job/train.py", "--epochs", "5"],
        [PYTHON, "-u", "/job/train.py"],
        [PYTHON, "-m", "ray.util.client.server", "--port=1"],
        WORKER,
        [*WORKER, "--serialized-runtime-env-context={}", "--language=PYTHON"],
    ],
)
def test_scripts_modules_and_workers_are_forked(argv: list[str]) -> None:
    assert reason(request(argv)) == ""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request([]), "another interpreter: none"),
        (request(["/usr/bin/python", "x.py"]), "another interpreter: /usr/bin/python"),
        (request([PYTHON]), "neither a script nor a module"),
        (request([PYTHON, "-i", "x.py"]), "neither a script nor a module"),
        (request([PYTHON, "-O", "x.py"]), "neither a script nor a module"),
        (request([PYTHON, "x.py"], flags=[1, 0, 0]), "other flags of Python"),
        (with_context(py_executable="/other/python"), "another interpreter: /other/python"),
        (with_context(py_executable="uv run"), "another interpreter: uv run"),
        (with_context(command_prefix=["source", "activate", "&&"]), "a command comes first: source activate"),
        (with_context(command_prefix=["cd", "/x", "&&", "conda"]), "a command comes first"),
        (with_context(override_worker_entrypoint="x.py"), "another worker"),
        (with_context(java_jars=["a.jar"]), "another language"),
        (request([*WORKER, "--language=CPP"]), "another language"),
        (with_context(env_vars={"LD_PRELOAD": "/x.so"}), "another LD_PRELOAD"),
        (request([*WORKER, "--serialized-runtime-env-context={"]), "Expecting"),
    ],
)
def test_every_doubt_has_its_reason(asked: dict[str, Any], words: str) -> None:
    assert words in reason(asked)


@pytest.mark.parametrize(
    "name",
    [
        *("PYTHONHASHSEED", "PYTHONPATHX", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "LANG", "OMP_PROC_BIND"),
        *("CUDA_MODULE_LOADING", "TORCH_LOGS", "HF_HOME", "RAY_DEDUP_LOGS", "MINE_AT_START", "MPLBACKEND"),
        *("GRPC_ENABLE_FORK_SUPPORT", "SSL_CERT_FILE", "NPY_DISABLE_CPU_FEATURES", "TORCHINDUCTOR_CACHE_DIR"),
        *("RANK", "TQDM_DISABLE"),  # seen to be read
    ],
)
def test_a_variable_that_is_read_at_the_start_must_be_the_same(name: str) -> None:
    asked = request([PYTHON, "/job/x.py"])
    asked["environment"][name] = "1"
    assert reason(asked) == f"another {name}"
    assert reason(asked, environment={"HOME": "/home", name: "1"}) == ""
    assert (
        reason(request([PYTHON, "/job/x.py"]), environment={"HOME": "/home", name: "1"}) == f"another {name}"
    )
    asked["environment"][name] = ""
    assert reason(asked) == ""


@pytest.mark.parametrize(
    "name",
    [
        *sorted(refusal.READ_LATER),
        "MINE_LATER",
        "EPOCHS",
        "AWS_REGION",
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
    ],
)
def test_any_other_variable_may_differ(name: str) -> None:
    asked = request([PYTHON, "/job/x.py"])
    asked["environment"][name] = "1"
    assert reason(asked) == ""


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"nice": 5, "oom_score": 1000}, ""),
        ({"limits": {**STANDING["limits"], "RLIMIT_NOFILE": [16, 16], "RLIMIT_CORE": [0, 0]}}, ""),
        ({"nice": -1}, "a higher priority: nice -1"),
        ({"oom_score": -1}, "a lower oom_score_adj: -1"),
        ({"scheduler": 3}, "another scheduling policy"),
        ({"standing": ["net net:[2]", *STANDING["standing"][1:]]}, "another net"),
        ({"standing": [STANDING["standing"][0], "Uid:\t0\t0", "root /"]}, "another Uid"),
        ({"standing": STANDING["standing"][:2]}, "another root"),
        ({"limits": {**STANDING["limits"], "RLIMIT_NOFILE": [1024, 8192]}}, "a higher RLIMIT_NOFILE"),
        ({"limits": {**STANDING["limits"], "RLIMIT_NOFILE": [1024, -1]}}, "a higher RLIMIT_NOFILE"),
        ({"limits": {**STANDING["limits"], "RLIMIT_STACK": [4194304, -1]}}, "another RLIMIT_STACK"),
        ({"cwd": "/no/such/folder"}, "no way into /no/such/folder"),
    ],
)
def test_what_a_fork_cannot_take_on_from_its_caller_is_a_doubt(asked: dict[str, Any], why: str) -> None:
    doubt = reason({**request([PYTHON, "/job/x.py"]), **asked})
    assert doubt.startswith(why)
    assert bool(doubt) == bool(why)


def test_the_application_has_doubts_of_its_own() -> None:
    asked = with_context(env_vars={"DAY": "Monday"})
    assert reason(asked) == "a day for nothing"
    assert reason(asked, environment={"HOME": "/home", "DAY": "Monday"}) == ""


def test_an_interpreter_may_have_several_names(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    real = tmp_path / "python3.11"
    real.touch()
    names = [tmp_path / "one" / "python", tmp_path / "one" / "python3", tmp_path / "two" / "python"]
    for name in names:
        name.symlink_to(real)
    asked = request([str(names[1]), "/job/x.py"])
    assert reason(asked, executable=str(names[0])) == ""
    assert "another interpreter" in reason(asked, executable=str(names[2]))


def test_the_working_directory_of_a_runtime_environment_is_no_doubt() -> None:
    context = {"command_prefix": ["cd", "/tmp", "&&"], "env_vars": {"PYTHONPATH": "/no/where", "X": "1"}}
    assert reason(with_context(**context)) == ""
    assert refusal.folder_of(context) == "/tmp"
    assert refusal.folder_of({"command_prefix": ["cd", "'/tmp/a pkg'", "&&"]}) == "/tmp/a pkg"


@pytest.mark.parametrize(
    ("entry", "hides"),
    [
        ("torch.py", True),
        ("pandas.cpython-311-x86_64-linux-gnu.so", True),
        ("torch/__init__.py", True),
        ("torch/readme.txt", False),
        ("mine.py", False),
        ("torch.txt", False),
    ],
)
def test_a_module_that_has_the_name_of_a_loaded_one_is_a_doubt(
    tmp_path: Path, entry: str, hides: bool
) -> None:
    path = tmp_path / entry
    path.parent.mkdir(exist_ok=True)
    path.touch()
    for asked in (
        request([PYTHON, str(tmp_path / "x.py")]),
        request([PYTHON, "x.py"], cwd=str(tmp_path)),
        request([PYTHON, "-m", "x"], cwd=str(tmp_path)),
        request([PYTHON, "/job/x.py"], path=[str(tmp_path), "/lib"]),
        with_context(env_vars={"PYTHONPATH": str(tmp_path)}),
    ):
        assert ("of its own" in reason(asked)) == hides
    assert reason(request([PYTHON, str(tmp_path / "x.py")]), known=frozenset({str(tmp_path)})) == ""


def test_a_folder_with_too_many_entries_is_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "MOST_ENTRIES", 2)
    for name in "abc":
        (tmp_path / f"{name}.txt").touch()
    assert "too many entries" in reason(request([PYTHON, str(tmp_path / "x.py")]))


def test_the_search_path_is_pythons() -> None:
    asked, environment = request([PYTHON, "x.py"]), {"PYTHONPATH": "/a::/b"}
    assert refusal.search_path(asked, environment, ["/lib"], "/job") == ["/job", "/a", "/b", "/lib"]
    asked["path"] = ["/a", "/lib"]
    assert refusal.search_path(asked, {}, ["/lib", "/added"], "/job") == ["/job", "/a", "/lib", "/added"]
