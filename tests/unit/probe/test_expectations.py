"""What the patches expect of Ray: the pinned one has it, and one that is another is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raylab_expectations import (
    Expectation,
    expect,
    expect_text,
    expectations,
    parameters,
    source_of,
    unfit,
    unmet,
)

from raylab_switches import PATCHES

EXPECTATIONS = expectations()

EACH = [
    pytest.param(patch, expectation, id=f"{patch}: {expectation.name}")
    for patch, needs in EXPECTATIONS.items()
    for expectation in needs
]
FUNCTIONS = [
    pytest.param(patch, expectation, id=f"{patch}: {expectation.name}")
    for patch, needs in EXPECTATIONS.items()
    for expectation in needs
    if expectation.signature
]


def test_every_patch_says_what_it_expects() -> None:
    assert set(EXPECTATIONS) == {patch.name for patch in PATCHES}
    assert all(EXPECTATIONS.values())


def test_the_pinned_ray_has_all_of_it() -> None:
    pytest.importorskip("ray")
    assert unfit() == {}


def test_of_a_ray_that_lacks_something_the_patches_that_need_it_are_unfit() -> None:
    pytest.importorskip("ray")
    for patch, needs in EXPECTATIONS.items():
        module = needs[0].module
        needing = {name for name, every in EXPECTATIONS.items() if any(e.module == module for e in every)}
        assert unfit(with_source(module, "")).keys() == needing | {patch}, module


def noticed(patch: str, expectation: Expectation, old: str, new: str) -> str:
    """The problem of a Ray with `new` in place of `old` in its source; empty where nothing is installed."""
    source = source_of(expectation.module)
    if source is None:
        return ""
    read = with_source(expectation.module, source.replace(old, new))
    assert unmet(patch, read)
    return expectation.unmet(read)


def with_source(changed: str, source: str | None) -> Callable[[str], str | None]:
    """A reader of the sources of a Ray that has this one in place of its own in a module."""
    return lambda module: source if module == changed else source_of(module)


@pytest.mark.parametrize(("patch", "expectation"), EACH)
def test_ray_without_what_a_patch_expects_is_noticed(patch: str, expectation: Expectation) -> None:
    pytest.importorskip("ray")
    name = expectation.name if expectation.text else expectation.name.rpartition(".")[2]
    problem = noticed(patch, expectation, name, "something_else")
    assert problem in ("", f"{expectation.module} has no {expectation.name}")
    assert problem or expectation.module.startswith("torchft")


@pytest.mark.parametrize(("patch", "expectation"), FUNCTIONS)
def test_ray_with_other_parameters_than_a_patch_expects_is_noticed(
    patch: str, expectation: Expectation
) -> None:
    pytest.importorskip("ray")
    define = f"def {expectation.name.rpartition('.')[2]}("
    problem = noticed(patch, expectation, define, f"{define}added, ")
    assert f"{expectation.name} takes (added" in problem or expectation.module.startswith("torchft")


def test_a_module_that_is_missing_is_noticed_and_a_package_that_is_not_installed_is_not() -> None:
    pytest.importorskip("ray")
    assert expect("ray.no_such_module", "x").unmet(source_of) == "there is no module ray.no_such_module"
    assert expect("no_such_package.at_all", "x").unmet(source_of) == ""


SOURCE = """
from a.b import (
    listed,
    other,
)
import alone

CONSTANT = 1
annotated: int = 2


class First:
    field: int = 0
    def __init__(
        self,
        a: dict[str, int] = {"x": (1, 2)},
        *args,
    ) -> None:
        self.own: list[
            int
        ] = []

    async def waits(self, *, b, c=None, **more):
        return First


class Second(
    First,
):
    def method(self, x, y=3): return x


def function(*, only): ...
async def later(x): ...
"""


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("function", ["*", "only"]),
        ("later", ["x"]),
        ("First.__init__", ["self", "a=", "*args"]),
        ("First.waits", ["self", "*", "b", "c=", "**more"]),
        ("Second.method", ["self", "x", "y="]),
        ("First.field", []),
        ("First.own", []),
        ("CONSTANT", []),
        ("annotated", []),
        ("listed", []),
        ("alone", []),
        ("Second", []),
        ("First.method", None),
        ("Second.own", None),
        ("method", None),
        ("CONST", None),
        ("Third.x", None),
        ("Fir", None),
    ],
)
def test_the_parameters_of_a_function_are_read_from_its_source(name: str, taken: list[str] | None) -> None:
    assert parameters(SOURCE, name) == taken


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        ("(self, x, y=)", ""),
        ("(self, x, ...)", ""),
        ("(self, ...)", ""),
        ("", ""),
        ("(self, x)", "m: Second.method takes (self, x, y=), not (self, x)"),
        ("(self, x, y)", "m: Second.method takes (self, x, y=), not (self, x, y)"),
        ("(self, z, ...)", "m: Second.method takes (self, x, y=), not (self, z, ...)"),
    ],
)
def test_a_signature_names_parameters_defaults_and_that_more_may_follow(signature: str, why: str) -> None:
    assert expect("m", "Second.method", signature).unmet(lambda module: SOURCE) == why


def test_a_text_is_in_the_source_or_not() -> None:
    assert expect_text("m", "return First").unmet(lambda module: SOURCE) == ""
    assert expect_text("m", "return Second").unmet(lambda module: SOURCE) == "m has no return Second"
