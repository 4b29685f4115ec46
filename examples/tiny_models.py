"""Models of a few thousand parameters, made from configurations with random weights: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, GptOssConfig, JambaConfig, LlamaConfig
from transformers.utils import logging

VOCABULARY = 96
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}


def dense() -> Any:
    """Full attention in every layer, as in Llama."""
    return _made(LlamaConfig(intermediate_size=48, num_hidden_layers=2, **COMMON))


def alternating() -> Any:
    """A sliding window of eight tokens in every other layer, as in gpt-oss."""
    kinds = ["sliding_attention", "full_attention"]
    sizes: dict[str, Any] = {"intermediate_size": 32, "head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1}
    return _made(GptOssConfig(num_hidden_layers=4, sliding_window=8, layer_types=2 * kinds, **sizes, **COMMON))


def hybrid() -> Any:
    """Mamba in every other layer, as in Jamba."""
    experts: dict[str, Any] = {"num_experts": 2, "num_experts_per_tok": 1}
    places: dict[str, Any] = {"expert_layer_period": 2, "expert_layer_offset": 1}
    mamba: dict[str, Any] = {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4}
    return _made(JambaConfig(intermediate_size=48, num_hidden_layers=4, **experts, **places, **mamba, **COMMON))


def _made(config: Any) -> Any:
    # Untyped in transformers.
    quiet: Any = logging.set_verbosity_error
    make: Any = AutoModelForCausalLM.from_config
    quiet()
    torch.manual_seed(0)
    return make(config).eval()


MODELS = {"dense": dense, "alternating": alternating, "hybrid": hybrid}
