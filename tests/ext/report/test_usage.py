"""The lines of resource use: broken where a service had no sample, and only there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lab.ext.report.build import build_report
from lab.ext.report.draw.usage import draw
from lab.flows.recovery.usage_samples import Sample
from tests.ext.report.cases import full


@pytest.mark.parametrize(("node", "gaps"), [((0, 2, 4, 6, 26, 46), 0), ((0, 4, 46), 2)])
def test_a_line_is_broken_where_others_were_sampled_and_nowhere_else(
    node: tuple[int, ...], gaps: int
) -> None:
    samples = [Sample(float(at), "ray-head", 30.0) for at in (0, 2, 4, 6, 26, 46)]
    samples += [Sample(float(at), "ray-worker-0", 100.0) for at in node]
    figure = draw(replace(build_report(full()), samples=tuple(samples)))
    assert figure is not None
    lines = {str(line.get_label()): list(line.get_ydata()) for line in figure.axes[0].get_lines()}
    assert not any(map(math.isnan, lines["ray-head"]))
    assert sum(map(math.isnan, lines["ray-worker-0"])) == gaps
