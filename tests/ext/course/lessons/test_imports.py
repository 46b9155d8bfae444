"""Lessons run in JupyterLab, where labctl's own libraries are not."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import lab.ext.course.lessons, lab.ext.course.lessons.execute
for number in lab.ext.course.lessons.numbers():
    lab.ext.course.lessons.find_lesson(number)
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_notebook_needs_neither_the_command_line_nor_docker_and_imports_nothing_heavy() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    modules = set(shown.stdout.split())
    assert "lab" in modules
    assert not modules & {"click", "rich", "python_on_whales", "ray", "torch", "pyarrow", "nbclient"}
