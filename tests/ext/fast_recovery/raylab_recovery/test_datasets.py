"""An attempt of a trainer without data sets: Ray's own provider of shards, without its actor."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from raylab_recovery.datasets import spare


@pytest.fixture
def provider_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ray's class, which starts no actor here but notes that it would."""
    from ray.train.v2._internal.callbacks.datasets import RayDatasetShardProvider

    def begin(self: Any, datasets: Any, data_config: Any) -> None:
        self._dataset_names, self._cached_dataset_shards = set(datasets), {}
        self._dataset_manager = "an actor"

    monkeypatch.setattr(RayDatasetShardProvider, "__init__", begin)
    spare(RayDatasetShardProvider)
    spare(RayDatasetShardProvider)
    return RayDatasetShardProvider


def test_without_data_sets_there_is_no_actor_and_no_shard(provider_class: Any) -> None:
    provider = pickle.loads(pickle.dumps(provider_class(datasets={}, data_config=None)))
    assert provider._dataset_manager != "an actor"
    with pytest.raises(KeyError, match="'train' not found"):
        provider.get_dataset_shard(SimpleNamespace(dataset_name="train"))
    provider.shutdown_data_executors()


def test_data_sets_have_their_actor(provider_class: Any) -> None:
    assert provider_class(datasets={"train": 1}, data_config=None)._dataset_manager == "an actor"


def test_ray_makes_its_provider_with_these_words() -> None:
    import inspect

    from ray.train.v2._internal.callbacks import datasets

    assert "RayDatasetShardProvider(\n            datasets=datasets," in inspect.getsource(
        datasets.DatasetsCallback.before_init_train_context
    )
