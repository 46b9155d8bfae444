"""Removes what no lab uses from a virtual environment, compiles the rest, and sorts it into layers.

    slim.py /opt/venv /layers

Afterwards /layers/torch, /layers/ray and /layers/packages together hold the environment, each to be copied to
`/`: a changed package leaves the other two layers as they are. Bytecode has no time stamps, so the same
packages always give the same layers.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import sys
from pathlib import Path

UNUSED = (
    "ray/jars",  # Ray's Java workers
    "ray/rllib",  # reinforcement learning; no other part of Ray imports it
    "torch/include",  # headers of C++, for which there is no compiler in the image
    "torch/share/cmake",  # the rest of share/ is read at run time: on ROCm databases of MIOpen and rccl
    "torch/test",  # PyTorch's own tests, in C++
    "torch/lib/*test*.so",
    "torch/bin/*",
    "pyarrow/include",
    "pyarrow/src",
    "numpy/_core/include",
    "jupyterlab/galata",  # JupyterLab's browser tests
    "jupyterlab/staging/*",  # for rebuilding JupyterLab
    "**/*.a",
    "**/*.js.map",
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
)
"""Patterns in site-packages of files that are never used while a lab runs."""

KEPT = (
    "torch/bin/torch_shm_manager",  # data loaders start it
    "jupyterlab/staging/package.json",  # JupyterLab reads it as it starts
)
"""Files that match one of those patterns but are used."""

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
    found = [path for pattern in UNUSED for path in site.glob(pattern)]
    found += [
        path for name in TESTS_OF for top in site.glob(name) for path in top.rglob("tests") if path.is_dir()
    ]
    found += list(site.rglob("__pycache__"))
    return sum(remove(path) for path in found if path not in {site / name for name in KEPT})


def compile_all(folder: Path) -> None:
    """Compile every module: a container could not keep bytecode that it compiles when it starts."""
    compileall.compile_dir(
        folder,
        quiet=2,
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
    """Slim, compile and sort the environment, and print the sizes."""
    (site,) = Path(venv).glob("lib/python3*/site-packages")
    say(f"removed {slim(site) / 1e6:.0f} MB that no lab runs")
    compile_all(site)
    sort(Path(venv), Path(layers))
    for layer in sorted(Path(layers).iterdir()):
        say(f"{layer.name}: {size(layer) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
