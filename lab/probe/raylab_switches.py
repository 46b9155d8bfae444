"""The patches: every change that the lab makes to Ray, and the one switch that turns each of them off.

A patch is on in a process whose environment says that the lab is one that it is for (`Patch.where`), unless
its name is in RAYLAB_PATCHES_OFF, a list with commas: of a node, or of one job by its runtime environment.
With stock Ray all are off but those that `stays` gives a reason for. labctl reads this file too
(lab.cluster.patches), so it imports next to nothing. docs/patches.md has the same table.

Like all of `lab/probe` it runs inside the lab's Ray processes: nothing there imports `lab`, nor more than the
standard library, Ray, pyarrow and psutil. That folder is on PYTHONPATH of the nodes, not the one above it, so
that a student's `lab.py` cannot hide what a node needs.
"""

from __future__ import annotations

import os

from raylab_extended import extended

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Container, Mapping

OFF = "RAYLAB_PATCHES_OFF"
"""Environment variable with the names of patches that are off, separated by commas."""

UNFIT = "RAYLAB_PATCHES_UNFIT"
"""Environment variable with the names of patches that do not fit the node's Ray, separated by commas. Who
starts a node has looked (`raylab_expectations`); where nobody has, each process looks by itself."""

CALLBACKS = "RAY_TRAIN_CALLBACKS"
"""Ray's variable with the names of callbacks that every training gets."""


class Patch:
    """One change to Ray, called by the module in which it is."""

    def __init__(
        self,
        name: str,
        changes: str,
        why: str,
        *,
        where: tuple[tuple[str, str], ...] = (),
        callback: str = "",
        stays: str = "",
        exposes: str = "",
        loaded: str = "",
    ) -> None:
        """`where` has variables with the value that one of them must have, empty for any value but none.

        `callback` is the class that Ray Train loads for it. `stays` is why it stays on with stock Ray.
        `exposes` is what others could reach without it: a node does not start when such a patch does not fit.
        `loaded` is a module of each process in which the patch is at work, where its callback does not tell.
        """
        self.name, self.changes, self.why = name, changes, why
        self.where, self.callback, self.stays, self.exposes = where, callback, stays, exposes
        self.loaded = loaded


CORE = (
    Patch(
        "simulated_gpu",
        "Ray Train uses Gloo instead of NCCL, and on simulated GPUs the CPU instead of `cuda:0`",
        "there is no device behind a simulated GPU, and NCCL refuses two ranks on one GPU",
        where=(("RAYLAB_GPU", "simulated"), ("RAYLAB_GPU_SHARED", "1")),
        callback="raylab_compat.simulated_gpu.SimulatedGpu",
        stays="nothing could train on such GPUs",
    ),
    Patch(
        "pip_environments",
        "`pip` packages of a job go into an environment that sees what is installed, not into a copy of it;"
        " torch stays",
        "the copy takes 2 GB and a minute or more for each list, on each node; another torch as much again",
        where=(("RAYLAB_SERVICE_NAME", ""),),
    ),
    Patch(
        "ray_start",
        "Ray stays on 127.0.0.1; nodes of one host start, each with its own folder for environments",
        "on Linux Ray listens on every interface; nodes of one host use, and delete, the same folders",
        where=(("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"),),
        stays="without it there is no lab of plain processes that only this machine reaches",
        exposes="Ray would listen on every interface of this machine",
    ),
    Patch(
        "listeners",
        "torch's store, torchft's servers, Serve's replicas and XGBoost's ranks listen on 127.0.0.1",
        "they listen on every interface without a token: the network could end a training, or run code",
        where=(("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"),),
        stays="without it the network reaches every training and endpoint",
    ),
    Patch(
        "redis_password",
        "Redis' password is on no command line; a head starts beside workers that outlived the last one",
        "every user of a machine can read command lines; Ray takes such workers for another cluster",
        where=(("RAYLAB_REDIS_PASSWORD_FILE", ""),),
        stays="it is about a secret, not about how Ray trains or recovers",
        exposes="every user of this machine could read Redis' password",
    ),
    Patch(
        "accelerator",
        "Lightning trains on the CPU when a script asks for a GPU",
        "there is no device behind a simulated GPU",
        where=(("RAYLAB_GPU", "simulated"),),
        stays="scripts that ask for a GPU could not run",
    ),
    Patch(
        "resume",
        "a run without a name gets the name of the run that its job goes on with",
        "Ray Train resumes a run by its name, and gives a run without one a new name",
        where=(("RAYLAB_RESUME_RUN", ""),),
        stays="a person or a fault asked for that job to go on",
    ),
    Patch(
        "tuned_trainer",
        "`tune.Tuner` takes a trainer of Ray Train, as it did before Ray Train V2",
        "scripts for Ray 2.4x, such as the course's, tune the trainer itself; Ray takes only a function now",
        where=(("RAYLAB_SERVICE_NAME", ""), ("RAYLAB_DATA", "")),
    ),
    Patch(
        "outage",
        "in a notebook `ray.init()` fails if the head takes no connection, and a driver says that it is down",
        "Ray asks again for minutes, says nothing, and then ends the notebook's kernel",
        where=(("RAYLAB_RUNTIME", ""),),
        stays="it is about what a person is told, not about how Ray trains or recovers",
    ),
    Patch(
        "outside",
        "`ray status`, `ray memory` and `ray timeline` find the cluster from JupyterLab's container",
        "they do not understand the address of Ray's client, which `ray.init()` needs there",
        where=(("RAYLAB_GCS_ADDRESS", ""),),
        stays="there is no node beside JupyterLab",
    ),
)

PATCHES: tuple[Patch, ...] = (*CORE, *(patch for table in extended("table") for patch in table.PATCHES))
"""Every patch; the callbacks are loaded in this order."""


def turned_off(environ: Mapping[str, str]) -> set[str]:
    """The names in RAYLAB_PATCHES_OFF."""
    return _names(environ.get(OFF, ""))


def _names(listed: str) -> set[str]:
    return {name.strip() for name in listed.split(",")} - {""}


def wanted(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a process with this environment is to have the patch, if it fits."""
    (patch,) = (candidate for candidate in PATCHES if candidate.name == name)
    values = [(environ.get(variable, ""), value) for variable, value in patch.where]
    here = not values or any(actual == value if value else actual for actual, value in values)
    return here and name not in turned_off(environ)


def active(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the patch is on in a process with this environment."""
    return wanted(name, environ) and fits(name, environ)


def fits(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the patch finds in Ray what it expects."""
    if UNFIT in environ:
        return name not in _names(environ[UNFIT])
    from raylab_expectations import unmet

    problem = unmet(name)
    if problem and name not in _said:
        _said.append(name)
        print(f"raylab: the patch {name} does not fit this Ray, and is off: {problem}", flush=True)
    return not problem


_said: list[str] = []
"""Patches of which this process has said that they do not fit."""


def in_training(environ: Mapping[str, str], loaded: Container[str]) -> list[str]:
    """Names of the patches that are on in the training of this process, which has these modules loaded.

    A script can name callbacks of its own in place of the lab's.
    """
    callbacks = {name.strip() for name in environ.get(CALLBACKS, "").split(",")}
    return [
        patch.name
        for patch in PATCHES
        if active(patch.name, environ)
        and (patch.loaded in loaded if patch.loaded else patch.callback in {"", *callbacks})
    ]
