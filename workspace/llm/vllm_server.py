"""vLLM behind the same client: the model in the form of Hugging Face's Llama, and `vllm serve` over it.

    python vllm_server.py --from my-run --folder /tmp/model
    python measure.py --url http://127.0.0.1:8000

It needs a GPU and vLLM (requirements/vllm.in), which no lab has by itself. There is no tokenizer: the
client sends and takes tokens. Our weights have the very layout of Llama's; only their names differ.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from model import END, VOCABULARY, Decoder, ModelConfig, load_model
from torch import Tensor

NAMES = (
    ("embedding.", "model.embed_tokens."),
    ("blocks.", "model.layers."),
    ("attention_norm.", "input_layernorm."),
    ("feed_norm.", "post_attention_layernorm."),
    ("attention.query.", "self_attn.q_proj."),
    ("attention.key.", "self_attn.k_proj."),
    ("attention.value.", "self_attn.v_proj."),
    ("attention.output.", "self_attn.o_proj."),
    ("feed.gate.", "mlp.gate_proj."),
    ("feed.up.", "mlp.up_proj."),
    ("feed.down.", "mlp.down_proj."),
)
"""Part of a name -> the same in Hugging Face's Llama."""


def renamed(name: str) -> str:
    """A weight's name as Hugging Face's Llama has it."""
    if name == "norm.weight":
        return "model.norm.weight"
    if name == "output.weight":
        return "lm_head.weight"
    for ours, theirs in NAMES:
        name = name.replace(ours, theirs)
    return name


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
    weights: Mapping[str, Tensor] = {renamed(n): w.contiguous() for n, w in model.state_dict().items()}
    (folder / "config.json").write_text(json.dumps(config(model.config), indent=1) + "\n")
    torch.save(dict(weights), folder / "pytorch_model.bin")


def command(folder: Path, name: str, context: int, slots: int, host: str, port: int) -> list[str]:
    """The command that serves it. The token is in the environment, as VLLM_API_KEY, not in a command line."""
    return [
        "vllm", "serve", str(folder), "--served-model-name", name, "--load-format", "pt",
        "--skip-tokenizer-init", "--max-model-len", str(context), "--max-num-seqs", str(slots),
        "--dtype", "bfloat16", "--host", host, "--port", str(port),
    ]  # fmt: skip


def main() -> None:
    from endpoint import bearer_token
    from ray.train import Checkpoint
    from train import newest_of

    parser = argparse.ArgumentParser(description="Serve a model of the recipe llm with vLLM.")
    parser.add_argument("--from", required=True, help="checkpoint (URI), or run, of the model")
    parser.add_argument("--storage", default=os.environ.get("RAYLAB_STORAGE", "s3://ray"))
    parser.add_argument("--folder", type=Path, required=True, help="folder for the exported model")
    parser.add_argument("--model", default="llm")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    with Checkpoint(newest_of(vars(args)["from"], args.storage)).as_directory() as folder:
        model = load_model(Path(folder))
    export(model, args.folder)
    argv = command(args.folder, args.model, model.config.context, args.slots, args.host, args.port)
    os.execvpe(argv[0], argv, {**os.environ, "VLLM_API_KEY": bearer_token()})


if __name__ == "__main__":
    main()
