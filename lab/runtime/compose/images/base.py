"""A base image made of this machine's own apt sources, for a place that reaches no image registry."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import SetupError, UnsupportedError
from lab.host.environment.progress import Printer
from lab.runtime.compose.engine import DockerEngine

INCLUDE = "ca-certificates,python3,python3-venv"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MERGED = "usr/share/mmdebstrap/hooks/merged-usr"
"""mmdebstrap's hook for a system with one /usr. Without it a package does that, and brings 50 MB of Perl."""
POCKETS = ("", "-updates", "-security", "/updates")
"""Suffixes of a release's suites that belong to its base system."""


@dataclass(frozen=True)
class AptSource:
    """One archive that apt takes packages from."""

    uri: str
    suite: str
    components: tuple[str, ...]
    keyring: str = ""


@dataclass(frozen=True)
class Host:
    """The machine, as far as it is asked; tests put in their own."""

    root: Path = Path("/")
    which: Callable[[str], str | None] = shutil.which
    uid: Callable[[], int] = os.geteuid


def one_line(text: str) -> Iterator[AptSource]:
    """The sources in a *.list file."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            options = dict(pair.partition("=")[::2] for pair in (match[1] or "").split())
            yield AptSource(match[2], match[3], tuple(match[4].split()), options.get("signed-by", ""))


def deb822(text: str) -> Iterator[AptSource]:
    """The sources in a *.sources file; a key written into the file itself is not taken over."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", plain):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            else:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        keyring = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield AptSource(uri, suite, components, keyring if keyring.startswith("/") else "")


def sources(root: Path) -> tuple[AptSource, ...]:
    """Every archive that apt of the machine under `root` takes packages from."""
    apt = root / "etc" / "apt"
    lists = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    listed: list[AptSource] = []
    for path in lists:
        listed += one_line(_read(path))
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        listed += deb822(_read(path))
    return tuple(listed)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def own_suite(root: Path) -> str:
    """The release that this machine runs, such as `bookworm`; empty when it is none of Debian's."""
    text = _read(root / "etc" / "os-release")
    release = dict(line.partition("=")[::2] for line in text.splitlines())
    return (
        release.get("VERSION_CODENAME", "").strip('"') if release.get("ID", "").strip('"') == "debian" else ""
    )


def of_suite(available: Iterable[AptSource], suite: str, own: str) -> tuple[AptSource, ...]:
    """The sources of one release, deduced from those of the machine's own where it has no others.

    Only the component `main` is taken: all that the images need lies there.
    """

    def pick(release: str) -> list[AptSource]:
        names = {release + pocket: suite + pocket for pocket in POCKETS}
        return [
            AptSource(source.uri, names[source.suite], ("main",), source.keyring)
            for source in available
            if source.suite in names and "main" in source.components
        ]

    available = tuple(available)
    return tuple(dict.fromkeys(pick(suite) or (pick(own) if own else [])))


def base_name(suite: str) -> str:
    return f"raylab/base:{suite}"


def command(
    suite: str, archive: Path, source_list: Path, keyrings: Iterable[str], root: Path = Path("/")
) -> list[str]:
    """mmdebstrap's command line, on the machine under `root`."""
    argv = ["mmdebstrap", "--variant=minbase", f"--include={INCLUDE}"]
    if (root / MERGED).is_dir():
        argv = [*argv[:-1], f"{argv[-1]},usr-is-merged", f"--hook-dir={root / MERGED}"]
    argv += [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
    for keyring in keyrings:
        argv += [f"--keyring={keyring}", f"--setup-hook=copy-in {keyring} /etc/apt/trusted.gpg.d"]
    return [*argv, suite, str(archive), str(source_list)]


def suite_here(suite: str, host: Host) -> str:
    """The release to make: the one asked for, else this machine's. Raises UnsupportedError."""
    own = own_suite(host.root)
    chosen = suite or own
    if not re.fullmatch(r"[a-z][a-z0-9-]*", chosen or "-"):
        raise UnsupportedError(
            f"--suite {suite}: not the name of a release"
            if chosen
            else "images build --offline: this is not Debian",
            "name a Debian release that this machine's apt sources have: --suite bookworm",
        )
    if host.which("mmdebstrap") is None:
        raise UnsupportedError(
            "images build --offline: mmdebstrap, which makes the base image, is not installed",
            "`sudo apt-get install mmdebstrap`",
        )
    if host.uid() != 0:
        raise UnsupportedError(
            "images build --offline: only root can make a base image with mmdebstrap",
            "run it with sudo; every user of the engine can then use the images",
        )
    if not of_suite(sources(host.root), chosen, own):
        raise UnsupportedError(
            f"images build --offline: no apt source of this machine has Debian {chosen}",
            "see /etc/apt/sources.list and sources.list.d, or choose another with --suite",
        )
    return chosen


def make_base(suite: str, engine: DockerEngine, progress: Printer, host: Host) -> str:
    """Make the base image of a release, unless it is there; returns its name. Takes about half a minute.

    Raises UnsupportedError, SetupError.
    """
    suite = suite_here(suite, host)
    name = base_name(suite)
    if there := engine.images([name]).get(name):
        progress.line(f"{name} of {there.created[:10]} is used; `docker image rm {name}` has it made again")
        return name
    chosen = of_suite(sources(host.root), suite, own_suite(host.root))
    keyrings = sorted({source.keyring for source in chosen if source.keyring not in ("", DEBIAN_KEYRING)})
    progress.line(f"{name}: made of Debian's packages, from the apt sources of this machine")
    try:
        with tempfile.TemporaryDirectory(prefix="raylab-base-") as folder:
            source_list, archive = Path(folder, "sources.list"), Path(folder, "base.tar")
            lines = [f"deb {source.uri} {source.suite} {' '.join(source.components)}\n" for source in chosen]
            source_list.write_text("".join(lines), encoding="utf-8")
            argv = command(suite, archive, source_list, keyrings, host.root)
            engine.call_program(
                argv, f"making {name}", progress, lambda line: progress.update(f"{name}: {line[:60]}")
            )
            engine.docker("import", str(archive), name, what=f"importing {name}", progress=progress)
    except OSError as error:
        raise SetupError(
            f"{error.filename or tempfile.gettempdir()}: {error.strerror}",
            "free some space there, or set TMPDIR",
        ) from error
    return name
