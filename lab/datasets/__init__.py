"""Data sets for the lessons: Food-11, from the internet, from a file, or drawn.

They lie in `<RAYLAB_HOME>/data`, one folder each, shared by all labs: nodes, jobs and JupyterLab find it as
RAYLAB_DATA, and Food-11 in it as FOOD11_DATA_DIR.
"""

from __future__ import annotations

from lab.datasets.food11 import URLS
from lab.datasets.getting import draw_food11, ensure, get_food11
from lab.datasets.model import Dataset
from lab.datasets.shelf import Shelf

__all__ = ["URLS", "Dataset", "Shelf", "draw_food11", "ensure", "get_food11"]
