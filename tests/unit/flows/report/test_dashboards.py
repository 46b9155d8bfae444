"""The page of dashboards: every panel, drawn from answers as Prometheus gives them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.cluster.prometheus import Prometheus, Series
from lab.errors import LabDownError, UsageError
from lab.flows.report.dashboards import DASHBOARDS, ORDER, Window, amount, name_of, spans, write_dashboards
from lab.host.http import NoAnswerError, Reply

NOW = 1_764_000_000.0
WINDOW = Window(NOW - 60, NOW)


class Answers:
    """A Prometheus that has the same ten lines for every query but that of faults."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, method: str, url: str, **_: object) -> Reply:
        query = parse_qs(urlsplit(url).query)
        self.asked += query["query"]
        (step,) = query["step"]
        assert (method, step) == ("GET", "5.0")
        times = [NOW - 60 + 5 * place for place in range(13)]
        series = [
            {
                "metric": {
                    "service": f"<w{line}>",
                    "run": f"r{line}",
                    "status": f"s{line}",
                    "node": f"n{line}",
                },
                "values": [
                    [at, str(line + place / 10) if at != NOW - 30 else "NaN"]
                    for place, at in enumerate(times)
                ],
            }
            for line in range(10)
        ]
        if query["query"] == ["raylab_fault_active"]:
            series = [{"metric": {}, "values": [[at, "1" if at < NOW - 40 else "0"] for at in times]}]
        return Reply(200, {}, json.dumps({"data": {"result": series}}).encode())


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, answers: Answers) -> str:
    folder = tmp_path_factory.mktemp("page") / "new"
    path = write_dashboards(Prometheus("http://p", answers), folder, WINDOW, "raylab")
    assert path == folder / "dashboards.html"
    return path.read_text()


def panels() -> list[dict[str, object]]:
    return [
        panel for name in ORDER for panel in json.loads((DASHBOARDS / f"{name}.json").read_text())["panels"]
    ]


def test_every_dashboard_is_on_the_page() -> None:
    assert sorted(ORDER) == sorted(path.stem for path in DASHBOARDS.glob("*.json"))


def test_every_query_is_asked_and_every_panel_shown(page: str, answers: Answers) -> None:
    wanted = [target["expr"] for panel in panels() for target in panel["targets"]]  # type: ignore[attr-defined]
    assert sorted(answers.asked) == sorted([*wanted, "raylab_fault_active"])
    assert re.findall(r"<h3>(.*?)</h3>", page) == [panel["title"] for panel in panels()]
    assert page.count("<svg") == sum(panel["type"] == "timeseries" for panel in panels())
    assert "no data" not in page


def test_the_page_needs_nothing_from_elsewhere_and_has_the_colours_of_dark_and_light(page: str) -> None:
    assert "<script" not in page
    assert set(re.findall(r'(?:src|href)="([^#"][^"]*)"', page)) == set()
    assert "prefers-color-scheme: dark" in page
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "var(--ink)" in drawn
    assert not re.search(r"#222222|#ffffff|<metadata", drawn)
    assert "opacity: 0.18" in drawn, "the fault is a red region"


def test_a_chart_has_few_lines_and_words_for_those_who_do_not_see_it(page: str) -> None:
    assert "2 more with lower values are not drawn." in page
    assert "Nodes, 8 lines. Last: &lt;w2&gt; 3.2" in page
    assert "<w" not in page


def test_a_line_is_named_as_the_dashboard_says() -> None:
    labels = {"service": "ray-head", "metric": "loss"}
    assert name_of("{{metric}} {{ service }}", labels) == "loss ray-head"
    assert name_of("objects", labels) == "objects"
    assert name_of("", labels) == "ray-head loss"
    assert name_of("{{run}}", labels) == "value"


def test_a_fault_lasts_as_long_as_its_series_is_above_zero() -> None:
    points = ((0.0, 0.0), (5.0, 1.0), (10.0, 1.0), (15.0, 0.0), (20.0, 1.0), (40.0, 1.0))
    assert list(spans(Series({}, points), 5.0)) == [(5.0, 15.0), (20.0, 25.0), (40.0, 45.0)]


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3.0, "", "3"),
        (98.765, "%", "98.77 %"),
        (90.0, "s", "1 min 30 s"),
        (0.25, "s", "0.25 s"),
        (math.pi, "MiB", "3.142 MiB"),
    ],
)
def test_values_are_told_with_their_unit(value: float, unit: str, words: str) -> None:
    assert amount(value, unit) == words


def test_a_long_time_has_no_more_points_than_a_chart_can_show() -> None:
    assert Window(0.0, 86_400.0).step == 360.0


def test_a_prometheus_that_does_not_answer_is_told(tmp_path: Path) -> None:
    def silent(*_: object, **__: object) -> Reply:
        raise NoAnswerError("nothing listens there")

    with pytest.raises(LabDownError, match="http://p does not answer"):
        write_dashboards(Prometheus("http://p", silent), tmp_path, WINDOW, "raylab")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write into"):
        write_dashboards(Prometheus("http://p", Answers()), tmp_path / "file", WINDOW, "raylab")
