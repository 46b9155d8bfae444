"""vLLM behind the same client: the model in the form of Hugging Face's Llama, and `vllm serve` over it.

    python vllm_server.py --from my-run
    python batch.py --from my-run --url http://127.0.0.1:8000 --check 0

It needs a GPU and vLLM (requirements/vllm.in), which no lab has by itself. There is no tokenizer: the
client sends and takes tokens. Our weights have the very layout of Llama's; only their names differ.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from model import END, VOCABULARY, Decoder, ModelConfig, load_model
from ray.train import Checkpoint
from serve import arguments, bearer_token

NAMES = {
    "embedding.": "embed_tokens.", "blocks.": "layers.", "attention_norm.": "input_layernorm.",
    "feed_norm.": "post_attention_layernorm.", "attention.query.": "self_attn.q_proj.",
    "attention.key.": "self_attn.k_proj.", "attention.value.": "self_attn.v_proj.",
    "attention.output.": "self_attn.o_proj.", "feed.": "mlp.", "gate.": "gate_proj.", "up.": "up_proj.",
    "down.": "down_proj.",
}  # fmt: skip
"""Part of a name -> the same in Hugging Face's Llama, one after another."""


def renamed(name: str) -> str:
    """A weight's name as Hugging Face's Llama has it."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return "lm_head.weight" if name == "output.weight" else f"model.{name}"


def config(c: ModelConfig) -> dict[str, Any]:
    """Hugging Face's config.json of a model."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY,
        "hidden_size": c.width, "intermediate_size": c.inner, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head,
        "max_position_embeddings": c.context, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0,
        "hidden_act": "silu", "tie_word_embeddings": c.tied, "attention_bias": False, "mlp_bias": False,
        "bos_token_id": END, "eos_token_id": END, "torch_dtype": "float32",
    }  # fmt: skip


def export(model: Decoder, folder: Path) -> None:
    """Write a model in the form that vLLM and transformers read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(model.config), indent=1) + "\n")
    torch.save({renamed(n): w for n, w in model.state_dict().items()}, folder / "pytorch_model.bin")


def command(folder: Path, context: int, slots: int, host: str, port: int) -> list[str]:
    """The command that serves it. The token is in the environment, as VLLM_API_KEY, not in a command line."""
    return [
        "vllm", "serve", str(folder), "--served-model-name", "llm", "--load-format", "pt",
        "--skip-tokenizer-init", "--max-model-len", str(context), "--max-num-seqs", str(slots),
        "--dtype", "bfloat16", "--host", host, "--port", str(port),
    ]  # fmt: skip


def main() -> None:
    args, target = arguments("recipe-serve.json"), Path(tempfile.mkdtemp(prefix="llm-"))
    with Checkpoint(args.checkpoint).as_directory() as folder:
        model = load_model(Path(folder))
    export(model, target)
    argv = command(target, model.config.context, args.slots, args.host, args.port)
    os.execvpe(argv[0], argv, {**os.environ, "VLLM_API_KEY": bearer_token()})


if __name__ == "__main__":
    main()
