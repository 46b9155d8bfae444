"""The data set of the lessons: Food-11, from the internet, from a file, or drawn.

It lies in `<RAYLAB_HOME>/data`, shared by all labs: nodes, jobs and JupyterLab find that folder as
RAYLAB_DATA, and Food-11 in it as FOOD11_DATA_DIR.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.ext.course.datasets.food11 import URLS
from lab.ext.course.datasets.getting import Shelf, draw_food11, ensure, get_food11
from lab.ext.course.datasets.model import Dataset
from lab.host.files import data_folder

__all__ = ["URLS", "Dataset", "Shelf", "draw_food11", "ensure", "get_food11", "traces"]


def traces(labs: Path) -> Iterator[tuple[str, Path, bool]]:
    """Data sets below the folder of labs, as `self check` lists them, and downloads that did not end."""
    shelf = Shelf(data_folder(labs))
    yield from (("a data set", dataset.folder, True) for dataset in shelf.all())
    yield "downloads of data sets", shelf.downloads, False
