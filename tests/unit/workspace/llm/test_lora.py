"""The recipe `llm`: LoRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

TOKENS = torch.tensor([[5, 80, 13, 200, 7, 9]])


@pytest.fixture
def decoder(llm: Any) -> Any:
    torch.manual_seed(3)
    config = llm.model.ModelConfig(width=32, layers=2, inner=48, heads=4, kv_heads=2, context=24)
    return llm.model.Decoder(config).eval()


def adapted(llm: Any, decoder: Any, *targets: str) -> Any:
    """The model with LoRAs that have learned something."""
    llm.lora.adapt(decoder, rank=4, alpha=8, targets=targets or llm.lora.TARGETS)
    for name, parameter in decoder.named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(parameter, std=0.1)
    return decoder


def test_a_new_lora_changes_nothing(llm: Any, decoder: Any) -> None:
    before = decoder(TOKENS)
    assert torch.equal(llm.lora.adapt(decoder, rank=4, alpha=8)(TOKENS), before)


@pytest.mark.parametrize("targets", [(), ("gate", "down", "output", "key")])
def test_merged_it_gives_the_same_logits(llm: Any, decoder: Any, targets: tuple[str, ...]) -> None:
    before = decoder(TOKENS)
    model = adapted(llm, decoder, *targets)
    unmerged = model(TOKENS)
    assert not torch.allclose(unmerged, before, atol=1e-3)
    torch.testing.assert_close(llm.lora.merge(model)(TOKENS), unmerged, atol=1e-5, rtol=1e-5)
    assert {type(module).__name__ for module in model.modules()}.isdisjoint({"LoRA"})


def test_only_its_matrices_are_trained_and_they_are_as_many_as_it_says(llm: Any, decoder: Any) -> None:
    model = adapted(llm, decoder)
    frozen = {name: p.clone() for name, p in model.named_parameters() if not p.requires_grad}
    trained = [p for p in model.parameters() if p.requires_grad]
    # rank * (in + out) of query (32 to 32) and value (32 to 16), in each of two layers
    assert llm.lora.trainable(model) == sum(p.numel() for p in trained) == 2 * 4 * (64 + 48)

    optimizer = torch.optim.SGD(trained, lr=0.1)
    llm.model.next_byte_loss(model(TOKENS), TOKENS).backward()
    optimizer.step()

    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in trained)
    assert all(torch.equal(dict(model.named_parameters())[name], p) for name, p in frozen.items())


def test_the_usual_case_trains_less_than_a_hundredth(llm: Any) -> None:
    config = llm.model.SIZES["5m"]
    model = llm.lora.adapt(llm.model.Decoder(config), rank=8, alpha=16)
    assert llm.lora.trainable(model) == 43_008


def test_a_target_that_is_not_there_is_refused(llm: Any, decoder: Any) -> None:
    with pytest.raises(ValueError, match="q_proj or v_proj"):
        llm.lora.adapt(decoder, 4, 8, ("q_proj", "v_proj"))


def test_a_checkpoint_of_lora_is_loaded_merged_or_to_be_trained_further(
    llm: Any, decoder: Any, tmp_path: Path
) -> None:
    model = adapted(llm, decoder)
    settings = {"rank": 4, "alpha": 8, "targets": ["query", "value"]}
    llm.checkpoint.write(decoder.config, model.state_dict(), {"lora": settings}, tmp_path)

    further = llm.model.load_model(tmp_path, merged=False)
    assert torch.equal(further(TOKENS), model(TOKENS))
    assert llm.lora.trainable(further) == llm.lora.trainable(model)
    merged = llm.model.load_model(tmp_path)
    torch.testing.assert_close(merged(TOKENS), model(TOKENS), atol=1e-5, rtol=1e-5)
    assert merged.state_dict().keys() == llm.model.Decoder(decoder.config).state_dict().keys()
