"""Location of Food-11, as scripts look for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import MutableMapping

FOLDER_VARIABLE = "FOOD11_DATA_DIR"
"""Environment variable by which scripts find the data set."""

DATA_VARIABLE = "RAYLAB_DATA"
"""Environment variable of nodes and Jupyter: the folder of all data sets."""

ELSEWHERE = "/mnt/Food-11"
"""Folder of the data set in containers, and in the runtime environment of a job of the course."""


def settle(environ: MutableMapping[str, str]) -> None:
    """Let FOOD11_DATA_DIR=/mnt/Food-11 mean the lab's own folder on a machine without /mnt/Food-11."""
    if environ.get(FOLDER_VARIABLE, "").rstrip("/") != ELSEWHERE or not environ.get(DATA_VARIABLE):
        return
    ours = os.path.join(environ[DATA_VARIABLE], "Food-11")
    if not os.path.isdir(ELSEWHERE) and os.path.isdir(ours):
        environ[FOLDER_VARIABLE] = ours
