"""Installs Debian packages while an image is built: `apt.py [PACKAGE...]` and those in $EXTRA_PACKAGES.

Removes the package lists and the downloads afterwards. The secret `ca` is the CA bundle for https mirrors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CA = Path("/run/secrets/ca")
UNUSED = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/javascript/moment-timezone/data/*",  # 200 MB of tables that Prometheus' page does not use
    "/usr/lib/gcc/*/*/lto1",  # gcc's optimizer of whole programs, and its sanitizers
    "/usr/bin/*lto-dump*",
    "/usr/lib/*/lib?san.so*",
    "/usr/lib/gcc/*/*/lib?san.a",
    "/usr/lib/*/libc.a",  # nothing is linked statically
    "/usr/lib/*/libm-*.a",
    "/usr/lib/*/libmvec.a",
    "/usr/bin/*gold",  # linkers and a profiler beside the one that gcc calls
    "/usr/bin/*dwp",
    "/usr/bin/*gp-*",
    "/usr/bin/gprofng",
    "/usr/lib/*/libgprofng*",
    "/usr/lib/*/gprofng/*",
)
"""Paths never unpacked."""

LEFTOVERS = ("/var/lib/apt/lists", "/var/cache/apt", "/var/log/apt")


def commands(packages: list[str], ca: Path) -> list[list[str]]:
    """Command lines of apt; none if there is nothing to install."""
    if not packages:
        return []
    trust = ["-o", f"Acquire::https::CAInfo={ca}"] if ca.is_file() else []
    apt = ["apt-get", "-q", *trust, *(f"-oDPkg::Options::=--path-exclude={path}" for path in UNUSED)]
    return [[*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", *packages]]


def main(arguments: list[str]) -> int:
    """Install, and return apt's exit code."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in commands(arguments + os.environ.get("EXTRA_PACKAGES", "").split(), CA):
        code = subprocess.run(argv, env=env, check=False).returncode
        if code:
            return code
    for folder in LEFTOVERS:
        for path in Path(folder).glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
