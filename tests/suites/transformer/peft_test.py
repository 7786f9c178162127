#!/usr/bin/env python3
"""Adapters (LoRA) mean the same to mstrain and to Hugging Face's `peft`: those that peft made compute and train alike here, those
of a run open there, and merged weights are those of merge_and_unload.

Usage: peft_test.py MSTRAIN. Skipped where no Python has torch, transformers and peft (tests/interpreter.py)."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import interpreter  # noqa: E402

interpreter.need("torch", "transformers>=5", "peft", "safetensors.torch")
import peft  # noqa: E402
import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from golden.adamw import adamw_steps  # noqa: E402
from port import MSTRAIN, STEPS, difference, mstrain  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,  # noqa: E402
                          Qwen2Config, Qwen2ForCausalLM, T5Config, T5ForConditionalGeneration, ViTConfig,
                          ViTForImageClassification)

LLAMA = dict(vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32, eos_token_id=2)
BASES = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=32, n_embd=24, n_layer=2, n_head=4,
                                               resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, eos_token_id=2)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**LLAMA, tie_word_embeddings=True)),
    "t5": lambda: T5ForConditionalGeneration(T5Config(vocab_size=257, d_model=24, d_kv=6, d_ff=40, num_layers=2,
                                                      num_heads=4, dropout_rate=0.0, feed_forward_proj="gated-gelu",
                                                      decoder_start_token_id=0)),
    "vit": lambda: ViTForImageClassification(ViTConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                                                       intermediate_size=40, image_size=8, patch_size=4, num_channels=1,
                                                       num_labels=5)),
}
# name: (base, settings)
ADAPTERS = {
    "gpt2_all": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "gpt2_mlp": ("gpt2", dict(r=3, lora_alpha=5, target_modules=["mlp.c_proj"], fan_in_fan_out=True)),
    "llama_qv": ("llama", dict(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])),
    "llama_all": ("llama", dict(r=5, lora_alpha=16, target_modules="all-linear")),
    "llama_rs": ("llama", dict(r=7, lora_alpha=6, target_modules=["o_proj", "down_proj"], use_rslora=True)),
    "llama_regex": ("llama", dict(r=2, lora_alpha=6, target_modules=r".*layers\.1\.(self_attn\.[qk]_proj|mlp\.(up|down)_proj)")),
    "qwen2_qkv": ("qwen2", dict(r=1, lora_alpha=1, target_modules=["q_proj", "k_proj", "v_proj"])),
    "t5_some": ("t5", dict(r=4, lora_alpha=8, target_modules=["q", "v", "wo", "wi_0"])),
    # Since transformers 5 the modules of a ViT have other names than its weight files.
    "vit_qv": ("vit", dict(r=3, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "vit_mlp": ("vit", dict(r=2, lora_alpha=8, target_modules=["mlp.fc2", "attention.o_proj"])),
    "vit_regex": ("vit", dict(r=2, lora_alpha=6, target_modules=r".*layers\.1\.(attention\.k_proj|mlp\.fc1)")),
    "vit_all": ("vit", dict(r=2, lora_alpha=6, target_modules="all-linear", modules_to_save=["classifier"])),
    "llama_norms": ("llama", dict(r=2, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["norm"])),
    "llama_head": ("llama", dict(r=2, lora_alpha=8, target_modules=["up_proj"], modules_to_save=["lm_head"])),
}
REFUSED = {"use_dora": True, "bias": "all", "rank_pattern": {"q_proj": 3}, "alpha_pattern": {"q_proj": 3},
           "layers_to_transform": [1], "exclude_modules": ["q_proj"], "lora_bias": True, "init_lora_weights": "pissa",
           "peft_type": "IA3", "r": 0, "lora_dropout": 1.5, "target_modules": ["q_prj"], "modules_to_save": ["head"],
           "layer_replication": [[0, 1]], "something_new": 3}


def write_bases(folder):
    for seed, (name, make) in enumerate(BASES.items()):
        torch.manual_seed(seed)
        model = make().eval()
        with torch.no_grad():
            for key, p in model.named_parameters():
                p.normal_(1.0 if "norm" in key and key.endswith("weight") or ".ln_" in key and key.endswith("weight") else 0.0,
                          0.2)
        model.save_pretrained(folder / name)


def open_base(folder, name):
    return type(BASES[name]()).from_pretrained(folder / name, dtype=torch.float32)


def examples(base):
    generator = torch.Generator().manual_seed(3)
    if base == "vit":
        return {"pixel_values": torch.randn(3, 1, 8, 8, generator=generator), "labels": torch.tensor([4, 0, 2])}
    ids = torch.randint(0, 257, (3, 11), generator=generator)
    labels = ids.clone()
    labels[1, 3:6] = -100
    return {"input_ids": ids, "labels": labels}


def make_adapter(folder, name):
    base, settings = ADAPTERS[name]
    torch.manual_seed(7)
    model = get_peft_model(open_base(folder, base), LoraConfig(**settings)).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key or "modules_to_save" in key:
                p.normal_(0, 0.1)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(folder / name)
    return model


def check_forward(folder, name, model, batch, stored=str):
    """logits, loss and the gradients of what is trained, under its names in the file."""
    save_file(batch, folder / "in.safetensors")
    mstrain("forward", "--model", name, "--input", "in.safetensors", "--output", "out.safetensors", "--grads", folder=folder)
    out = load_file(folder / "out.safetensors")
    model.zero_grad()
    result = model(**batch)
    result.loss.backward()
    assert difference(out["logits"], result.logits) <= 1e-4, (name, difference(out["logits"], result.logits))
    assert abs(out["loss"].item() - result.loss.item()) <= 1e-5 * max(1, result.loss.item()), name
    wanted = {stored(key.replace(".default", "").replace(".modules_to_save", "")): p.grad
              for key, p in model.named_parameters() if p.requires_grad}
    assert {f"grad.{key}" for key in wanted} == set(out) - {"logits", "loss"}, (sorted(wanted), sorted(out))
    for key, grad in wanted.items():
        assert out[f"grad.{key}"].shape == grad.shape, (name, key)
        limit = max(1e-4 * grad.abs().max().item(), 1e-7)
        assert difference(out[f"grad.{key}"], grad) <= limit, (name, key, difference(out[f"grad.{key}"], grad), limit)


OLDER = {"attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key",
         "attention.v_proj": "attention.attention.value", "attention.o_proj": "attention.output.dense",
         "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense", "vit.layers.": "vit.encoder.layer."}


def older_name(name):
    for newer, older in OLDER.items():
        name = name.replace(newer, older)
    return name


def check_adapters(folder):
    for name, (base, _) in ADAPTERS.items():
        batch = examples(base)
        model = make_adapter(folder, name)
        check_forward(folder, name, model, batch)
        mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
        if base != "vit":  # its layers go out under the names of transformers 4
            again = PeftModel.from_pretrained(open_base(folder, base), folder / f"{name}_out").eval()
            assert torch.equal(again(**batch).logits, model(**batch).logits), name
        else:
            stored = load_file(folder / f"{name}_out/adapter_model.safetensors")
            own = load_file(folder / f"{name}/adapter_model.safetensors")
            assert {older_name(key) for key in own} == set(stored), (sorted(own), sorted(stored))
            assert all(torch.equal(stored[older_name(key)], x) for key, x in own.items()), name
        mstrain("export", "--checkpoint", name, "--output", f"{name}_merged", "--merge", folder=folder)
        merged = type(BASES[base]()).from_pretrained(folder / f"{name}_merged").eval()
        with torch.no_grad():
            expected = model.merge_and_unload()
        weights = dict(expected.named_parameters())
        for key, p in merged.named_parameters():
            assert difference(p, weights[key]) <= 1e-6, (name, key, difference(p, weights[key]))
        assert merged.dtype == torch.float32


def check_merged_in_16_bits(folder):
    model = open_base(folder, "llama").to(torch.bfloat16)
    model.save_pretrained(folder / "llama16")
    make_adapter(folder, "llama_all")
    config = json.loads((folder / "llama_all/adapter_config.json").read_text())
    (folder / "llama_all/adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "llama16"}))
    mstrain("export", "--checkpoint", "llama_all", "--output", "llama16_merged", "--merge", folder=folder)
    merged = LlamaForCausalLM.from_pretrained(folder / "llama16_merged", dtype="auto")
    assert merged.dtype == torch.bfloat16
    expected = dict(PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(folder / "llama16", dtype=torch.float32),
                                              folder / "llama_all")
                    .merge_and_unload().named_parameters())
    for key, p in merged.named_parameters():
        assert torch.equal(p, expected[key].to(torch.bfloat16)), key


def check_older_names(folder):
    """An adapter that PEFT wrote with transformers 4 names the modules as weight files do."""
    model = make_adapter(folder, "vit_all")
    path = folder / "vit_all"
    config = json.loads((path / "adapter_config.json").read_text())
    config["target_modules"] = [older_name(name) for name in config["target_modules"]]
    (path / "adapter_config.json").write_text(json.dumps(config))
    weights = load_file(path / "adapter_model.safetensors")
    save_file({older_name(name): x for name, x in weights.items()}, path / "adapter_model.safetensors")
    check_forward(folder, "vit_all", model, examples("vit"), older_name)


def check_refusals(folder):
    """What is not supported and would change the answer is refused by name."""
    make_adapter(folder, "llama_qv")
    path = folder / "llama_qv/adapter_config.json"
    config = json.loads(path.read_text())
    for key, value in REFUSED.items():
        path.write_text(json.dumps({**config, key: value}))
        done = subprocess.run([MSTRAIN, "export", "--checkpoint", "llama_qv", "--output", "nowhere"], cwd=folder,
                              capture_output=True, text=True)
        said = key if key not in ("target_modules", "modules_to_save") else value[0]
        assert done.returncode == 1 and said in done.stderr and "adapter_config.json" in done.stderr, (key, done)
    path.write_text(json.dumps(config))


def train_with_peft(model, text):
    ids = torch.tensor(list(text))
    tokens, targets = ids[:-1].reshape(4, 8), ids[1:].reshape(4, 8)
    return adamw_steps(model, lambda m: torch.nn.functional.cross_entropy(m(input_ids=tokens).logits.flatten(0, 1),
                                                                          targets.flatten()), steps=STEPS)


def check_training(folder):
    """Five steps that begin with an adapter of peft's, and what they lead to, opened there."""
    text = b"the cat sat on the mat, and so on"
    (folder / "text.txt").write_bytes(text)
    for start in ("gpt2_all", "llama_all", "llama_rs", "qwen2_qkv"):
        base = ADAPTERS[start][0]
        model = make_adapter(folder, start)
        for p in (p for key, p in model.named_parameters() if "lora_" in key):
            p.requires_grad_(True)
        (folder / "run.yaml").write_text(f"""
run: {{output_dir: run_{start}, threads: 1}}
model: {{init: {{from: {start}}}}}
data: {{train: text.txt, split: 1.0, tokenizer: {{type: byte}}, seq_length: 8, shuffle: false}}
batch: {{global: 4}}
optimizer: {{type: adamw, lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: {STEPS}}}
log: {{interval: 1}}
""")
        mstrain("--config", "run.yaml", folder=folder)
        rows = [json.loads(line) for line in (folder / f"run_{start}/metrics.jsonl").read_text().splitlines()]
        losses = train_with_peft(model, text)
        assert len(rows) == STEPS
        for row, loss in zip(rows, losses):
            assert abs(row["loss"] - loss) <= 2e-5 * loss, (start, row, loss)
        checkpoint = folder / f"run_{start}/checkpoints/step-{STEPS:08}"
        assert not (checkpoint / "model.safetensors").exists()
        saved = PeftModel.from_pretrained(open_base(folder, base), checkpoint)
        trained = dict(model.named_parameters())
        for key, p in saved.named_parameters():
            if "lora_" in key:
                assert difference(p, trained[key]) <= 2e-4, (start, key, difference(p, trained[key]))
        batch = examples(base)
        check_forward(folder, checkpoint, PeftModel.from_pretrained(open_base(folder, base), checkpoint, is_trainable=True)
                      .eval(), batch)


def check_tied(folder):
    """A weight that is used twice is two in PEFT, and one name may be the end of another: what is trained whole here is the same there."""
    for base, module in (("gpt2", "wte"), ("llama", "norm")):
        run = f"whole_{module}"
        (folder / "run.yaml").write_text(f"""
run: {{output_dir: {run}, threads: 1}}
model: {{init: {{from: {base}}}, lora: {{rank: 2, modules_to_save: [{module}]}}}}
data: {{train: text.txt, split: 1.0, tokenizer: {{type: byte}}, seq_length: 8}}
batch: {{global: 4}}
optimizer: {{lr: 1.0e-1}}
schedule: {{type: constant, total_steps: 3}}
""")
        mstrain("--config", "run.yaml", folder=folder)
        mstrain("export", "--checkpoint", run, "--output", f"{run}_out", folder=folder)
        batch = examples(base)
        save_file(batch, folder / "in.safetensors")
        for there in (folder / f"{run}/checkpoints/step-00000003", folder / f"{run}_out"):
            mstrain("forward", "--model", there, "--input", "in.safetensors", "--output", "out.safetensors", folder=folder)
            model = PeftModel.from_pretrained(open_base(folder, base), there).eval()
            ours = load_file(folder / "out.safetensors")["logits"]
            assert difference(ours, model(**batch).logits) <= 1e-4, (there, difference(ours, model(**batch).logits))
    weights = load_file(there.parent / "whole_wte_out/adapter_model.safetensors")
    del weights["base_model.model.lm_head.weight"]
    save_file(weights, folder / "whole_wte_out/adapter_model.safetensors")
    done = subprocess.run([MSTRAIN, "export", "--checkpoint", "whole_wte_out", "--output", "nowhere"], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "lm_head" in done.stderr and "modules_to_save" in done.stderr, done


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_bases(folder)
        check_adapters(folder)
        check_older_names(folder)
        check_merged_in_16_bits(folder)
        check_refusals(folder)
        check_training(folder)
        check_tied(folder)
    print(f"peft {peft.__version__} and mstrain agree on {len(ADAPTERS)} adapters and {STEPS} steps")


if __name__ == "__main__":
    main()
