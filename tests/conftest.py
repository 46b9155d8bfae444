"""What all tests share: a lab home of their own, skips that count in CI, long tests, a summary by part."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("raylab")
    group.addoption("--no-skips", action="store_true", help="a skipped test counts as failed")
    group.addoption("--all", action="store_true", help="run the long and the rare tests too")
    group.addoption("--part", action="append", default=[], help="a line for the summary")


EXAMPLES, ALL_EXAMPLES = 100, 400
"""Cases of each property that is tried: in every run, and with --all or in CI."""


def pytest_configure(config: pytest.Config) -> None:
    """Decide before any module is imported; what a test sets itself holds."""
    many = config.getoption("--all") or config.getoption("--no-skips")
    settings.register_profile("raylab", max_examples=ALL_EXAMPLES if many else EXAMPLES)
    settings.load_profile("raylab")


LEFT_OUT = pytest.StashKey[Counter[str]]()
"""Number of tests of each folder that were left out."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long and the rare tests out, unless they are asked for; the summary counts them."""
    if config.getoption("--all"):
        return
    left = [item for item in items if any(item.get_closest_marker(name) for name in ("long", "rare"))]
    config.stash[LEFT_OUT] = Counter(part(item.nodeid) for item in left)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C is answered also where the tests were started in the background and inherit SIG_IGN."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def raylab_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the state of labs, through RAYLAB_HOME."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("RAYLAB_HOME", str(home))
    return home


@pytest.fixture
def probe_path(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The import root of the probe, put on PYTHONPATH for processes that the test starts."""
    path = ROOT / "lab" / "probe"
    monkeypatch.setenv("PYTHONPATH", str(path))
    return path


def forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that names the reason."""
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"skipped, and no test may be (--no-skips): {reason.removeprefix('Skipped: ')}"


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
    lines = [
        *config.getoption("--part"),
        *summary(terminalreporter.stats),
        *left_out(config.stash.get(LEFT_OUT, Counter())),
    ]
    terminalreporter.section("parts")
    for line in lines:
        terminalreporter.write_line(line)


def summary(stats: dict[str, list[Any]]) -> list[str]:
    """One line for each folder of tests/: how many tests ended how, and their seconds."""
    counts: dict[str, Counter[str]] = {}
    seconds: dict[str, float] = {}
    for outcome in ("", *OUTCOMES):  # "" holds set-up and tear-down
        for report in stats.get(outcome, ()):
            folder = part(report.nodeid)
            seconds[folder] = seconds.get(folder, 0.0) + getattr(report, "duration", 0.0)
            if outcome:
                counts.setdefault(folder, Counter())[outcome] += 1
    return [
        f"{folder}: {', '.join(f'{n} {o}' for o, n in ended.items())} in {seconds[folder]:.1f} s"
        for folder, ended in sorted(counts.items(), key=lambda item: order(item[0]))
    ]


def left_out(counts: Counter[str]) -> list[str]:
    """One line for each folder of which long tests were left out."""
    return [
        f"{folder}: {count} long tests left out; `labctl test --all` runs them"
        for folder, count in sorted(counts.items(), key=lambda item: order(item[0]))
    ]


def part(nodeid: str) -> str:
    """The folder of tests/ that a test belongs to."""
    return "/".join(nodeid.split("/")[:2])


def order(folder: str) -> tuple[int, str]:
    known = ("tests/unit", "tests/contract", "tests/e2e")
    return (known.index(folder) if folder in known else len(known), folder)
