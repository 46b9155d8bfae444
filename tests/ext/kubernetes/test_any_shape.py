"""Manifests of any shape are answered: each value in turn becomes another, and nothing but findings comes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab.ext.kubernetes.lint import lint
from tests.ext.kubernetes.made import Object, cluster, job, queues, wrapper

OTHERS: tuple[Any, ...] = (None, 7, "word", [None], {"a": [1]})


def rich() -> Object:
    """A job with everything that a check looks at."""
    ray_job = job("main")
    spec = ray_job["spec"]
    spec["submitterPodTemplate"] = {"spec": {"containers": [{"name": "s", "image": "rayproject/ray:2.60.0"}]}}
    spec["deletionStrategy"] = {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteSelf"}}
    spec["runtimeEnvYAML"] = "pip: [emoji]"
    inner = spec["rayClusterSpec"]
    inner["authOptions"] = {"mode": "token", "secretName": "t"}
    inner["gcsFaultToleranceOptions"] = {"redisAddress": "r:1", "redisPassword": {"value": "x"}}
    inner["autoscalerOptions"] = {"version": "v2", "resources": {"limits": {"cpu": 1}}, "env": []}
    head = inner["headGroupSpec"]
    head["rayStartParams"]["resources"] = '"{\\"a\\": 1}"'
    head["rayStartParams"]["object-store-memory"] = "1000"
    pod = head["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    return ray_job


def changes(value: Any) -> Iterator[Any]:
    """The same with one value in turn replaced by each of OTHERS."""
    yield from OTHERS
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        for other in changes(value[key]):
            variant = copy.copy(value)
            variant[key] = other
            yield variant


@pytest.mark.parametrize(
    ("odd", "beside"),
    [
        (rich(), queues()),
        (wrapper(cluster(), "main"), queues()),
        (queues()[1], [cluster("main")]),
    ],
    ids=["job", "wrapper", "queue"],
)
def test_whatever_stands_in_a_manifest_is_a_finding_at_most(odd: Object, beside: list[Object]) -> None:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    texts = [("beside.yaml", yaml.dump_all(beside, Dumper=dumper))]
    for variant in changes(odd):
        lint([("odd.yaml", yaml.dump(variant, Dumper=dumper)), *texts])
