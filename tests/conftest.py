"""What all tests share: a lab home of their own, skips that count in CI, long tests, a summary by part."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.go_programs import SourcesError
from tests.minio import minio_program
from tests.promises import shown_by
from tests.run import HALVES, LANES, OUTCOMES, Counts

ROOT = Path(__file__).resolve().parent.parent

HELPERS = {f"tests.{path.stem}" for path in ROOT.joinpath("tests").iterdir()} - sys.modules.keys()
"""Modules and folders whose asserts show their values, as those of tests do, when they fail."""

pytest.register_assert_rewrite(*HELPERS)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("raylab")
    group.addoption("--no-skips", action="store_true", help="a skipped test counts as failed")
    group.addoption(
        "--all", action="store_true", help="run every test, not only those that show a promise of the README"
    )
    group.addoption(
        "--lane",
        choices=(*LANES, *HALVES),
        help="of the tests with labs those with labs of this runtime; or those of every second file",
    )
    group.addoption(
        "--within",
        type=float,
        metavar="SECONDS",
        help="leave out, counted as skipped, what would begin later than this after the first test",
    )
    group.addoption(
        "--counts", metavar="FILE", help="write how the tests of each folder ended into this file"
    )


EXAMPLES, ALL_EXAMPLES = 100, 400
"""Cases of each property that is tried: in every run, and with --all or in CI."""


def pytest_configure(config: pytest.Config) -> None:
    """Decide before any module is imported; what a test sets itself holds."""
    many = config.getoption("--all") or config.getoption("--no-skips")
    settings.register_profile("raylab", deadline=None, max_examples=ALL_EXAMPLES if many else EXAMPLES)
    settings.load_profile("raylab")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that show a promise, before -m selects."""
    if shown_by(item.nodeid):
        item.add_marker(pytest.mark.promise)


LEFT_OUT = pytest.StashKey[dict[str, Counter[str]]]()
"""As in Counts."""


@pytest.hookimpl(trylast=True)  # other hooks have marked those with containers by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of another lane, of MinIO where there is none, and without --all the long and rare
    ones and those with labs that show no promise of the README. The summary counts all but the first.
    """
    lane = config.getoption("--lane")
    if lane in HALVES:
        mine = set(sorted({item.path for item in items})[HALVES.index(lane) :: len(HALVES)])
        deselect(config, items, [item for item in items if item.path not in mine])
    elif lane:
        deselect(config, items, [item for item in items if lane_of(item) != lane])
    config.stash[LEFT_OUT] = {}
    kinds: dict[str, Callable[[pytest.Item], bool]] = {}
    if not minio_program():
        kinds["minio"] = lambda item: marked(item, "minio")
    if not config.getoption("--all"):
        kinds["long"] = lambda item: marked(item, "long", "rare")
        kinds["further"] = lambda item: part(item.nodeid) in LABS and not marked(item, "promise")
    for why, left_out in kinds.items():
        left = [item for item in items if left_out(item)]
        config.stash[LEFT_OUT][why] = Counter(part(item.nodeid) for item in left)
        deselect(config, items, left)


LABS = ("tests/contract", "tests/e2e")
"""Folders of the tests with labs."""

MOVED = ("test_forks.py", "test_scripts.py", "test_kueue.py")
"""Tests with labs of processes that run in the lane of containers, which has less to do."""


def lane_of(item: pytest.Item) -> str:
    """The lane of a test with a lab (tests.run.LANES)."""
    containers = marked(item, "containers") or part(item.nodeid) == "tests/contract"
    return "containers" if containers or item.path.name in MOVED else "processes"


def marked(item: pytest.Item, *names: str) -> bool:
    """True for a test with one of these marks."""
    return any(item.get_closest_marker(name) for name in names)


def deselect(config: pytest.Config, items: list[pytest.Item], left: list[pytest.Item]) -> None:
    """Leave these tests out."""
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


BEGAN = pytest.StashKey[float]()
"""When the first test began: seconds of the monotonic clock."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave out of every search for garbage what lives as long as the tests: themselves, and all modules."""
    session.config.stash[BEGAN] = time.monotonic()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before the fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out for which no time is left."""
    within = item.config.getoption("--within")
    if within is not None and time.monotonic() - item.config.stash[BEGAN] > within:
        pytest.skip(f"{NEEDS_TIME}{max(within, 0):.0f} s were over")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C is answered also where the tests were started in the background and inherit SIG_IGN."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture(scope="session", autouse=True)
def user_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder of what all labs share, for this session: the user's own labs have other leases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def raylab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the state of labs, through RAYLAB_HOME."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("RAYLAB_HOME", str(home))
    return home


NEEDS_GO = "needs Go: "
"""Begins the reason of a test that is left out, in CI too, where no Go or no proxy of its modules is."""

NEEDS_FAKE_NVIDIA = "needs the engine of .ci/engine: "
"""The same where another engine answers, which does not have the fakes of tests/fakes/nvidia."""

NEEDS_COURSE = "needs the course: "
"""The same where nobody has named the folder of the course's own scripts."""


NEEDS_TIME = "needs time: "
"""The same where the machine is so slow that its time is over (--within)."""


@contextlib.contextmanager
def needs_go() -> Iterator[None]:
    """Leave a test out where there is no Go, or no source of its modules; what does not build has failed."""
    if shutil.which("go") is None:
        pytest.skip(f"{NEEDS_GO}there is no command `go`")
    try:
        yield
    except SourcesError as error:
        pytest.skip(f"{NEEDS_GO}{error.message}")


def forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that names the reason, but for what CI cannot mend: that is only counted."""
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith((NEEDS_GO, NEEDS_FAKE_NVIDIA, NEEDS_COURSE, NEEDS_TIME)):
        report.outcome = "failed"
        report.longrepr = f"skipped, and no test may be (--no-skips): {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption("--no-skips"):
        forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption("--no-skips"):
        forbid_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counts = counted(terminalreporter.stats, config.stash.get(LEFT_OUT, {}))
    terminalreporter.section("parts")
    for line in counts.lines():
        terminalreporter.write_line(line)
    if config.getoption("--counts"):
        Path(config.getoption("--counts")).write_text(json.dumps(counts.to_json()), encoding="utf-8")


def counted(stats: dict[str, list[Any]], left_out: dict[str, Counter[str]]) -> Counts:
    """How the tests of each folder of tests/ ended, and their seconds."""
    counts = Counts(left_out=left_out)
    for outcome in ("", *OUTCOMES):  # "" holds set-up and tear-down
        for report in stats.get(outcome, ()):
            folder = part(report.nodeid)
            counts.seconds[folder] = counts.seconds.get(folder, 0.0) + getattr(report, "duration", 0.0)
            if outcome:
                counts.ended.setdefault(folder, Counter())[outcome] += 1
    return counts


def part(nodeid: str) -> str:
    """The folder of tests/ that a test belongs to."""
    return "/".join(nodeid.split("/")[:2])
