"""self check, self remove."""

from __future__ import annotations

import re

import pytest

from lab.flows.traces import Places, Trace
from tests.unit.cli.fakes import Labctl

LAB = Trace("a lab: stored objects", "/home/ann/.raylab/raylab", 5_000_000, yours=True, lab="raylab")
SHARED = Trace("files of labs that run", "/tmp/raylab-0", 4_000_000, shared=True)
IMAGE = Trace("an image of the lab", "raylab/ray:1", 5_600_000_000, image=True)
VENV = Trace("Python", "/home/ann/.raylab/environments/python3.11-0123", 2_300_000_000)


@pytest.fixture
def written(labctl: Labctl) -> Labctl:
    labctl.stub("lab.flows.traces.traces", (LAB, SHARED, VENV))
    return labctl


def test_check_says_what_is_where_and_what_is_a_persons(written: Labctl) -> None:
    lab, _, venv = written.ok("self", "check").splitlines()[1:4]
    assert lab.split()[0:3] == ["5.0", "MB", LAB.place]
    assert lab.endswith("yours")
    assert "2.3 GB" in venv
    assert "yours" not in venv


def test_check_as_json(written: Labctl) -> None:
    assert written.json("self", "check")["traces"][0] == {
        "what": LAB.what, "place": LAB.place, "size": LAB.size, "yours": True,
    }  # fmt: skip


def test_remove_asks_and_names_what_goes(written: Labctl) -> None:
    remove = written.stub("lab.flows.traces.remove_traces", (VENV,))
    refused = written("self", "remove")
    assert refused.exit_code == 11
    assert VENV.place in refused.stderr
    assert LAB.place not in refused.stderr
    assert SHARED.place not in refused.stderr, "it goes when it is empty"
    remove.assert_not_called()


@pytest.mark.parametrize(("options", "yours"), [((), False), (("--data",), True)])
def test_remove_takes_what_is_a_persons_only_with_data(
    written: Labctl, options: tuple[str, ...], yours: bool
) -> None:
    remove = written.stub("lab.flows.traces.remove_traces", (LAB, VENV) if yours else (VENV,))
    said = written.ok("self", "remove", "--yes", *options)
    assert remove.call_args.kwargs["yours"] is yours
    assert isinstance(remove.call_args.args[1], Places)
    assert (f"kept, because it is yours: {LAB.place}" in said) is not yours
    assert "labctl itself remains; to remove it: rm -r " in said


def test_images_have_a_size_and_are_counted_apart(written: Labctl) -> None:
    written.stub("lab.flows.traces.traces", (IMAGE, VENV))
    shown = written.ok("self", "check")
    assert re.search(r"^5\.6 GB +raylab/ray:1 ", shown, re.MULTILINE)
    assert "Images have layers in common" in shown
    written.stub("lab.flows.traces.remove_traces", (IMAGE, VENV))
    assert "removed 2.3 GB in 1 folder, and 1 image\n" in written.ok("self", "remove", "--yes")


def test_where_nothing_was_written_check_says_so(labctl: Labctl) -> None:
    labctl.stub("lab.flows.traces.traces", ())
    shown = labctl.ok("self", "check")
    assert shown.startswith("labctl has written nothing here\n")
    assert "SIZE" not in shown
    assert "self remove" not in shown
