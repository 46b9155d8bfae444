"""The recipe `llm`: its model in the form of Hugging Face's Llama."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional


def llama(weights: dict[str, torch.Tensor], config: dict[str, Any], tokens: torch.Tensor) -> torch.Tensor:
    """Logits of a Llama by its published form, from the files alone: a fake server that loads them."""
    heads, kv, head = (config[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    length = len(tokens)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weights[name]

    angles = torch.outer(
        torch.arange(length).float(), config["rope_theta"] ** -(torch.arange(0, head, 2) / head)
    )
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()

    def rope(x: torch.Tensor) -> torch.Tensor:
        half = torch.cat([-x[..., head // 2 :], x[..., : head // 2]], -1)
        return x * cos + half * sin

    x = weights["model.embed_tokens.weight"][tokens]
    for number in range(config["num_hidden_layers"]):
        at = f"model.layers.{number}"
        y = norm(x, f"{at}.input_layernorm.weight")
        q, k, v = (
            (y @ weights[f"{at}.self_attn.{n}_proj.weight"].T).view(length, count, head).transpose(0, 1)
            for n, count in (("q", heads), ("k", kv), ("v", kv))
        )
        k, v = (t.repeat_interleave(heads // kv, 0) for t in (rope(k), v))
        scores = rope(q) @ k.transpose(1, 2) / head**0.5
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        seen = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        x = x + seen @ weights[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm.weight")
        gate = functional.silu(y @ weights[f"{at}.mlp.gate_proj.weight"].T)
        x = x + (gate * (y @ weights[f"{at}.mlp.up_proj.weight"].T)) @ weights[f"{at}.mlp.down_proj.weight"].T
    x = norm(x, "model.norm.weight")
    head_name = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return x @ weights[head_name].T


@pytest.mark.parametrize("tied", [True, False])
def test_the_exported_model_computes_the_same_as_a_llama(llm: Any, tmp_path: Path, tied: bool) -> None:
    torch.manual_seed(2)
    config = llm.model.ModelConfig(width=32, layers=2, inner=48, heads=4, kv_heads=2, context=24, tied=tied)
    model = llm.model.Decoder(config).eval()
    llm.vllm_server.export(model, tmp_path)
    weights = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
    tokens = torch.randint(1, 256, (12,))
    computed = llama(weights, json.loads((tmp_path / "config.json").read_text()), tokens)
    with torch.no_grad():
        torch.testing.assert_close(computed, model(tokens[None])[0], atol=1e-5, rtol=1e-4)


def test_the_command_of_vllm_has_no_token_and_no_tokenizer(llm: Any) -> None:
    argv = llm.vllm_server.command(Path("/m"), 256, 16, "127.0.0.1", 8000)
    assert argv[:3] == ["vllm", "serve", "/m"]
    assert "--skip-tokenizer-init" in argv
    assert "--api-key" not in argv
    assert argv[argv.index("--host") + 1] == "127.0.0.1"
