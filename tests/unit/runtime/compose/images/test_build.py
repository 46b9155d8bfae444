"""What a build is told, and what its failures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import EngineError, LabError, RefusedError, SetupError
from lab.runtime.compose.causes import failed
from lab.runtime.compose.images import building, context, model
from lab.version import __version__
from tests.conftest import ROOT
from tests.unit.runtime.compose.images.fake_engine import FakeDocker, quiet

LISTING = """:env:.cert='{ca}'
global.find-links='{links} https://example.org/wheels'
global.index-url='https://user:hush@pypi.example.org/simple'
global.extra-index-url='file:///srv/simple https://more.example.org/simple'
global.timeout='180'
download.dest='/x'
"""


def machine(tmp_path: Path, **environ: str) -> building.BuildMachine:
    return building.BuildMachine(environ=environ, python="python3")


def arguments(words: tuple[str, ...]) -> dict[str, str]:
    """The build arguments of a command line; one that is handed on by name is empty."""
    given = [words[i + 1] for i, word in enumerate(words) if word == "--build-arg"]
    return dict(option.partition("=")[::2] for option in given)


def after(words: tuple[str, ...], flag: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == flag]


@pytest.mark.parametrize(
    ("variant", "index", "extra"),
    [("cpu", "whl/cpu", None), ("cuda", "whl/cu130", None), ("rocm", "whl/rocm7.2", "rocm-smi")],
)
def test_each_variant_has_its_build_of_torch(
    tmp_path: Path, variant: str, index: str, extra: str | None
) -> None:
    docker = FakeDocker()
    store, built = building.build(variant, engine=docker.engine, progress=quiet(), machine=machine(tmp_path))
    standin, words = docker.calls("buildx", "build")
    given = arguments(words)
    assert built.name == f"raylab/ray:{__version__}-{variant}"
    assert given["TORCH_INDEX"].endswith(index)
    assert ("TORCH_FALLBACK" in given) is (variant == "cpu")
    assert given.get("EXTRA_PACKAGES") == extra
    assert given["CONTENT"] == context.content("lab", variant)
    assert "BASE_IMAGE" not in given
    assert after(words, "--target") == ["lab"]
    assert (store.name, after(standin, "--target")) == (model.S3_STANDIN, ["s3-standin"])


def test_another_base_image_counts(tmp_path: Path) -> None:
    docker = FakeDocker()
    own = machine(tmp_path, LAB_BASE_IMAGE="mirror.example.org/python:3.11")
    building.build("cpu", engine=docker.engine, progress=quiet(), machine=own)
    for words in docker.calls("buildx", "build"):
        assert arguments(words)["BASE_IMAGE"] == "mirror.example.org/python:3.11"


def test_proxies_go_by_name_and_certificate_and_index_as_secrets(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificate")
    seen: dict[str, str] = {}
    docker = FakeDocker()
    docker.answers["-m pip config"] = (0, "")
    docker.answers["python3 -m pip config list"] = (0, LISTING.format(ca=bundle, links=tmp_path))

    def look(words: tuple[str, ...]) -> None:
        if words[:2] == ("buildx", "build"):
            for secret in after(words, "--secret"):
                name, _, source = secret.removeprefix("id=").partition(",src=")
                seen[name] = Path(source).read_text()

    docker.on_call = look
    environ = {"HTTPS_PROXY": "http://user:hush@proxy:3128", "no_proxy": "localhost"}
    building.build("cpu", engine=docker.engine, progress=quiet(), machine=machine(tmp_path, **environ))
    words = docker.calls("buildx", "build")[-1]
    assert arguments(words)["HTTPS_PROXY"] == ""
    assert "no_proxy" in arguments(words)
    assert "hush" not in " ".join(words)
    assert seen["ca"] == "certificate"
    assert "index-url = https://user:hush@pypi.example.org/simple" in seen["pip-conf"]
    assert "https://more.example.org/simple" in seen["pip-conf"]
    assert "file:" not in seen["pip-conf"]


def test_a_build_without_settings_of_its_own_gets_no_secret(tmp_path: Path) -> None:
    docker = FakeDocker()
    building.build("cpu", engine=docker.engine, progress=quiet(), machine=machine(tmp_path))
    assert "--secret" not in docker.calls("buildx", "build")[0]


def test_the_context_holds_the_locked_requirements_and_the_wheels_of_this_machine(tmp_path: Path) -> None:
    wheel = f"torch-{context.version('torch', ROOT)}+cpu-cp311-cp311-any.whl"
    (tmp_path / wheel).write_text("wheel")
    docker = FakeDocker()
    docker.answers["python3 -m pip config list"] = (0, f"global.find-links='{tmp_path}'\n")
    seen: set[str] = set()

    def look(words: tuple[str, ...]) -> None:
        if words[:2] == ("buildx", "build"):
            folder = Path(words[-1])
            seen.update(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    docker.on_call = look
    said: list[str] = []
    building.build("cpu", engine=docker.engine, progress=quiet(said), machine=machine(tmp_path))
    assert seen == {*context.FILES, f"docker/wheels/{wheel}"}
    assert f"taken from this machine: {wheel}" in said


def test_only_wheels_that_the_image_would_install_are_taken(tmp_path: Path) -> None:
    pins = {"torch": "2.13.0", "torchvision": "0.28.0", "ray": "2.60.0", "minio": "7.2.20"}
    fitting = [
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl",
        "minio-7.2.20-py3-none-any.whl",
        "torchvision-0.28.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]
    others = [
        "torch-2.13.0+cu130-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "ray-2.60.0-cp312-cp312-manylinux2014_x86_64.whl",
        "ray-2.60.0-cp311-cp311-manylinux2014_aarch64.whl",
        "ray-2.60.0-cp311-cp311-macosx_11_0_arm64.whl",
        "minio-7.2.19-py3-none-any.whl",
        "moto-5.2.5-py3-none-any.whl",
        "torchvision-0.28.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torchvision-0.29.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "broken.whl",
    ]
    for name in (*fitting, *others):
        (tmp_path / name).touch()
    taken = {path.name for path in context.wheels((tmp_path,), pins, "cpu", "x86_64")}
    assert taken == set(fitting)
    cuda = {path.name for path in context.wheels((tmp_path,), pins, "cuda", "x86_64")}
    assert {name for name in cuda if name.startswith("torch-")} == {others[0], others[1]}
    assert {name for name in cuda if name.startswith("torchvision")} == {others[7]}


@pytest.mark.parametrize(("variant", "index"), [("cuda", "https://example.org/whl/cu126"), ("cpu", "")])
def test_a_torch_index_of_the_users_own_counts_and_nothing_stands_in_for_it(
    tmp_path: Path, variant: str, index: str
) -> None:
    docker = FakeDocker()
    own = machine(tmp_path, LABCTL_TORCH_INDEX=index)
    building.build(variant, engine=docker.engine, progress=quiet(), machine=own)
    given = arguments(docker.calls("buildx", "build")[-1])
    assert given["TORCH_INDEX"] == index
    assert "TORCH_FALLBACK" not in given


def test_a_note_of_the_build_is_shown_as_a_line_of_its_own(tmp_path: Path) -> None:
    docker = FakeDocker()
    docker.answers["buildx build"] = (1, "#8 3.1 note: no torchvision here\n#8 3.2 ERROR: disk full\n")
    said: list[str] = []
    with pytest.raises(LabError):
        building.build("cpu", engine=docker.engine, progress=quiet(said), machine=machine(tmp_path))
    assert f"{model.S3_STANDIN}: no torchvision here" in said


def test_without_buildx_the_error_says_what_to_install(tmp_path: Path) -> None:
    docker = FakeDocker()
    docker.answers["buildx version"] = (1, "docker: 'buildx' is not a docker command.")
    with pytest.raises(EngineError) as caught:
        building.build("cpu", engine=docker.engine, progress=quiet(), machine=machine(tmp_path))
    assert "buildx" in caught.value.message
    assert "docker-buildx" in caught.value.hint


def test_a_build_that_fails_shows_its_last_lines(tmp_path: Path) -> None:
    docker = FakeDocker()
    docker.answers["buildx build"] = (
        1,
        "#8 [packages 1/5] RUN python3\n"
        "#8 3.1 ERROR: No matching distribution found for torch==2.13.0\n------\n",
    )
    said: list[str] = []
    with pytest.raises(SetupError) as caught:
        building.build("cpu", engine=docker.engine, progress=quiet(said), machine=machine(tmp_path))
    assert "no package torch==2.13.0" in caught.value.message
    assert "LABCTL_TORCH_INDEX" in caught.value.hint
    assert "  | ERROR: No matching distribution found for torch==2.13.0" in said


@pytest.mark.parametrize(
    ("line", "error", "message", "hint"),
    [
        ("#9 write /x: no space left on device", SetupError, "the disk is full", "docker system df"),
        (
            'ERROR: failed to solve: python:3.11: failed to resolve source metadata for "docker.io/python"',
            SetupError,
            "no image registry",
            "images load",
        ),
        (
            'Error response from daemon: Conflict. The container name "/ray-head" is already in use by "0a1"',
            RefusedError,
            "a container called ray-head already",
            "--plain-names",
        ),
        ("toomanyrequests: You have reached your pull rate limit", SetupError, "too many", "docker login"),
        (
            "Get https://r/v2/: x509: certificate signed by unknown authority",
            SetupError,
            "trust",
            "trust store",
        ),
        (
            "Error response from daemon: manifest for a/b:1 not found: manifest unknown",
            SetupError,
            "have",
            "load",
        ),
        ("pull access denied for a/b, repository does not exist", SetupError, "refuses", "docker login"),
        ("#7 2.0 SSLError(SSLCertVerificationError(1, 'CERT", SetupError, "not trusted", "PIP_CERT"),
        ("#7 ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", SetupError, "pins", "proxy"),
        (
            "E: Failed to fetch http://deb/x  Temporary failure resolving 'deb'",
            SetupError,
            "Debian",
            "apt-get",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///x. Is it running?",
            EngineError,
            "Docker Engine is not running",
            "start",
        ),
        ("something else entirely", SetupError, "something else entirely", "try again"),
    ],
)
def test_a_failure_is_told_in_two_lines(line: str, error: type[LabError], message: str, hint: str) -> None:
    raised = failed("building raylab/ray", ["before", line])
    assert type(raised) is error
    assert raised.message.startswith("building raylab/ray: ")
    assert message in raised.message
    assert hint in raised.hint
    assert "\n" not in raised.message + raised.hint


@pytest.mark.parametrize(
    ("index", "needed"),
    [
        ("https://download.pytorch.org/whl/cu130", "cuda>=13.0"),
        ("https://mirror.example/whl/cu126/", "cuda>=12.6"),
        ("https://download.pytorch.org/whl/cpu", ""),
        ("https://download.pytorch.org/whl/rocm7.2", ""),
    ],
)
def test_the_image_asks_for_a_driver_that_fits_its_pytorch(index: str, needed: str) -> None:
    assert building.required_cuda(index) == needed
