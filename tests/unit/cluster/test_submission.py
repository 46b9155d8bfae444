"""Submissions: the package, and what is refused before anything is sent."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import submission
from lab.cluster.submission import check_command, described, package, read_runtime_env
from lab.errors import NotFoundError, UsageError


def names(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


def test_a_package_holds_the_files_and_leaves_caches_out(tmp_path: Path) -> None:
    for name in ("train.py", "data/a.txt", ".git/config", "x/__pycache__/y.pyc", ".venv/bin/python", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")

    assert names(package(tmp_path)) == [".env", "data/a.txt", "train.py"]


def test_what_is_left_out_is_not_looked_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `.venv` with PyTorch has 80,000 files."""
    (tmp_path / ".venv" / "lib").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    listed, scandir = list[str](), os.scandir

    def watched(path: Any) -> Any:
        listed.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    package(tmp_path)
    assert listed == [tmp_path.name, "code"]


def test_equal_content_gives_equal_bytes_whatever_its_age(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text("print()")
    os.utime(tmp_path / "b" / "train.py", (0, 0))

    assert package(tmp_path / "a") == package(tmp_path / "b")
    (tmp_path / "b" / "train.py").chmod(0o755)
    assert package(tmp_path / "a") != package(tmp_path / "b")


def test_a_folder_that_is_too_large_or_missing_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(bytes(range(256)) * 40)
    monkeypatch.setattr(submission, "MAX_PACKAGE_BYTES", 100)

    with pytest.raises(UsageError, match="larger than"):
        package(tmp_path)
    with pytest.raises(NotFoundError, match="does not exist"):
        package(tmp_path / "nope")


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")

    def denied(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lab.cluster.submission.read_bytes", denied)
    with pytest.raises(UsageError, match=r"secret.*Permission denied"):
        package(tmp_path)


# The command


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--epochs", "3"),
        ("/usr/bin/python3", "train.py"),
        ("python3.12", "train.py"),
        ("python", "-m", "nothing"),
        ("python", "-c", "1 +"),
        ("python",),
        ("bash", "missing.sh"),
    ],
)
def test_a_command_that_may_work_is_let_through(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("print('ok')")

    check_command(command, tmp_path)


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ((), UsageError, "nothing to submit"),
        (("python", "missing.py"), NotFoundError, "there is no script missing.py in"),
        (("python3", "."), NotFoundError, "there is no script"),
        (("python", "bad.py"), UsageError, r"bad.py, line 2: not valid Python: "),
        (("python3.11", "bad.py"), UsageError, r"bad.py, line 2"),
        (("python", "binary.py"), UsageError, "binary.py.*not valid Python"),
    ],
)
def test_a_command_that_must_fail_is_refused_beforehand(
    tmp_path: Path, command: tuple[str, ...], error: type[Exception], message: str
) -> None:
    (tmp_path / "bad.py").write_text("x = 1\nif x\n")
    (tmp_path / "binary.py").write_bytes(b"x = 1\0\n")

    with pytest.raises(error, match=message):
        check_command(command, tmp_path)


def test_checking_a_script_neither_runs_it_nor_warns_about_it(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(1)\nx = '\\d'\n1 is 1\n")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        check_command(("python", "train.py"), tmp_path)

    assert not recwarn.list


# --runtime-env


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_runtime_environment_is_read_with_the_requirements_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "a==1\n\n  # note\n b\n")
    path = write(tmp_path / "env.json", '{"pip": "requirements.txt", "env_vars": {"A": "1"}}')

    assert read_runtime_env(path) == {"pip": ["a==1", "b"], "env_vars": {"A": "1"}}


@pytest.mark.parametrize("pip", [["a"], {"packages": ["a"]}, None])
def test_requirements_that_are_no_file_name_stay_as_they_are(tmp_path: Path, pip: Any) -> None:
    assert read_runtime_env(write(tmp_path / "env.json", json.dumps({"pip": pip})))["pip"] == pip


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: p / "none.json", NotFoundError, "No such file"),
        (lambda p: p, NotFoundError, "Is a directory"),
        (lambda p: write(p / "e.json", '{\n "a": }'), UsageError, "not JSON: .*line 2"),
        (lambda p: write(p / "e.json", b"\xff\xfe"), UsageError, "not JSON"),
        (lambda p: write(p / "e.json", "[1]"), UsageError, "must be a JSON object, not list"),
        (lambda p: write(p / "e.json", '{"pip": "r.txt"}'), NotFoundError, r"pip: .*r\.txt: No such file"),
    ],
)
def test_a_bad_runtime_environment_is_named(
    tmp_path: Path, make: Callable[[Path], Path], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_runtime_env(make(tmp_path))


def test_requirements_that_are_no_text_are_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path / "r.txt", b"\xff\xfe")

    with pytest.raises(UsageError, match=r"r\.txt: not text"):
        read_runtime_env(write(tmp_path / "e.json", '{"pip": "r.txt"}'))


# Said in Python


def test_a_command_is_split_as_a_shell_would_or_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")

    made = described("python train.py --note 'two words'", tmp_path, 1, 0.5, name="first")

    assert made.command == ("python", "train.py", "--note", "two words")
    assert (made.working_dir, made.num_cpus, made.num_gpus) == (tmp_path, 1, 0.5)
    assert made.metadata == {"job_name": "first"}
    assert described(["python", "train.py", "a b"], tmp_path).command == ("python", "train.py", "a b")


def test_a_command_that_must_fail_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be split"):
        described("python 'train.py", tmp_path)
    with pytest.raises(NotFoundError, match=r"train\.py"):
        described("python train.py", tmp_path)
    with pytest.raises(UsageError, match="nothing to submit"):
        described("", tmp_path)
    with pytest.raises(UsageError, match="not a job name"):
        described("true", tmp_path, name="a/b")


def test_without_a_folder_that_of_the_runtime_environment_counts_then_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()

    assert described("true").working_dir == tmp_path
    local = described("true", runtime_env={"working_dir": "code", "env_vars": {"A": "1"}})
    assert (local.working_dir, local.runtime_env) == (tmp_path / "code", {"env_vars": {"A": "1"}})
    remote = described("python train.py", runtime_env={"working_dir": "https://example.org/code.zip"})
    assert (remote.working_dir, remote.runtime_env["working_dir"]) == (None, "https://example.org/code.zip")


def test_a_runtime_environment_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "runtime.json").write_text('{"env_vars": {"A": "1"}}')

    assert described("true", tmp_path, runtime_env=tmp_path / "runtime.json").runtime_env == {
        "env_vars": {"A": "1"}
    }
    with pytest.raises(NotFoundError):
        described("true", tmp_path, runtime_env=str(tmp_path / "missing.json"))


def test_requirements_named_in_python_are_read_from_the_folder_that_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, here = tmp_path / "code", tmp_path / "here"
    for folder in (code, here):
        folder.mkdir()
        write(folder / "requirements.txt", f"# note\n{folder.name}==1\n")
    monkeypatch.chdir(here)
    asked = {"pip": "requirements.txt"}

    assert described("true", code, runtime_env=asked).runtime_env == {"pip": ["code==1"]}
    assert described("true", runtime_env=asked).runtime_env == {"pip": ["here==1"]}
    assert described("true", runtime_env={**asked, "working_dir": "../code"}).runtime_env["pip"] == [
        "code==1"
    ]
    remote = {**asked, "working_dir": "https://example.org/code.zip"}
    assert described("true", runtime_env=remote).runtime_env["pip"] == ["here==1"]
    absolute = {"pip": str(code / "requirements.txt")}
    assert described("true", runtime_env=absolute).runtime_env["pip"] == ["code==1"]
    assert asked == {"pip": "requirements.txt"}, "what was given is changed"
    with pytest.raises(NotFoundError, match=r"pip: .*none\.txt"):
        described("true", runtime_env={"pip": "none.txt"})
    beside = write(tmp_path / "env.json", '{"pip": "code/requirements.txt"}')
    assert described("true", here, runtime_env=beside).runtime_env["pip"] == ["code==1"]


@pytest.mark.parametrize("amount", [-1, -0.5, float("nan"), float("inf"), 1e9, "1", None])
@pytest.mark.parametrize("name", ["num_cpus", "num_gpus"])
def test_an_amount_that_makes_no_sense_is_refused(tmp_path: Path, name: str, amount: Any) -> None:
    with pytest.raises(
        UsageError, match=f"{name} {amount}: must be a number between 0 and 10".replace("+", ".")
    ):
        described("true", tmp_path, **{name: amount})


@pytest.mark.parametrize("script", ["x=" + "-" * 50_000 + "1", "x=a" + ".b" * 100_000])
def test_a_script_that_is_nested_too_deeply_is_refused(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text(script)
    with pytest.raises(UsageError, match="nested too deeply"):
        check_command(("python", "train.py"), tmp_path)


def test_the_name_of_a_script_can_be_too_long(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no script"):
        check_command(("python", "x" * 130_000), tmp_path)


def test_a_file_that_takes_no_room_on_the_disk_is_not_packed(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"1024 MiB: .*sparse"):
        package(tmp_path)


def test_a_name_that_is_not_utf_8_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "a\udcff").touch()
    with pytest.raises(UsageError, match="not UTF-8"):
        package(tmp_path)


def test_a_current_folder_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NotFoundError, match="folder no longer exists"):
        described("ls")
