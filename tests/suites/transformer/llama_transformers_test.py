#!/usr/bin/env python3
"""Tiny random models of the Llama family made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged.

Usage: llama_transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import interpreter  # noqa: E402

interpreter.need("torch", "transformers", "safetensors.torch")
import port  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

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
}
STEPS = 5


def make_model(seed=0, **options):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(**json.loads(json.dumps({**SIZES, **options})))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # as they come, biases are zero and scores almost equal
        for name, p in model.named_parameters():
            p.normal_(1.0 if "norm" in name else 0.0, 0.25)
    return model


def example(mask=None, length=11):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, SIZES["vocab_size"], (3, length), generator=generator)
    labels = ids.clone()
    labels[1, 3:6] = -100
    batch = {"input_ids": ids, "labels": labels}
    if mask:
        batch["attention_mask"] = torch.ones_like(ids)
        for row, hidden in enumerate((0, 3, 5)):
            batch["attention_mask"][row, slice(length - hidden, length) if mask == "right" else slice(hidden)] = 0
            labels[row][batch["attention_mask"][row] == 0] = -100
    return batch


def check_forward(folder, directory, batch, **options):
    port.check_forward(AutoModelForCausalLM, folder, directory, batch, **options)


def check_options(folder):
    for name, options in MODELS.items():
        make_model(**options).save_pretrained(folder / name)
        check_forward(folder, name, example())
    for name in ("one_key_head", "mistral"):
        check_forward(folder, name, example("right"))
    batch = example()
    batch["position_ids"] = (torch.arange(11) * 2).flip(0).repeat(3, 1)
    check_forward(folder, "llama3", batch)


def check_forms(folder):
    """The same weights in other files, and config.json as releases 4.x write it."""
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model(**MODELS["llama3"]).to(dtype).save_pretrained(folder / name)
        check_forward(folder, name, example(), dtype=dtype)
    make_model(**MODELS["biases"]).save_pretrained(folder / "sharded", max_shard_size="20KB")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 2
    check_forward(folder, "sharded", example())
    for name in ("llama3", "yarn", "linear", "plain"):
        old = folder / f"{name}_4x"
        make_model(**MODELS[name]).save_pretrained(old)
        config = json.loads((old / "config.json").read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
        (old / "config.json").write_text(json.dumps(config))
        check_forward(folder, old.name, example())


def check_export(folder):
    """What came in goes out byte for byte, and opens where it came from."""
    for name in (*MODELS, "float16", "bfloat16", "sharded", "llama3_4x"):
        port.mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
        assert port.raw_tensors(folder / f"{name}_out") == port.raw_tensors(folder / name), name
        a, b = (AutoModelForCausalLM.from_pretrained(folder / each) for each in (name, f"{name}_out"))
        assert type(a) is type(b) and a.dtype == b.dtype and a.config.eos_token_id == b.config.eos_token_id, name
        ids = example()["input_ids"]
        assert torch.equal(a(ids).logits, b(ids).logits), name


def write_byte_tokenizer(folder):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    vocab = {chr(b) if b in printable else chr(256 + others.index(b)): b for b in range(256)}
    (folder / "vocab.json").write_text(json.dumps({**vocab, "<|endoftext|>": 256}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def check_generation(folder):
    """The likeliest continuations, byte for byte; the windows are shorter than the texts."""
    for name in MODELS:
        write_byte_tokenizer(folder / name)
        for prompt in (b"a", b"0123456789ab"):
            model = AutoModelForCausalLM.from_pretrained(folder / name).eval()  # dynamic angles remember what they saw
            count = 32 - len(prompt)
            ids = torch.tensor([list(prompt)])
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                                 pad_token_id=0)[0].tolist()[len(prompt):]
            out = out[:-1] if out[-1] == SIZES["eos_token_id"] else out
            text = b"".join(b"<|endoftext|>" if i == 256 else bytes([i]) for i in out)
            done = subprocess.run([port.MSTRAIN, "generate", "--model", name, "--prompt", prompt.decode(), "--tokens",
                                   str(count), "--greedy"], cwd=folder, capture_output=True)
            assert done.returncode == 0 and done.stdout == prompt + text + b"\n", (name, prompt, text, done)


def train_with_torch(directory, text):
    """Losses of the steps, and the model after them, on windows that follow each other."""
    model = AutoModelForCausalLM.from_pretrained(directory)
    ids = torch.tensor(list(text))
    tokens, targets = ids[:-1].reshape(4, 8), ids[1:].reshape(4, 8)
    optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(tokens).logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def check_fine_tuning(folder):
    text = b"the cat sat on the mat, and so on"
    assert len(text) == 33
    (folder / "text.txt").write_bytes(text)
    for start in ("one_key_head", "tied", "mistral", "qwen2"):
        (folder / "run.yaml").write_text(f"""
run: {{output_dir: run_{start}, threads: 1}}
model: {{type: llama, init: {{from: {start}}}}}
data: {{train: text.txt, split: 1.0, tokenizer: {{type: byte}}, seq_length: 8, shuffle: false}}
batch: {{global: 4}}
optimizer: {{type: adamw, lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: {STEPS}}}
log: {{interval: 1}}
""")
        port.mstrain("--config", "run.yaml", folder=folder)
        rows = [json.loads(line) for line in (folder / f"run_{start}/metrics.jsonl").read_text().splitlines()]
        losses, trained = train_with_torch(folder / start, text)
        assert len(rows) == STEPS
        for row, loss in zip(rows, losses):
            assert abs(row["loss"] - loss) <= 2e-5 * loss, (start, row, loss)
        checkpoint = folder / f"run_{start}/checkpoints/step-{STEPS:08}"
        saved = AutoModelForCausalLM.from_pretrained(checkpoint)
        assert type(saved) is type(trained) and saved.config.eos_token_id == SIZES["eos_token_id"]
        for (name, p), q in zip(trained.named_parameters(), saved.parameters()):
            if not name.endswith("k_proj.bias"):  # nothing depends on it: AdamW walks after rounding there
                assert port.difference(p, q) <= 2e-4, (start, name, port.difference(p, q))
        check_forward(folder, checkpoint, example())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_options(folder)
        check_forms(folder)
        check_export(folder)
        check_generation(folder)
        check_fine_tuning(folder)
    print(f"transformers {transformers.__version__} and mstrain agree on {len(MODELS)} models and {STEPS} steps")


if __name__ == "__main__":
    main()
