#!/usr/bin/env python3
"""Tiny random GPT-2 models made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged.

Usage: transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json

from port import (causal_example, check_continuation, check_forward, check_same, check_scores, difference, fine_tune_causal, mstrain,
                  raw_tensors, run, write_byte_tokenizer)
import torch
from safetensors.torch import save_file, save_model
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(vocab_size=257, n_positions=16, n_embd=24, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
             attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
MODELS = {
    "plain": {},
    "inner": {"n_inner": 40, "layer_norm_epsilon": 1e-3},
    "untied": {"tie_word_embeddings": False},
    "by_layer": {"scale_attn_by_inverse_layer_idx": True},
    "unscaled": {"scale_attn_weights": False},
    "reordered": {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True},
    "gelu": {"activation_function": "gelu"},
    "pytorch_tanh": {"activation_function": "gelu_pytorch_tanh"},
    "relu": {"activation_function": "relu"},
    "silu": {"activation_function": "silu"},
    "tanh": {"activation_function": "tanh"},
}


def make_model(seed=0, **options):
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(**{**SIZES, **options})).eval()
    with torch.no_grad():  # as they come, biases are zero and scores almost equal
        for name, p in model.named_parameters():
            p.normal_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0, 0.25)
    return model


def check_options(folder):
    for name, options in MODELS.items():
        make_model(**options).save_pretrained(folder / name)
        check_forward(GPT2LMHeadModel, folder, name, causal_example())
    for side in ("right", "left"):
        check_forward(GPT2LMHeadModel, folder, "plain", causal_example(side))
    batch = causal_example()
    batch["position_ids"] = torch.arange(11).flip(0).repeat(3, 1)
    check_forward(GPT2LMHeadModel, folder, "plain", batch)


def check_forms(folder):
    """The same weights in other files."""
    model = make_model()
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model().to(dtype).save_pretrained(folder / name)
        check_forward(GPT2LMHeadModel, folder, name, causal_example(), dtype=dtype)
    model.save_pretrained(folder / "sharded", max_shard_size="20KB")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 2
    check_forward(GPT2LMHeadModel, folder, "sharded", causal_example())

    bare = {name.removeprefix("transformer."): p.contiguous() for name, p in model.state_dict().items()
            if name != "lm_head.weight"}
    for layer in range(SIZES["n_layer"]):
        bare[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()
        bare[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    (folder / "bare").mkdir()
    save_file(bare, folder / "bare/model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "plain/config.json").read_text())
    (folder / "bare/config.json").write_text(json.dumps(config))
    check_forward(GPT2LMHeadModel, folder, "bare", causal_example(), keys=lambda name: name.removeprefix("transformer."))


def check_export(folder):
    """What came in goes out byte for byte, and opens where it came from."""
    for name in ("plain", "untied", "float16", "bfloat16", "sharded", "bare"):
        mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
        given = {key if key.startswith(("transformer.", "lm_head.")) else f"transformer.{key}": value
                 for key, value in raw_tensors(folder / name).items() if not key.endswith((".attn.bias", ".masked_bias"))}
        assert raw_tensors(folder / f"{name}_out") == given, name
        a, b = check_same(GPT2LMHeadModel, folder, "plain" if name == "bare" else name, f"{name}_out")
        assert a.config.eos_token_id == b.config.eos_token_id, name


def check_fine_tuning(folder):
    for start in ("plain", "untied", "by_layer", "bare"):
        losses, expected, checkpoint, trained = fine_tune_causal(GPT2LMHeadModel, folder, start)
        for loss, wanted in zip(losses, expected):
            assert abs(loss - wanted) <= 1e-4, (start, losses, expected)
        saved = GPT2LMHeadModel.from_pretrained(checkpoint)
        assert saved.config.eos_token_id == SIZES["eos_token_id"]
        for (name, p), q in zip(trained.named_parameters(), saved.parameters()):
            if name.endswith("c_attn.bias"):  # nothing depends on that of the keys: AdamW walks after rounding there
                p, q = p.reshape(3, -1)[::2], q.reshape(3, -1)[::2]
            assert difference(p, q) <= 2e-4, (start, name, difference(p, q))
        check_forward(GPT2LMHeadModel, folder, checkpoint, causal_example())
        mstrain("export", "--checkpoint", f"run_{start}", "--output", f"tuned_{start}", folder=folder)
        assert raw_tensors(folder / f"tuned_{start}") == raw_tensors(checkpoint), start


def check_generation(folder):
    for name in ("plain", "untied", "by_layer", "gelu"):
        write_byte_tokenizer(folder / name)
        model = GPT2LMHeadModel.from_pretrained(folder / name).eval()
        for prompt in (b"a", b"the c", b"0123456789ab"):
            check_continuation(model, folder, name, prompt, SIZES["eos_token_id"], SIZES["n_positions"])


def check_head_alone(folder):
    """safetensors' save_model() keeps one of the two names of a tied weight."""
    (folder / "head").mkdir()
    save_model(make_model(), str(folder / "head/model.safetensors"))
    (folder / "head/config.json").write_text((folder / "plain/config.json").read_text())
    names = set(raw_tensors(folder / "head"))
    assert len(names & {"lm_head.weight", "transformer.wte.weight"}) == 1, names
    save_file(causal_example(), folder / "in.safetensors")
    for name in ("plain", "head"):
        mstrain("forward", "--model", name, "--input", "in.safetensors", "--output", f"{name}.safetensors", folder=folder)
    assert (folder / "plain.safetensors").read_bytes() == (folder / "head.safetensors").read_bytes()


def check_heads_of_scores(folder):
    for name in ("plain", "untied", "by_layer"):
        check_scores(folder, name)


if __name__ == "__main__":
    run(check_options, check_heads_of_scores, check_forms, check_head_alone, check_export, check_generation, check_fine_tuning)
