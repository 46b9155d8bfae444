"""Runs a command of the probe on the target, which does a part of a fault."""

from __future__ import annotations

from typing import Any

from lab.errors import LabDownError, NotFoundError, RefusedError, ServiceError
from lab.faults import Scene
from lab.host.reading import parse_json
from lab.topology import Struck

SECONDS = 60.0
"""Deadline of such a command: Python starts, looks, acts. An overloaded machine may need half of it."""

REFUSED = 3
"""Exit code of the probe's commands when what is asked makes no sense on this node."""


def tell(scene: Scene, module: str, *arguments: object, timeout: float = SECONDS) -> dict[str, Any]:
    """Run `python -m raylab_faults.<module> ...` on the target; returns the JSON object that it prints.

    Raises RefusedError when the command refuses, ServiceError when it fails, LabDownError when the node does
    not run, WaitTimeoutError after `timeout` seconds.
    """
    argv = ["python", "-m", f"raylab_faults.{module}", *map(str, arguments)]
    ended = scene.runtime.execute(scene.target, argv, timeout=timeout)
    answer = _answer(ended.output)
    if ended.exit_code == 0 and answer is not None:
        return answer
    lines = ended.output.strip().splitlines() or [f"exit code {ended.exit_code} and no output"]
    why = str((answer or {}).get("problem") or lines[-1])
    if ended.exit_code == REFUSED and answer is not None:
        raise RefusedError(f"{scene.target}: {why}", f"labctl jobs logs {scene.job}")
    raise ServiceError(f"{' '.join(argv)} failed on {scene.target}: {why}", f"labctl logs {scene.target}")


def signal(scene: Scene, action: str, pid: int) -> Struck:
    """Signal the process of a rank on the target, `kill` or `hang`; returns when. Raises as `tell` does."""
    answer = tell(scene, "rank", action, pid)
    return Struck(float(answer["first"]), float(answer["last"]))


def tell_if_up(scene: Scene, module: str, *arguments: object) -> None:
    """Do as `tell`, to undo something: on a node that does not run, or is gone, nothing is left to undo."""
    try:
        tell(scene, module, *arguments)
    except (LabDownError, NotFoundError):  # not found: the lab was started again with fewer workers
        return


def _answer(output: str) -> dict[str, object] | None:
    """Return the last line that is a JSON object; warnings may stand around it."""
    for line in reversed(output.splitlines()):
        try:
            document = parse_json(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    return None
