#!/usr/bin/env python3
"""Tiny random models of the Llama family made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged.

Usage: llama_transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json

import port
import torch
from port import causal_example, fine_tune_causal
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=32, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8, rope_theta=100.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, rope_theta=100.0)
MODELS = {
    "plain": dict(model_type="llama"),
    "one_key_head": dict(model_type="llama", num_key_value_heads=1),
    "odd_heads": dict(model_type="llama", num_attention_heads=3, num_key_value_heads=3, head_dim=10, hidden_act="gelu"),
    "biases": dict(model_type="llama", attention_bias=True, mlp_bias=True, num_key_value_heads=2, rms_norm_eps=1e-3),
    "tied": dict(model_type="llama", tie_word_embeddings=True),
    "linear": dict(model_type="llama", rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=100.0)),
    "dynamic": dict(model_type="llama", max_position_embeddings=8,
                    rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=100.0)),
    "llama3": dict(model_type="llama", rope_parameters=LLAMA3, num_key_value_heads=2),
    "yarn": dict(model_type="llama", head_dim=16, rope_parameters=YARN),
    "yarn_mscale": dict(model_type="llama", head_dim=16, rope_parameters={**YARN, "mscale": 0.7, "mscale_all_dim": 0.3,
                                                                          "truncate": False, "beta_fast": 4.0}),
    "mistral": dict(model_type="mistral", sliding_window=4, num_key_value_heads=2),
    "mistral_wide": dict(model_type="mistral", sliding_window=64, num_key_value_heads=1, head_dim=8),
    "mistral_open": dict(model_type="mistral", sliding_window=None, num_key_value_heads=4),
    "qwen2": dict(model_type="qwen2", num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2_window": dict(model_type="qwen2", num_key_value_heads=1, use_sliding_window=True, sliding_window=3,
                         max_window_layers=2),
    "qwen3": dict(model_type="qwen3", num_key_value_heads=2, head_dim=10, tie_word_embeddings=True),
    "qwen3_window": dict(model_type="qwen3", num_key_value_heads=1, head_dim=6, attention_bias=True, use_sliding_window=True,
                         sliding_window=3, max_window_layers=2),
}


def make_model(seed=0, **options):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(**json.loads(json.dumps({**SIZES, **options})))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # as they come, biases are zero and scores almost equal
        for name, p in model.named_parameters():
            p.normal_(1.0 if "norm" in name else 0.0, 0.25)
    return model


def check_forward(folder, directory, batch, **options):
    port.check_forward(AutoModelForCausalLM, folder, directory, batch, **options)


def check_options(folder):
    for name, options in MODELS.items():
        make_model(**options).save_pretrained(folder / name)
        check_forward(folder, name, causal_example())
    for name in ("one_key_head", "mistral"):
        check_forward(folder, name, causal_example("right"))
    batch = causal_example()
    batch["position_ids"] = (torch.arange(11) * 2).flip(0)[None]
    check_forward(folder, "llama3", batch)


def check_forms(folder):
    """The same weights in other files, and config.json as releases 4.x write it."""
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model(**MODELS["llama3"]).to(dtype).save_pretrained(folder / name)
        check_forward(folder, name, causal_example(), dtype=dtype)
    make_model(**MODELS["biases"]).save_pretrained(folder / "sharded", max_shard_size="20KB")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 2
    check_forward(folder, "sharded", causal_example())
    for name in ("llama3", "yarn", "linear", "plain"):
        old = folder / f"{name}_4x"
        make_model(**MODELS[name]).save_pretrained(old)
        config = json.loads((old / "config.json").read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
        (old / "config.json").write_text(json.dumps(config))
        check_forward(folder, old.name, causal_example())


def check_export(folder):
    for name in (*MODELS, "float16", "bfloat16", "sharded", "llama3_4x"):
        a, b = port.check_export(AutoModelForCausalLM, folder, name)
        assert a.config.eos_token_id == b.config.eos_token_id, name
        ids = causal_example()["input_ids"]
        assert torch.equal(a(ids).logits, b(ids).logits), name


def check_generation(folder):
    """The windows are shorter than the texts."""
    for name in MODELS:
        port.write_byte_tokenizer(folder / name)
        for prompt in (b"a", b"0123456789ab"):
            model = AutoModelForCausalLM.from_pretrained(folder / name).eval()  # dynamic angles remember what they saw
            port.check_continuation(model, folder, name, prompt, SIZES["eos_token_id"], 32)


def check_fine_tuning(folder):
    for start in ("one_key_head", "tied", "mistral", "qwen2", "qwen3"):
        losses, expected, checkpoint, trained = fine_tune_causal(AutoModelForCausalLM, folder, start, "type: llama, ")
        for loss, wanted in zip(losses, expected):
            assert abs(loss - wanted) <= 2e-5 * wanted, (start, losses, expected)
        saved = AutoModelForCausalLM.from_pretrained(checkpoint)
        assert type(saved) is type(trained) and saved.config.eos_token_id == SIZES["eos_token_id"]
        for (name, p), q in zip(trained.named_parameters(), saved.parameters()):
            if not name.endswith("k_proj.bias"):  # nothing depends on it: AdamW walks after rounding there
                assert port.difference(p, q) <= 2e-4, (start, name, port.difference(p, q))
        check_forward(folder, checkpoint, causal_example())


def check_scores(folder):
    for name in ("plain", "tied", "biases", "mistral", "qwen2", "qwen3"):
        port.check_scores(folder, name)


if __name__ == "__main__":
    port.run(check_options, check_scores, check_forms, check_export, check_generation, check_fine_tuning)
