"""top: drawn once, as JSON, live; and what it does when the dashboard is silent."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from lab.cli.commands.top import Feed, drawn
from lab.cluster.allocation import GpuLoad, Holding, NodeLoad, TopView, Waiting
from lab.errors import ClusterError, LabDownError, LabError
from lab.host.interrupts import SignalError
from tests.fakes import FakeClock
from tests.unit.cli.fakes import Labctl
from tests.unit.fakes import AT

NODE_KEYS = {
    "service", "cpu_percent", "cores", "memory_used", "memory_limit", "shares_host", "gpus", "offers", "held",
    "holdings", "health",
}  # fmt: skip
HALF = {"CPU": 4.0, "GPU": 0.5}


def node(service: str, *jobs: str, **changes: Any) -> NodeLoad:
    """A worker with a simulated GPU on which each job has a rank with half of it."""
    values: dict[str, Any] = {
        "cpu_percent": 151.5,
        "cores": 2,
        "memory_used": 1_200_000_000,
        "memory_limit": 25_000_000_000,
        "shares_host": True,
        "gpus": (GpuLoad(0, "simulated", True, 0.5 * len(jobs)),),
        "offers": {"CPU": 8.0, "GPU": 1.0},
        "held": {"CPU": 4.0 * len(jobs), "GPU": 0.5 * len(jobs)},
        "holdings": tuple(Holding(job, service, HALF, "rank 0") for job in jobs),
    }
    return NodeLoad(service, **{**values, **changes})


def view(*nodes: NodeLoad, waiting: tuple[Waiting, ...] = (), at: float = AT) -> TopView:
    """Two workers, two jobs on the first and one on the second, unless nodes are given."""
    return TopView(
        at, nodes or (node("ray-worker-0", "a", "c"), node("ray-worker-1", "b")), waiting, ("note 1",)
    )


WAITS = Waiting(
    "d", "others", "ranks", {"GPU": 1.0}, 2, "needs 2 x 1 GPU; free: ray-worker-0 0 GPU",
    (Holding("a", "ray-worker-0", {"GPU": 0.5}, "rank 0"),), ("GPU",),
)  # fmt: skip


def shown(item: TopView, *, unicode: bool = False, trouble: str = "") -> list[str]:
    """The lines of a view."""
    return [line.plain for line in drawn(item, "raylab", unicode=unicode, trouble=trouble)]


def test_jobs_that_share_a_gpu_are_seen_in_its_bar(labctl: Labctl) -> None:
    labctl.stub("top", view())
    lines = labctl.ok("top").splitlines()
    assert "  GPU 0  share [AAAAAAAAAAAACCCCCCCCCCCC] 1 of 1  simulated" in lines
    assert "  GPU 0  share [BBBBBBBBBBBB............] 0.5 of 1  simulated" in lines
    assert "  C  rank 0 of c  (4 CPU and 0.5 GPU)" in lines
    assert "no job waits" in lines
    assert "note: note 1" in lines


def test_cpu_is_drawn_in_parts_of_the_cores_and_told_in_percent_of_one() -> None:
    line = next(line for line in shown(view()) if line.startswith("ray-worker-0"))
    assert line == ("ray-worker-0    CPU [########..] 152 % of 2 cores    memory 1.2 GB of 25.0 GB")


@pytest.mark.parametrize("unicode", [True, False])
def test_nothing_but_sentences_is_wider_than_80_columns(unicode: bool) -> None:
    wide = node("ray-worker-15", *"abcd", memory_used=999_000_000_000, memory_limit=999_000_000_000)
    lines = [line for line in shown(view(wide), unicode=unicode) if not line.startswith("note")]
    assert max(len(line) for line in lines) <= 80
    assert unicode or "".join(lines).isascii()


def test_what_is_not_measured_yet_is_not_drawn_as_idle() -> None:
    lines = shown(view(node("ray-worker-0", cpu_percent=None, memory_used=None)))
    assert "ray-worker-0    CPU not measured yet" in lines


def test_a_real_gpu_has_a_bar_of_its_use_and_its_memory() -> None:
    real = GpuLoad(0, "NVIDIA A100", False, 0.5, 75.0, 2_000_000_000, 40_000_000_000)
    lines = shown(view(node("ray-worker-0", "a", gpus=(real,))))
    assert "  GPU 0  share [AAAAAAAAAAAA............] 0.5 of 1  NVIDIA A100" in lines
    assert "         use   [##################......] 75 %  memory 2.0 GB of 40.0 GB" in lines


def test_a_gpu_that_cannot_be_read_says_so() -> None:
    lines = shown(view(node("ray-worker-0", "a", gpus=(GpuLoad(0, "MI250X", False, 0.5),))))
    assert "         use   use cannot be read" not in lines
    assert "         use   cannot be read" in lines


def test_who_waits_is_told_with_the_reason() -> None:
    lines = shown(view(waiting=(WAITS,)))
    assert lines[lines.index("waiting") + 1] == (
        "  others      job d runs, but its ranks wait: needs 2 x 1 GPU; free: ray-worker-0 0 GPU; "
        "held by a (rank 0: 0.5 GPU on ray-worker-0)"
    )


def test_who_waits_is_within_the_first_lines_however_much_is_held() -> None:
    full = [node(f"ray-worker-{i}", *(f"job-{j}" for j in range(8))) for i in range(4)]
    lines = shown(view(*full, waiting=(WAITS,)), trouble="no answer")
    assert len(lines) > 24
    assert any("job d runs, but its ranks wait" in line for line in lines[:4])
    assert shown(view(*full))[1] == "no job waits"


def test_more_jobs_than_letters_are_drawn() -> None:
    many = node("ray-worker-0", *(f"job-{i:02}" for i in range(60)))
    assert any(line.startswith("  *  rank 0 of job-59") for line in shown(view(many)))


def test_json_is_one_document(labctl: Labctl) -> None:
    labctl.stub("top", view(waiting=(WAITS,)))
    document = labctl.json("top")
    assert set(document) == {"at", "nodes", "waiting", "notes"}
    assert set(document["nodes"][0]) == NODE_KEYS
    assert [h["job"] for h in document["nodes"][0]["holdings"]] == ["a", "c"]
    assert document["nodes"][0]["gpus"] == [
        {
            "index": 0, "name": "simulated", "simulated": True, "share": 1.0, "utilization": None,
            "memory_used": None, "memory_total": None,
        }
    ]  # fmt: skip
    (waits,) = document["waiting"]
    assert (waits["job"], waits["kind"], waits["count"], waits["short"]) == ("d", "others", 2, ["GPU"])
    assert waits["holders"] == [
        {"job": "a", "service": "ray-worker-0", "what": "rank 0", "resources": {"GPU": 0.5}}
    ]


def ends_after(labctl: Labctl, seconds: float, end: BaseException) -> None:
    """Let this come once labctl has waited so long."""

    def come() -> None:
        raise end

    labctl.runtime.clock.after(seconds, come)


def test_json_with_an_interval_is_a_document_a_line_until_ctrl_c(labctl: Labctl) -> None:
    ends_after(labctl, 1.4, KeyboardInterrupt())
    labctl.stub("top").side_effect = [view(), LabDownError("not up"), view(at=AT + 2)]
    forget = labctl.stub("forget_connections")
    result = labctl("top", "--json", "--every", "0.5")
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [d.get("at") for d in documents] == [AT, None, AT + 2]
    assert documents[1] == {"problem": "not up"}
    forget.assert_called_once_with()


def test_sigterm_is_no_ctrl_c(labctl: Labctl) -> None:
    ends_after(labctl, 1.0, SignalError(signal.SIGTERM))
    labctl.stub("top", view())
    assert labctl("top", "--json", "--every", "1").exit_code == 128 + signal.SIGTERM


@pytest.mark.parametrize("interval", ["0", "0.1", "3601", "nan", "-1"])
def test_an_interval_that_makes_no_sense_is_refused(labctl: Labctl, interval: str) -> None:
    result = labctl("top", "--every", interval)
    assert (result.exit_code, labctl.opened) == (2, [])


def test_a_lab_that_is_down_is_an_error(labctl: Labctl) -> None:
    labctl.down()
    assert labctl("top").exit_code == 5


def test_a_dashboard_that_is_silent_from_the_start_is_an_error(labctl: Labctl) -> None:
    labctl.stub("top", ClusterError("no answer"))
    assert labctl("top").exit_code == 16


class FakeDashboard(FakeClock):
    """A dashboard and a clock."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.answer: TopView | Exception = view()
        self.forgotten = 0
        self.feed = Feed(self.ask, self.forget, self)

    def ask(self) -> TopView:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def forget(self) -> None:
        self.forgotten += 1


def test_a_silent_dashboard_leaves_the_last_view_and_says_how_old_it_is() -> None:
    dashboard = FakeDashboard()
    feed = dashboard.feed
    first = feed.view
    assert feed.trouble == ""
    dashboard.now, dashboard.answer = 3.0, ClusterError("Ray's dashboard does not answer")
    feed.step()
    assert feed.view is first
    assert feed.trouble == "Ray's dashboard does not answer; these numbers are 3 s old"
    assert feed.trouble in shown(feed.view, trouble=feed.trouble)
    dashboard.now, dashboard.answer = 4.0, view(at=AT + 4)
    feed.step()
    assert (feed.view.at, feed.trouble) == (AT + 4, "")


@pytest.mark.parametrize("error", [ClusterError("no answer"), LabDownError("lab raylab is not up")])
def test_a_lab_that_was_down_is_looked_for_anew(error: LabError) -> None:
    dashboard = FakeDashboard()
    feed = dashboard.feed
    dashboard.now, dashboard.answer = 1.0, error
    feed.step()
    assert (dashboard.forgotten, feed.trouble) == (1, f"{error.message}; these numbers are 1 s old")
    dashboard.answer = view(at=AT + 1)
    feed.step()
    assert (dashboard.forgotten, feed.trouble, feed.view.at) == (1, "", AT + 1)


def test_a_dashboard_that_hangs_is_told_by_the_age_alone() -> None:
    dashboard = FakeDashboard()
    feed = dashboard.feed
    dashboard.now = 12.0
    assert feed.trouble == "Ray does not answer; these numbers are 12 s old"
