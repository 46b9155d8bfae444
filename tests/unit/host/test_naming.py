"""The lab in the commands of advice."""

from __future__ import annotations

import pytest

from lab.cli.listing import walk
from lab.cli.main import cli
from lab.host.naming import COMMANDS, WITHOUT, about

ALONE = {"images", "receipt", "self", "test"}
"""Commands that neither act on a lab nor tell of one."""


@pytest.mark.parametrize(
    ("advice", "named"),
    [
        ("`labctl up` starts it", "`labctl --lab other up` starts it"),
        ("labctl down, then labctl up", "labctl --lab other down, then labctl --lab other up"),
        ("see labctl fault-inject", "see labctl --lab other fault-inject"),
        ("labctl queue apply --example classroom", "labctl --lab other queue apply --example classroom"),
        ("labctl queue", "labctl --lab other queue"),
        ("labctl queue check FILE", "labctl queue check FILE"),
        ("labctl export check FILE", "labctl export check FILE"),
        ("labctl uploads nothing, labctl down-loads", "labctl uploads nothing, labctl down-loads"),
        (
            "on the host: labctl fault-inject --list --lab mine",
            "on the host: labctl fault-inject --list --lab mine",
        ),
        ("labctl --lab mine up", "labctl --lab mine up"),
        ("labctl does that", "labctl does that"),
    ],
)
def test_a_command_that_acts_on_a_lab_names_it(advice: str, named: str) -> None:
    assert about(advice, "other") == named
    assert about(advice, "raylab") == advice
    assert about(advice, "other", "other") == named, "the variable may be another one elsewhere"


def test_the_default_lab_is_named_where_a_variable_means_another_one() -> None:
    assert about("labctl up", "raylab", "other") == "labctl --lab raylab up"


def test_every_command_has_its_place() -> None:
    assert {*COMMANDS} | ALONE == {*cli.commands}
    assert not {*COMMANDS} & ALONE
    below = {full for name, command in cli.commands.items() for full, _ in walk(name, command)}
    assert {line for line in WITHOUT if not line.endswith(" --list")} <= below
