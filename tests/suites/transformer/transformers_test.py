#!/usr/bin/env python3
"""Tiny random GPT-2 models made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged.

Usage: transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import interpreter  # noqa: E402

interpreter.need("torch", "transformers", "safetensors.torch")
import torch  # noqa: E402
import transformers  # noqa: E402
from port import MSTRAIN, check_forward, difference, mstrain, raw_tensors  # noqa: E402
from safetensors.torch import save_file, save_model  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

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
STEPS = 5


def make_model(seed=0, **options):
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(**{**SIZES, **options})).eval()
    with torch.no_grad():  # as they come, biases are zero and scores almost equal
        for name, p in model.named_parameters():
            p.normal_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0, 0.25)
    return model


def example(seed=1, mask=None):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, SIZES["vocab_size"], (3, 11), generator=generator)
    labels = ids.clone()
    labels[1, 3:6] = -100
    batch = {"input_ids": ids, "labels": labels}
    if mask:
        batch["attention_mask"] = torch.ones_like(ids)
        for row, hidden in enumerate((0, 3, 5)):
            if mask == "right":
                batch["attention_mask"][row, ids.shape[1] - hidden:] = 0
            else:
                batch["attention_mask"][row, :hidden] = 0
            labels[row][batch["attention_mask"][row] == 0] = -100
    return batch


def check_options(folder):
    for name, options in MODELS.items():
        make_model(**options).save_pretrained(folder / name)
        check_forward(GPT2LMHeadModel, folder, name, example())
    for side in ("right", "left"):
        check_forward(GPT2LMHeadModel, folder, "plain", example(mask=side))
    batch = example()
    batch["position_ids"] = torch.arange(11).flip(0).repeat(3, 1)
    check_forward(GPT2LMHeadModel, folder, "plain", batch)


def check_forms(folder):
    """The same weights in other files."""
    model = make_model()
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model().to(dtype).save_pretrained(folder / name)
        check_forward(GPT2LMHeadModel, folder, name, example(), dtype=dtype)
    model.save_pretrained(folder / "sharded", max_shard_size="20KB")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 2
    check_forward(GPT2LMHeadModel, folder, "sharded", example())

    bare = {name.removeprefix("transformer."): p.contiguous() for name, p in model.state_dict().items()
            if name != "lm_head.weight"}
    for layer in range(SIZES["n_layer"]):
        bare[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()
        bare[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    (folder / "bare").mkdir()
    save_file(bare, folder / "bare/model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "plain/config.json").read_text())
    (folder / "bare/config.json").write_text(json.dumps(config))
    check_forward(GPT2LMHeadModel, folder, "bare", example(), keys=lambda name: name.removeprefix("transformer."))


def check_export(folder):
    """What came in goes out byte for byte, and opens where it came from."""
    for name in ("plain", "untied", "float16", "bfloat16", "sharded", "bare"):
        mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
        given = {key if key.startswith(("transformer.", "lm_head.")) else f"transformer.{key}": value
                 for key, value in raw_tensors(folder / name).items() if not key.endswith((".attn.bias", ".masked_bias"))}
        assert raw_tensors(folder / f"{name}_out") == given, name
        a, b = (GPT2LMHeadModel.from_pretrained(folder / each) for each in ("plain" if name == "bare" else name, f"{name}_out"))
        assert a.config.eos_token_id == b.config.eos_token_id and a.dtype == b.dtype, (name, a.dtype, b.dtype)
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters())), name


def train_with_torch(directory, text):
    """Losses of the steps, and the model after them, on windows that follow each other."""
    model = GPT2LMHeadModel.from_pretrained(directory)
    ids = torch.tensor(list(text))
    tokens, targets = ids[:-1].reshape(4, 8), ids[1:].reshape(4, 8)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": others, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
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
    for start in ("plain", "untied", "by_layer", "bare"):
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
        losses, trained = train_with_torch(folder / start, text)
        assert len(rows) == STEPS
        for row, loss in zip(rows, losses):
            assert abs(row["loss"] - loss) <= 1e-4, (start, row, loss)
        checkpoint = folder / f"run_{start}/checkpoints/step-{STEPS:08}"
        saved = GPT2LMHeadModel.from_pretrained(checkpoint)
        assert saved.config.eos_token_id == SIZES["eos_token_id"]
        for (name, p), q in zip(trained.named_parameters(), saved.parameters()):
            if name.endswith("c_attn.bias"):  # nothing depends on that of the keys: AdamW walks after rounding there
                p, q = p.reshape(3, -1)[::2], q.reshape(3, -1)[::2]
            assert difference(p, q) <= 2e-4, (start, name, difference(p, q))
        check_forward(GPT2LMHeadModel, folder, checkpoint, example())
        mstrain("export", "--checkpoint", f"run_{start}", "--output", f"tuned_{start}", folder=folder)
        assert raw_tensors(folder / f"tuned_{start}") == raw_tensors(checkpoint), start


def write_byte_tokenizer(folder):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    vocab = {chr(b) if b in printable else chr(256 + others.index(b)): b for b in range(256)}
    (folder / "vocab.json").write_text(json.dumps({**vocab, "<|endoftext|>": 256}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def check_generation(folder):
    """The likeliest continuations, byte for byte."""
    for name in ("plain", "untied", "by_layer", "gelu"):
        write_byte_tokenizer(folder / name)
        model = GPT2LMHeadModel.from_pretrained(folder / name).eval()
        for prompt in (b"a", b"the c", b"0123456789ab"):
            count = SIZES["n_positions"] - len(prompt)
            ids = torch.tensor([list(prompt)])
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                                 pad_token_id=0)[0].tolist()[len(prompt):]
            out = out[:-1] if out[-1] == SIZES["eos_token_id"] else out
            text = b"".join(b"<|endoftext|>" if i == 256 else bytes([i]) for i in out)
            done = subprocess.run([MSTRAIN, "generate", "--model", name, "--prompt", prompt.decode(), "--tokens",
                                   str(count), "--greedy"], cwd=folder, capture_output=True)
            assert done.returncode == 0 and done.stdout == prompt + text + b"\n", (name, prompt, out, done)


def check_head_alone(folder):
    """safetensors' save_model() keeps one of the two names of a tied weight."""
    (folder / "head").mkdir()
    save_model(make_model(), str(folder / "head/model.safetensors"))
    (folder / "head/config.json").write_text((folder / "plain/config.json").read_text())
    names = set(raw_tensors(folder / "head"))
    assert len(names & {"lm_head.weight", "transformer.wte.weight"}) == 1, names
    save_file(example(), folder / "in.safetensors")
    for name in ("plain", "head"):
        mstrain("forward", "--model", name, "--input", "in.safetensors", "--output", f"{name}.safetensors", folder=folder)
    assert (folder / "plain.safetensors").read_bytes() == (folder / "head.safetensors").read_bytes()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_options(folder)
        check_forms(folder)
        check_head_alone(folder)
        check_export(folder)
        check_generation(folder)
        check_fine_tuning(folder)
    print(f"transformers {transformers.__version__} and mstrain agree on {len(MODELS)} models and {STEPS} steps")


if __name__ == "__main__":
    main()
