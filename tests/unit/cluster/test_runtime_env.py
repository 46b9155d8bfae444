"""Runtime environments: what is read, what is sent, what is refused with its key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.runtime_env import KEYS, ON_NODES, Origin, prepared, read_runtime_env, sendable
from lab.cluster.submission import described
from lab.errors import LabError, NotFoundError, UsageError


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is sent as it is."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "requirements.txt": "a==1\n\n  # note\n b\n",
        "nested/more.txt": "-r ../requirements.txt\n-c limits.txt\n./own\n",
        "nested/limits.txt": "a<2\n",
        "nested/own/setup.py": "",
        "nested/circle.txt": "c\n-r circle.txt\n",
        "mylib/__init__.py": "X = 1",
        "one.py": "",
        "wheels/a-1-py3-none-any.whl": "",
        "environment.yml": "dependencies: [python=3.11]",
        "binary.txt": "",
        "secret.txt": "",
        ".gitignore": "secret.txt\n",
    }.items():
        write(tmp_path / name, text)
    write(tmp_path / "binary.txt", b"\xff\xfe")
    return tmp_path


def made(folder: Path, environment: dict[str, Any]) -> dict[str, Any]:
    return dict(described("true", folder, runtime_env=environment).runtime_env)


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({"pip": "requirements.txt"}, {"pip": ["a==1", "b"]}),
        ({"uv": "requirements.txt"}, {"uv": ["a==1", "b"]}),
        (
            {"pip": {"packages": "requirements.txt", "pip_check": False}},
            {"pip": {"packages": ["a==1", "b"], "pip_check": False}},
        ),
        ({"uv": {"packages": ["-rrequirements.txt", "d"]}}, {"uv": {"packages": ["a==1", "b", "d"]}}),
        (
            {"pip": "nested/more.txt"},
            {"pip": ["a==1", "b", f"-c {ON_NODES}/nested/limits.txt", f"{ON_NODES}/nested/own"]},
        ),
        ({"pip": ["--requirement=nested/circle.txt"]}, {"pip": ["c"]}),
        (
            {"pip": ["-e ./nested/own", "wheels/a-1-py3-none-any.whl", "-f wheels", "./nested/own[x] ; 1"]},
            {
                "pip": [
                    f"-e {ON_NODES}/nested/own",
                    f"{ON_NODES}/wheels/a-1-py3-none-any.whl",
                    f"-f {ON_NODES}/wheels",
                    f"{ON_NODES}/nested/own[x] ; 1",
                ]
            },
        ),
        ({"pip": f"{ON_NODES}/requirements.txt"}, {"pip": [f"-r {ON_NODES}/requirements.txt"]}),
        ({"uv": [f"-r {ON_NODES}/requirements.txt"]}, {"uv": [f"-r {ON_NODES}/requirements.txt"]}),
        ({"pip": [f"{ON_NODES}/nested/own"]}, {"pip": [f"{ON_NODES}/nested/own"]}),
        (
            {"conda": {"name": "x", "dependencies": ["python=3.11", {"pip": ["-r requirements.txt", "d"]}]}},
            {"conda": {"name": "x", "dependencies": ["python=3.11", {"pip": ["a==1", "b", "d"]}]}},
        ),
        ({"conda": {"dependencies": ["a"]}}, {"conda": {"dependencies": ["a"]}}),
    ],
)
def test_what_names_a_file_is_read_or_leads_to_where_it_is_on_the_nodes(
    folder: Path, environment: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert made(folder, environment) == sent


@pytest.mark.parametrize(
    "environment",
    [
        {
            "pip": [
                "a",
                "b==1; python_version < '4'",
                "--index-url https://x",
                "-f https://x/y",
                "d @ https://x",
            ]
        },
        {"pip": ["-r /mnt/only/there.txt", "/mnt/wheels/x.whl", "-f /mnt/wheels"]},
        {
            "pip": None,
            "uv": {"packages": ["a"], "uv_pip_install_options": ["--no-cache"]},
        },
        {"conda": "an-environment-of-the-nodes"},
        {"py_modules": ["s3://ray/x.whl", "gcs://_ray_pkg_1.zip", "local:///opt/x"]},
        {"java_jars": ["s3://ray/x.jar"]},
        {"env_vars": {"A": "1"}, "config": {"setup_timeout_seconds": 60, "eager_install": True}},
        {"worker_process_setup_hook": "one.hook", "py_executable": "python -O", "excludes": ["*.csv"]},
        {"nsight": "default", "_rocprof_sys": {"a": {}}, "_inject_current_ray": True},
    ],
)
def test_what_names_no_file_stays_as_it_is(folder: Path, environment: dict[str, Any]) -> None:
    from ray.runtime_env import RuntimeEnv

    assert made(folder, environment) == environment
    RuntimeEnv(**environment)


@pytest.mark.parametrize(
    ("environment", "key", "error"),
    [
        ({"pip": "none.txt"}, "pip: .*none.txt", NotFoundError),
        ({"uv": "none.txt"}, "uv: .*none.txt", NotFoundError),
        ({"pip": {"packages": "none.txt"}}, r"pip\.packages: .*none.txt", NotFoundError),
        ({"pip": ["-r none.txt"]}, "pip: .*none.txt", NotFoundError),
        ({"pip": [f"-r {ON_NODES}/none.txt"]}, "pip: .*none.txt", NotFoundError),
        ({"pip": f"{ON_NODES}/none.txt"}, "pip: .*none.txt", NotFoundError),
        ({"pip": ["-e secret.txt"]}, r"pip: .*secret.txt .*gitignore", UsageError),
        ({"pip": [f"-c {ON_NODES}/secret.txt"]}, r"pip: .*secret.txt .*gitignore", UsageError),
        ({"pip": ["../outside.whl"]}, r"pip: .*outside.whl", UsageError),
        ({"pip": "binary.txt"}, "pip: .*binary.txt: not text", UsageError),
        ({"pip": 5}, "pip: must be a list", UsageError),
        ({"pip": ["a", 5]}, "pip: must be a list", UsageError),
        ({"pip": {}}, r"pip\.packages: is missing", UsageError),
        ({"pip": {"packages": ["a"], "check": True}}, r"pip\.check: ", UsageError),
        ({"uv": {"packages": ["a"], "uv_check": "no"}}, r"uv\.uv_check: ", UsageError),
        ({"pip": {"packages": ["a"], "pip_install_options": ["-f=./wheels"]}}, "pip: -f=", UsageError),
        ({"pip": ["a"], "conda": "x"}, "conda: cannot be used with pip", UsageError),
        ({"conda": "environment.yml"}, "conda: .*environment.yml", UsageError),
        ({"conda": ["a"]}, "conda: .*neither the name", UsageError),
        (
            {"conda": {"dependencies": [{"pip": ["-r none.txt"]}]}},
            r"conda\.dependencies\.pip: ",
            NotFoundError,
        ),
        ({"py_modules": "mylib"}, "py_modules: must be a list", UsageError),
        ({"py_modules": ["./none"]}, "py_modules: .*none", NotFoundError),
        ({"py_modules": ["requirements.txt"]}, "py_modules: .*neither a folder", UsageError),
        ({"py_modules": ["ftp://x/y.zip"]}, "py_modules: ftp:", UsageError),
        ({"py_modules": ["https://x/y.txt"]}, "py_modules: https:", UsageError),
        ({"java_jars": ["./x.jar"]}, r"java_jars: \./x\.jar", UsageError),
        ({"excludes": "*.log"}, "excludes: must be a list", UsageError),
        ({"excludes": ["[z-a]"]}, "excludes: .*not a pattern", UsageError),
        ({"env_vars": ["A"]}, "env_vars: must be", UsageError),
        ({"config": {"timeout": 5}}, r"config\.timeout: ", UsageError),
        ({"worker_process_setup_hook": print}, "worker_process_setup_hook: must be", UsageError),
        ({"py_executable": ["python"]}, "py_executable: must be", UsageError),
        ({"image_uri": "x:1"}, "image_uri: Ray takes no", UsageError),
        ({"container": {"image": "x"}}, "container: Ray takes no", UsageError),
        ({"env_var": {"A": "1"}}, "env_var: not a key", UsageError),
        ({"working_directory": "."}, "working_directory: not a key", UsageError),
    ],
)
def test_what_cannot_work_is_refused_with_its_key(
    folder: Path, environment: dict[str, Any], key: str, error: type[LabError]
) -> None:
    write(folder.parent / "outside.whl", "")
    with pytest.raises(error, match=f"^runtime_env: {key}"):
        made(folder, environment)


def test_the_table_has_every_key_that_ray_knows() -> None:
    from ray.runtime_env import RuntimeEnv

    assert set(KEYS) == RuntimeEnv.known_fields | {"nsight", "rocprof_sys"}


def test_a_key_that_is_almost_one_is_corrected(folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        made(folder, {"env_var": {}})
    assert refused.value.hint == "it is called env_vars"


def test_a_working_directory_elsewhere_must_be_one_that_ray_fetches(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"^runtime_env: working_dir: https:"):
        described("true", runtime_env={"working_dir": "https://example.org/code"})
    with pytest.raises(UsageError, match=r"own is not sent"):
        described("true", runtime_env={"working_dir": "s3://ray/code.zip", "pip": ["./nested/own"]})
    with pytest.raises(UsageError, match=r"^runtime_env: working_dir: must be"):
        described("true", runtime_env={"working_dir": 5})


def test_modules_are_paths_until_they_are_sent(folder: Path) -> None:
    wheel = "wheels/a-1-py3-none-any.whl"
    modules = made(folder, {"py_modules": ["./mylib", Path("one.py"), wheel, "s3://x/y.zip"]})["py_modules"]
    assert modules == [folder / "mylib", folder / "one.py", folder / wheel, "s3://x/y.zip"]
    with pytest.raises(UsageError, match=r"py_modules: .*mylib"):
        sendable({"py_modules": modules}, "through the queues")
    sendable({"py_modules": ["s3://x/y.zip"]}, "through the queues")
    sendable({}, "through the queues")


# Where files are looked for


def test_files_lie_beside_the_json_file_then_in_the_folder_that_is_sent_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, code, here = tmp_path / "beside", tmp_path / "code", tmp_path / "here"
    for place in (beside, code, here):
        write(place / "requirements.txt", f"# note\n{place.name}==1\n")
    monkeypatch.chdir(here)
    asked = {"pip": "requirements.txt"}
    file = write(beside / "env.json", json.dumps(asked))

    def packages(working_dir: Path | None = None, runtime_env: Any = asked) -> Any:
        return described("true", working_dir, runtime_env=runtime_env).runtime_env["pip"]

    assert packages(code, runtime_env=file) == ["beside==1"]
    assert packages(code) == ["code==1"]
    assert packages(runtime_env={**asked, "working_dir": "../code"}) == ["code==1"]
    assert packages() == ["here==1"]
    assert packages(runtime_env={**asked, "working_dir": "https://example.org/code.zip"}) == ["here==1"]
    assert packages(runtime_env={"pip": str(code / "requirements.txt")}) == ["code==1"]
    assert asked == {"pip": "requirements.txt"}, "what was given is changed"
    (beside / "requirements.txt").unlink()
    assert packages(code, runtime_env=file) == ["code==1"]
    (code / "requirements.txt").unlink()
    assert packages(code, runtime_env=file) == ["here==1"]
    with pytest.raises(NotFoundError, match=r"env\.json: pip: .*none\.txt"):
        packages(runtime_env=write(beside / "env.json", '{"pip": "none.txt"}'))


# The file itself


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: p / "none.json", NotFoundError, "No such file"),
        (lambda p: p, NotFoundError, "Is a directory"),
        (lambda p: write(p / "e.json", '{\n "a": }'), UsageError, "not JSON: .*line 2"),
        (lambda p: write(p / "e.json", b"\xff\xfe"), UsageError, "not JSON"),
        (lambda p: write(p / "e.json", "[1]"), UsageError, "must be a JSON object, not list"),
    ],
)
def test_a_file_that_is_no_runtime_environment_is_named(
    tmp_path: Path, make: Callable[[Path], Path], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_runtime_env(make(tmp_path))


def test_an_origin_without_folders_of_its_own_is_the_current_folder(folder: Path) -> None:
    assert prepared({"pip": "requirements.txt"}, Origin("x", (Path(),), None)) == {"pip": ["a==1", "b"]}
