"""queue: checks and simulations, without a lab."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kueue import story
from lab.cli.commands.queue import files as queue
from lab.cli.main import main
from lab.flows.queues.page import write
from tests.conftest import ROOT

DATA = ROOT / "tests" / "unit" / "data" / "queue"
TEAMS = str(DATA / "two-teams.yaml")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Stdout and stderr of a command."""
    capsys.readouterr()
    assert main(["queue", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_check_says_what_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "check", TEAMS)
    assert "ClusterQueue blue in cohort lab, BestEffortFIFO\n  gpu: 4 nvidia.com/gpu\n" in out
    assert err == ""


def test_check_says_it_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    seed = str(DATA / "seeds" / "red-cluster-queue.yaml")
    checked = json.loads(run(capsys, "check", seed, "--json")[0])
    assert checked["schema"] == "queue-check/1"
    assert checked["understood"]["ClusterQueue"] == 1
    (odd,) = [warning for warning in checked["warnings"] if warning["hint"]]
    assert (odd["line"], odd["hint"]) == (14, "did you mean nvidia.com/gpu?")


def test_check_writes_the_new_version(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written = tmp_path / "new.yaml"
    written.write_text(
        run(capsys, "check", str(DATA / "seeds" / "blue-cluster-queue.yaml"), "--yaml")[0],
        encoding="utf-8",
    )
    text = written.read_text(encoding="utf-8")
    assert "apiVersion: kueue.x-k8s.io/v1beta2\n" in text
    assert "cohortName: default-cohort\n" in text
    run(capsys, "check", str(written))


def test_everything_that_is_wrong_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec:\n"
        "  namespaceSelector: {}\n  stopPolicy: Halt\n  queueingStrategy: StrictFifo\n"
    )
    _, err = run(capsys, "check", str(bad), code=2)
    assert f"error: {bad}:6: spec.stopPolicy" in err
    assert f"{bad}:7: spec.queueingStrategy: 'StrictFifo' is none of BestEffortFIFO, StrictFIFO" in err
    assert run(capsys, "simulate", str(bad), code=2)[0] == ""


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "simulate", str(tmp_path / "none.yaml"), code=3)
    run(capsys, "check", str(tmp_path), code=2)


def test_simulate_tells_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "simulate", TEAMS)
    assert "   600.000 s  Preempted   alice/on-borrowed-gpus in blue (InCohortReclamation)\n" in out
    assert out.endswith("cycles: 0 waiting\n")


def test_simulate_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    simulation = json.loads(run(capsys, "simulate", TEAMS, "--json")[0])
    assert simulation["schema"] == "queue-simulation/1"
    (preempted,) = [event for event in simulation["events"] if event["event"] == "Preempted"]
    assert preempted == {
        "at": 600.0,
        "event": "Preempted",
        "workload": "alice/on-borrowed-gpus",
        "reason": "InCohortReclamation",
        "message": "Preempted to accommodate a workload (UID: paper, JobUID: UNKNOWN) due to reclamation "
        "within the cohort; preemptor path: /lab/red; preemptee path: /lab/blue",
        "cluster_queue": "blue",
        "flavors": {"main": {"nvidia.com/gpu": "gpu"}},
    }


def test_simulate_a_cycle_or_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    simulation = json.loads(run(capsys, "simulate", TEAMS, "--cycles", "1", "--json")[0])
    assert (simulation["cycles"], simulation["end"], len(simulation["events"])) == (1, 0.0, 2)
    simulation = json.loads(run(capsys, "simulate", TEAMS, "--until", "5m", "--json")[0])
    assert simulation["end"] == 300.0
    run(capsys, "simulate", TEAMS, "--until", "5m", "--cycles", "1", code=2)


def test_files_of_a_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [str(DATA / "seeds" / f"{name}.yaml") for name in ("blue-local-queue", "blue-cluster-queue")]
    assert "used by: blue/default-queue" in run(capsys, "check", *seeds, "-n", "blue")[0]


def test_a_page_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.host.environment.ensure", lambda *_: None)
    monkeypatch.setattr("lab.flows.queues.page.draw", lambda _: (b"<svg/>", "in <words>"))
    page = tmp_path / "page.html"
    _, err = run(capsys, "simulate", TEAMS, "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert f"wrote {page}" in err
    assert 'alt="in &lt;words&gt;"' in text
    assert "<td>alice/on-borrowed-gpus</td>" in text
    run(capsys, "simulate", TEAMS, "--html", str(tmp_path / "no" / "page.html"), code=21)


def test_a_page_takes_the_place_of_nothing_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "_read", pytest.fail)
    given, pipe = tmp_path / "teams.yaml", tmp_path / "pipe"
    given.write_text("kind: List", encoding="utf-8")
    os.mkfifo(pipe)
    link = tmp_path / "link.html"
    link.symlink_to(given)
    for page in (given, link, pipe):
        assert str(page) in run(capsys, "simulate", str(given), "--html", str(page), code=2)[1]
    assert given.read_text(encoding="utf-8") == "kind: List"


def test_a_page_is_whole_or_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    write(place, "old")
    with pytest.raises(UnicodeEncodeError):
        write(place, "new" * 100_000 + "\ud800")
    assert place.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [place]


NEVER_READY = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: stuck, namespace: alice, annotations: {raylab.io/ready-after: never}}
spec: {podSets: [{template: {spec: {containers: [{}]}}}]}
---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {}
"""


def test_a_simulation_without_an_end_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, ends = tmp_path / "stuck.yaml", tmp_path / "ends.yaml"
    stuck.write_text(NEVER_READY, encoding="utf-8")
    limit = "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 1}}"
    ends.write_text(NEVER_READY.replace("waitForPodsReady: {}", limit), encoding="utf-8")
    run(capsys, "simulate", TEAMS, str(stuck), "--until", "2h")
    run(capsys, "simulate", TEAMS, str(stuck), "--cycles", "1")
    run(capsys, "simulate", TEAMS, str(ends))
    monkeypatch.setattr("kueue.simulate.simulate", pytest.fail)
    assert "alice/stuck" in run(capsys, "simulate", TEAMS, str(stuck), code=2)[1]


def test_a_namespace_is_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'A B'" in run(capsys, "check", TEAMS, "-n", "A B", code=2)[1]


def test_yaml_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert "error" in json.loads(run(capsys, "check", TEAMS, "--yaml", "--json", code=2)[0])


def test_a_long_story_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "SHOWN", 2)
    assert "more events; --json shows all\n" in run(capsys, "simulate", TEAMS)[0]


def blocks(language: str) -> list[str]:
    return [
        text for kind, text in BLOCK.findall((ROOT / "docs" / "queues.md").read_text()) if kind == language
    ]


def test_the_examples_of_the_page_are_what_comes_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept,) = blocks("yaml")
    classroom, fair, teams = (f"workspace/queues/{name}.yaml" for name in ("classroom", "fair", "two-teams"))
    monkeypatch.chdir(ROOT)
    (tmp_path / "kept.yaml").write_text(kept, encoding="utf-8")
    assert run(capsys, "check", classroom, str(tmp_path / "kept.yaml"))
    first, second, third, *_ = (text.split("\n", 1) for text in blocks("console"))
    assert first[0] == f"$ labctl queue simulate {classroom} | grep -E ' s  (Admitted|Pending)'"
    whole = run(capsys, "simulate", classroom)[0]
    lines = [line for line in whole.splitlines() if re.search(" s  (Admitted|Pending)", line)]
    assert lines == first[1].splitlines()
    assert "              it asks for 3 GPUs, and its queue can have 2 at most\n" in whole
    assert "after 12600 s and 24 cycles: 1 waiting\n" in whole
    assert second[0] == f"$ labctl queue simulate {classroom} {fair} | grep Admitted"
    lines = run(capsys, "simulate", classroom, fair)[0].splitlines()
    assert [line for line in lines if "Admitted" in line] == second[1].splitlines()
    assert third[0] == f"$ labctl queue simulate {teams} | grep -E ' s  (Admitted|Preempted)'"
    lines = run(capsys, "simulate", teams)[0].splitlines()
    assert [line for line in lines if re.search(" s  (Admitted|Preempted)", line)] == third[1].splitlines()


def test_the_json_of_bad_files_has_every_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    head = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: "
    bad.write_text(f"{head}{{name: TeamA}}\n---\n{head}{{name: b, nam: b}}\n", encoding="utf-8")
    checked = json.loads(run(capsys, "check", str(bad), "--json", code=2)[0])
    assert [(problem["line"], problem["path"]) for problem in checked["problems"]] == [
        (3, "metadata.name"),
        (7, "metadata.nam"),
    ]
    assert checked["error"]["exit_code"] == 2
