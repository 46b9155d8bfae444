"""Lessons: exercises of the course as notebooks that check themselves.

`catalogue` has the lessons, `Session` is what a notebook uses, `evidence` gathers what the checks look at,
`run` is the flow of `labctl lesson run`. Notebooks run in JupyterLab, where neither click nor rich is.
"""

from lab.ext.course.lessons.catalogue import find_lesson, lessons, numbers
from lab.ext.course.lessons.session import Session

__all__ = ["Session", "find_lesson", "lessons", "numbers"]
