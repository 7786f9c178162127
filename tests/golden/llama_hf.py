"""Writes llama_hf.json: losses, logits, gradients and likeliest continuations of tiny models of the Llama family, by Hugging
Face's implementation in double precision (angles of rotary positions in f32, as it makes them).

Usage: python tests/golden/llama_hf.py   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import json

import torch
from hf_cases import gradients, set_weights, write
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=11, hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3,
             max_position_embeddings=16, bos_token_id=None, eos_token_id=None)
BATCH, LENGTH, WRITTEN = 2, 6, 4
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8, rope_theta=10.0)
# config.json beside SIZES. "old": as releases 4.x of transformers write it; the others are written by this one.
CASES = {
    "old: one key head": dict(model_type="llama", num_key_value_heads=1, rope_theta=100.0, rope_scaling=None, head_dim=None),
    "biases, tied, heads of 6": dict(model_type="llama", head_dim=6, attention_bias=True, mlp_bias=True,
                                     tie_word_embeddings=True, hidden_act="gelu", rms_norm_eps=1e-2),
    "old: linear": dict(model_type="llama", rope_scaling={"type": "linear", "factor": 2.5}, num_key_value_heads=None),
    "old: dynamic": dict(model_type="llama", max_position_embeddings=4, rope_scaling={"type": "dynamic", "factor": 2.0}),
    "llama3": dict(model_type="llama", rope_parameters=LLAMA3, head_dim=12, num_key_value_heads=3),
    "yarn": dict(model_type="llama", head_dim=16,
                 rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=1e4)),
    "old: yarn": dict(model_type="llama", head_dim=16, rope_theta=100.0, max_position_embeddings=32,
                      rope_scaling=dict(type="yarn", factor=2.0, original_max_position_embeddings=16, beta_fast=2.0,
                                        beta_slow=0.5, mscale=0.7, mscale_all_dim=0.3, truncate=False)),
    "mistral": dict(model_type="mistral", sliding_window=3, num_key_value_heads=1),
    "old: mistral, wide window": dict(model_type="mistral", sliding_window=16, num_key_value_heads=3, head_dim=8),
    "qwen2": dict(model_type="qwen2", num_key_value_heads=1, tie_word_embeddings=True),
    "qwen2, window": dict(model_type="qwen2", num_key_value_heads=3, use_sliding_window=True, sliding_window=2,
                          max_window_layers=1),
    "qwen3": dict(model_type="qwen3", num_key_value_heads=1, head_dim=6, tie_word_embeddings=True),
    "qwen3, window": dict(model_type="qwen3", num_key_value_heads=3, head_dim=4, attention_bias=True, use_sliding_window=True,
                          sliding_window=2, max_window_layers=1),
}


def make(config):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    set_weights(sorted(model.named_parameters()))
    return model


def config_of(name, options):
    given = {**SIZES, **options}
    config = AutoConfig.for_model(**json.loads(json.dumps(given)))
    return config, given if name.startswith("old: ") else config.to_diff_dict()


cases = []
for case, options in CASES.items():
    config, given = config_of(case, options)
    model = make(config)
    tokens = torch.tensor([[(7 * b + 3 * t + b * t) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    targets = torch.tensor([[(5 * b + 4 * t + 1) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    targets[0, 2] = -100
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    prompt = tokens[1:, :5]  # written: the likeliest tokens after it
    written = make(config_of(case, options)[0]).generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                                                         max_new_tokens=WRITTEN, pad_token_id=0)[0, 5:].tolist()
    assert len(written) == WRITTEN
    cases.append({"name": case, "config": given, "loss": loss.item(), "logits": logits[1, -1].tolist(), "written": written,
                  "gradients": gradients(sorted(model.named_parameters()))})
write(__file__, cases=cases)
