"""Runtime environments of Ray: one table of their keys.

What a key names on this machine is read here, or sent with the job; what could not work is refused with its
key, before anything is submitted: Ray itself would let the job fail.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.packing import left_out, patterns
from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL, read_json, read_text

ON_NODES = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
"""The working directory on a node, in a line that pip or uv reads there (ray 2.60)."""

ADDRESSES = ("gcs", "http", "https", "s3", "gs", "azure", "abfss", "file")
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.xz")
"""Addresses that Ray fetches packages from, and the packages (runtime_env_uri.py, runtime_env_package.py)."""

OPTION = re.compile(
    r"(-[rcef]|--(?:requirement|constraint|editable|find-links))(?:\s*=\s*|\s+|(?<=-[rcef])(?=\S))[\"']?([^\"']+)"
)
LOCAL = re.compile(
    r"(\.{1,2}(?=[/\s\[;]|$)[^\s\[;]*|[^\s\[;:/][^\s\[;:]*\.(?:whl|zip|tar\.gz|tgz|tar\.bz2))(.*)"
)
"""Lines of a requirements file that name files: an option with its file, and a file with what follows it."""

FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "pip": {"packages": (str, list), "pip_check": bool, "pip_version": str, "pip_install_options": list},
    "uv": {"packages": (str, list), "uv_check": bool, "uv_version": str, "uv_pip_install_options": list},
    "config": {"setup_timeout_seconds": int, "eager_install": bool, "log_files": list},
}
"""Fields of the keys that are objects, with their types (validation.py and runtime_env.py, ray 2.60)."""

ONE_OF = ("pip", "uv", "conda")
"""Keys of which Ray takes one."""


@dataclass(frozen=True)
class Origin:
    """Where a runtime environment comes from."""

    name: str
    """What errors call it."""
    folders: tuple[Path, ...]
    """Folders in which the files that it names are looked for."""
    sent: Path | None
    """Folder that is sent as working directory, if one is."""
    excludes: Sequence[str] = ()

    def error(self, key: str, why: str, hint: str = "") -> UsageError:
        return UsageError(f"{self.name}: {key}: {why}", hint)

    def file(self, key: str, name: str, folders: Iterable[Path] = ()) -> Path:
        """The file or folder of this name, looked for in `folders` or in its own. Raises NotFoundError."""
        paths = [folder / name for folder in folders or self.folders]
        for path in paths:
            if path.exists():
                return path
        raise NotFoundError(
            f"{self.name}: {key}: {paths[0]}: No such file or directory",
            "give its path relative to the file that names it, or to the working directory",
        )

    def on_nodes(self, key: str, path: Path) -> str:
        """The path that a file has on the nodes. Raises UsageError for one that is not sent."""
        if self.sent is None:
            raise self.error(key, f"{path} is not sent with the job", "its working directory is elsewhere")
        if why := left_out(path, self.sent, self.excludes):
            raise self.error(key, f"{path} is not sent with the job: {why}", "put it where it is sent")
        inside = Path(os.path.abspath(path)).relative_to(os.path.abspath(self.sent))
        return "/".join((ON_NODES, *inside.parts))


Reader = Callable[[object, str, Origin], object]
"""Gives what is sent of a value, from it, its key and its origin. Raises UsageError, NotFoundError."""


def read_runtime_env(path: Path) -> dict[str, object]:
    """The runtime environment in a JSON file. Raises NotFoundError, UsageError with the line."""
    try:
        document = read_json(path, SMALL)
    except OSError as error:
        raise NotFoundError(f"--runtime-env {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--runtime-env {path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"--runtime-env {path}: must be a JSON object, not {type(document).__name__}")
    return document


def prepared(environment: Mapping[str, object], origin: Origin) -> dict[str, object]:
    """The environment with the files read that it names. Modules that are to be sent are paths in it.

    Raises UsageError, NotFoundError.
    """
    for key in environment:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, 1)
            hint = f"it is called {close[0]}" if close else f"there are: {', '.join(sorted(KEYS))}"
            raise origin.error(key, "not a key of Ray's runtime environments", hint)
    if len(several := [key for key in ONE_OF if environment.get(key)]) > 1:
        raise origin.error(several[1], f"cannot be used with {several[0]}", "name all packages in one")
    return {
        key: value if value is None else KEYS[key](value, key, origin) for key, value in environment.items()
    }


def excludes_of(environment: Mapping[str, object]) -> list[str]:
    """The patterns of what is not sent."""
    excludes = environment.get("excludes")
    return [one for one in excludes if isinstance(one, str)] if isinstance(excludes, list) else []


def _typed(kind: type | tuple[type, ...], words: str) -> Reader:
    def check(value: object, key: str, origin: Origin) -> object:
        if not isinstance(value, kind):
            raise origin.error(key, f"must be {words}, not {type(value).__name__}")
        return value

    return check


_text, _object = _typed(str, "a string"), _typed(dict, "an object")


def _texts(value: object, key: str, origin: Origin, kinds: tuple[type, ...] = (str,)) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, kinds) for one in value):
        raise origin.error(key, "must be a list of strings")
    return [str(one) for one in value]


def _fields(value: object, key: str, origin: Origin) -> dict[str, object]:
    """An object with the fields that Ray knows."""
    _object(value, key, origin)
    assert isinstance(value, dict)
    for name, inner in value.items():
        if name not in FIELDS[key]:
            raise origin.error(f"{key}.{name}", f"Ray knows only {', '.join(FIELDS[key])}")
        if not isinstance(inner, FIELDS[key][name]):
            raise origin.error(f"{key}.{name}", f"cannot be of type {type(inner).__name__}")
    return value


def _packages(value: object, key: str, origin: Origin) -> object:
    """Packages for pip or uv: a list, the name of a requirements file, or an object with one of them."""
    if isinstance(value, dict):
        fields, name = _fields(value, key, origin), f"{key}.packages"
        if "packages" not in fields:
            raise origin.error(name, "is missing", "a list of packages, or the name of a requirements file")
        for options in (value for field, value in fields.items() if field.endswith("install_options")):
            for text in _texts(options, f"{key}.install_options", origin):
                if LOCAL.match(text.partition("=")[2] or text):
                    raise origin.error(
                        key, f"{text}: options cannot name files that are sent", "make it a line of packages"
                    )
        return {**fields, "packages": _packages(fields["packages"], name, origin)}
    if isinstance(value, str):
        if value.startswith(ON_NODES):
            return _requirement(f"-r {value}", key, origin)
        return _requirements(origin.file(key, value), key, origin)
    return _lines(value, key, origin)


def _lines(value: object, key: str, origin: Origin) -> list[str]:
    return [line for text in _texts(value, key, origin) for line in _requirement(text, key, origin)]


def _requirements(path: Path, key: str, origin: Origin, above: tuple[Path, ...] = ()) -> list[str]:
    """The lines of a requirements file, with those of the files that it names."""
    try:
        lines = read_text(path, SMALL).splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise origin.error(key, f"{path}: {why}") from error
    if path in above:
        return []
    texts = (line.strip() for line in lines)
    return [
        line
        for text in texts
        if text and not text.startswith("#")
        for line in _requirement(text, key, origin, (path.parent,), (*above, path))
    ]


def _requirement(
    text: str, key: str, origin: Origin, folders: tuple[Path, ...] = (), above: tuple[Path, ...] = ()
) -> list[str]:
    """A line for pip or uv as it is on a node; its file is looked for in `folders`."""
    option = OPTION.match(text)
    match = option or LOCAL.match(text)
    if match is None or "://" in match[0]:
        return [text]
    name, at = (option[2], option.start(2)) if option else (match[0], 0)
    name = name.partition(" #")[0].strip().partition("[")[0]
    if name.startswith(ON_NODES):
        if origin.sent is not None:
            rest = name.removeprefix(ON_NODES).lstrip("/")
            origin.on_nodes(key, origin.file(key, rest or ".", (origin.sent,)))
        return [text]
    if name.startswith("/") and not Path(name).exists():  # a path on the nodes
        return [text]
    path = origin.file(key, name, folders)
    if option and option[1] in ("-r", "--requirement"):
        return _requirements(path, key, origin, above)
    if not name.startswith("/"):
        text = text[:at] + origin.on_nodes(key, path) + text[at + len(name) :]
    return [text]


def _conda(value: object, key: str, origin: Origin) -> object:
    """The name of an environment of the nodes, or an object that says what is in it."""
    if isinstance(value, str) and not value.endswith((".yml", ".yaml")):
        return value
    if not isinstance(value, dict):
        raise origin.error(
            key,
            f"{value!r}: neither the name of an environment nor an object",
            'say what a YAML file says in JSON: {"conda": {"dependencies": [...]}}',
        )
    dependencies = value.get("dependencies")
    if not isinstance(dependencies, list):
        return value
    return {
        **value,
        "dependencies": [
            {**one, "pip": _lines(one["pip"], f"{key}.dependencies.pip", origin)}
            if isinstance(one, dict) and "pip" in one
            else one
            for one in dependencies
        ],
    }


def _address(name: str, key: str, origin: Origin, kinds: tuple[str, ...]) -> str:
    """An address from which nodes take a package, or a folder that they have."""
    scheme, _, rest = name.partition("://")
    path = rest.partition("?")[0]
    if scheme == "local" and path.startswith("/"):
        return name
    if scheme not in ADDRESSES or not path.endswith(kinds):
        raise origin.error(
            key, f"{name}: Ray takes nothing from there", f"{', '.join(ADDRESSES)}://...; {', '.join(kinds)}"
        )
    return name


def _working_dir(value: object, key: str, origin: Origin) -> object:
    name = str(_typed((str, Path), "a string")(value, key, origin))
    return _address(name, key, origin, ARCHIVES) if "://" in name else name


def _modules(value: object, key: str, origin: Origin) -> list[str | Path]:
    """Modules: addresses, and folders, .py files and wheels of this machine."""
    made: list[str | Path] = []
    for name in _texts(value, key, origin, (str, Path)):
        if "://" in name:
            made.append(_address(name, key, origin, (*ARCHIVES, ".whl")))
            continue
        path = origin.file(key, name).resolve()
        if not path.is_dir() and path.suffix not in (".py", ".whl"):
            raise origin.error(key, f"{path}: neither a folder nor a .py or .whl file")
        made.append(path)
    return made


def _jars(value: object, key: str, origin: Origin) -> list[str]:
    for name in (names := _texts(value, key, origin)):
        if "://" not in name:
            raise origin.error(
                key, f"{name}: Ray takes only addresses", "put it into the object store: s3://..."
            )
    return names


def _excludes(value: object, key: str, origin: Origin) -> list[str]:
    texts = _texts(value, key, origin)
    patterns(texts, Path(), f"{origin.name}: {key}")
    return texts


def _image(value: object, key: str, origin: Origin) -> object:
    raise origin.error(
        key,
        "Ray takes no working directory with it, which every job here has",
        "name packages instead: pip, uv",
    )


KEYS: Mapping[str, Reader] = {
    "working_dir": _working_dir,
    "py_modules": _modules,
    "excludes": _excludes,
    "pip": _packages,
    "uv": _packages,
    "conda": _conda,
    "java_jars": _jars,
    "env_vars": _object,
    "config": _fields,
    "py_executable": _text,
    "worker_process_setup_hook": _text,
    "image_uri": _image,
    "container": _image,
    "nsight": _typed((str, dict), "a string or an object"),
    "_nsight": _typed((str, dict), "a string or an object"),
    "rocprof_sys": _typed((str, dict), "a string or an object"),
    "_rocprof_sys": _typed((str, dict), "a string or an object"),
    "_ray_release": _text,
    "_ray_commit": _text,
    "_inject_current_ray": _typed((bool, str), "true or false"),
}
"""Every key (RuntimeEnv.known_fields, ray 2.60), and what reads it."""


def sendable(environment: Mapping[str, object], way: str) -> None:
    """Refuse an environment of which files have to be sent, on a way that takes none. Raises UsageError."""
    modules = environment.get("py_modules")
    if isinstance(modules, Sequence) and (paths := [one for one in modules if isinstance(one, Path)]):
        raise UsageError(
            f"runtime_env: py_modules: {paths[0]}: folders of this machine do not go {way}",
            "put it into the working directory, from which it can be imported, too",
        )
