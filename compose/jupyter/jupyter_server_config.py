"""What JupyterLab opens on where the course is there: an index of its lessons, which no file has."""

from importlib.util import find_spec

config = get_config()  # noqa: F821 - of JupyterLab, which runs this file
if find_spec("lab.ext") and find_spec("lab.ext.course"):
    config.ServerApp.contents_manager_class = "lab.ext.course.lessons.contents.Contents"
    config.LabApp.default_url = "/lab/tree/START-HERE.md"
