"""Submissions: what is refused before anything is sent."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.submission import check_command, described
from lab.errors import NotFoundError, UsageError

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


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("python argv.py",), "without quotes: labctl submit -- python argv.py"),
        (("python argv.py", "two words"), "without quotes: labctl submit -- python argv.py 'two words'"),
        (("/usr/bin/env python argv.py ",), "without quotes: labctl submit -- /usr/bin/env python argv.py"),
        (("cd x && python argv.py",), "labctl submit -- bash -c 'cd x && python argv.py'"),
        (("python argv.py\n",), "without quotes: labctl submit -- python argv.py"),
        (("python argv.py > $LOG",), "labctl submit -- bash -c 'python argv.py > $LOG'"),
    ],
)
def test_a_command_in_quotes_is_refused_with_the_command_to_type(
    tmp_path: Path, command: tuple[str, ...], hint: str
) -> None:
    (tmp_path / "argv.py").touch()
    with pytest.raises(UsageError, match="written as one word") as refused:
        check_command(command, tmp_path)
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("command", "variables", "where"),
    [
        (("python", "-c", "\udce9"), {}, "the command: "),
        (("true",), {"A": "\udce9"}, r"runtime_env\.env_vars\.A: "),
        (("true",), {"\udce9": "A"}, r"runtime_env\.env_vars: "),
        (("",), {}, "nothing to submit"),
    ],
)
def test_what_ray_cannot_take_is_refused(
    tmp_path: Path, command: tuple[str, ...], variables: dict[str, str], where: str
) -> None:
    with pytest.raises(UsageError, match=f"^{where}"):
        described(command, tmp_path, runtime_env={"env_vars": variables})


def test_a_program_of_the_folder_may_have_a_space_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "my tool").touch()
    check_command(("./my tool", "a b"), tmp_path)


def test_a_script_that_is_not_sent_is_refused_with_the_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for name in ("train.py", "x.py", "code/y.py"):
        (tmp_path / name).touch()
    (folder / ".gitignore").write_text("# data\n*.py\n")

    with pytest.raises(UsageError, match=r"y\.py is not sent.*\.gitignore: \*\.py"):
        check_command(("python", "y.py"), folder)
    with pytest.raises(UsageError, match="it is not in"):
        check_command(("python", "../x.py"), folder)
    (folder / ".gitignore").unlink()
    with pytest.raises(UsageError, match="excludes: y"):
        described("python y.py", folder, runtime_env={"excludes": ["y.*"]})
    check_command(("python", "y.py"), folder)


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


def test_a_current_folder_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NotFoundError, match="folder no longer exists"):
        described("ls")
