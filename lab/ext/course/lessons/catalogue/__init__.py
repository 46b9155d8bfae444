"""The lessons, one module each: `lesson_NN.py` with its `LESSON`. Such a module is all it takes."""

from __future__ import annotations

import importlib
import pkgutil
import re

from lab.errors import NotFoundError
from lab.ext.course.lessons.model import Lesson


def numbers() -> tuple[int, ...]:
    """The numbers of the lessons there are, in order."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(int(m[1]) for name in names if (m := re.fullmatch(r"lesson_(\d\d)", name))))


def lessons() -> tuple[Lesson, ...]:
    """Every lesson, in order."""
    return tuple(map(find_lesson, numbers()))


def find_lesson(number: int) -> Lesson:
    """The lesson with this number. Raises NotFoundError that names those there are."""
    known = numbers()
    if number not in known:
        raise NotFoundError(
            f"there is no lesson {number}",
            f"there are: {', '.join(map(str, known))}; see `labctl lesson list`",
        )
    lesson: Lesson = importlib.import_module(f"{__name__}.lesson_{number:02d}").LESSON
    return lesson
