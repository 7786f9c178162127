"""What tests share that hold a model of Hugging Face's `transformers` against the same one in mstrain. They import it first:
it starts the test again in a Python that has what they need, or skips it (tests/interpreter.py)."""
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
from golden.adamw import adamw_steps  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
MSTRAIN = str(pathlib.Path(sys.argv[1]).resolve())
STEPS = 5  # of fine-tuning


def mstrain(*arguments, folder):
    done = subprocess.run([MSTRAIN, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def difference(a, b):
    return (a.float() - b.float()).abs().max().item()


def check_forward(model_class, folder, directory, batch, keys=None, dtype=torch.float32, **options):
    """logits, loss and gradients of `mstrain forward` against those of the directory as transformers opens it."""
    model = model_class.from_pretrained(folder / directory, dtype=dtype).float().eval()
    save_file(batch, folder / "in.safetensors")
    mstrain("forward", "--model", directory, "--input", "in.safetensors", "--output", "out.safetensors", "--grads",
            folder=folder)
    out = load_file(folder / "out.safetensors")
    result = model(**batch, **options)
    result.loss.backward()
    assert out["loss"].shape == torch.Size([])
    assert difference(out["logits"], result.logits) <= 1e-4, (directory, difference(out["logits"], result.logits))
    assert abs(out["loss"].item() - result.loss.item()) <= 1e-5, (directory, out["loss"], result.loss)
    wanted = {name: p.grad for name, p in model.named_parameters()}
    if keys:
        wanted = {keys(name): grad for name, grad in wanted.items()}
    assert {f"grad.{name}" for name in wanted} == set(out) - {"logits", "loss"}, (set(wanted), set(out))
    greatest = max(grad.abs().max().item() for grad in wanted.values())
    for name, grad in wanted.items():
        assert out[f"grad.{name}"].shape == grad.shape, name
        limit = max(1e-4 * grad.abs().max().item(), 1e-6 * greatest)  # that of the keys' biases is rounding alone
        assert difference(out[f"grad.{name}"], grad) <= limit, (directory, name)


def check_scores(folder, name):
    """The scores of texts by the trunk of the directory `name` below a head of one label, and the files of such a model."""
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder / name, num_labels=1, pad_token_id=7).eval()
    scored = f"{name}_scored"
    model.save_pretrained(folder / scored)
    for side in (None, "right"):
        batch = causal_example(side)
        del batch["labels"]
        batch["input_ids"][batch["input_ids"] == 7] = 8
        seen = batch.get("attention_mask", torch.ones_like(batch["input_ids"]))
        save_file(batch, folder / "in.safetensors")
        mstrain("forward", "--model", scored, "--input", "in.safetensors", "--output", "out.safetensors", folder=folder)
        logits = model(torch.where(seen == 1, batch["input_ids"], 7), attention_mask=seen).logits
        out = load_file(folder / "out.safetensors")["logits"]
        assert out.shape == logits.shape == (len(seen), 1) and difference(out, logits) <= 1e-4, (name, side, out, logits)
    _, again = check_export(transformers.AutoModelForSequenceClassification, folder, scored)
    assert again.num_labels == 1


def raw_tensors(directory):
    """Every tensor of a directory as (dtype, shape, bytes)."""
    tensors = {}
    for path in sorted(directory.glob("model*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return tensors


def check_export(model_class, folder, name):
    """What came in goes out byte for byte, and opens where it came from. Returns both models as transformers opens them."""
    mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
    assert raw_tensors(folder / f"{name}_out") == raw_tensors(folder / name), name
    return check_same(model_class, folder, name, f"{name}_out")


def check_same(model_class, folder, *names):
    a, b = (model_class.from_pretrained(folder / name) for name in names)
    assert type(a) is type(b) and a.dtype == b.dtype, (names, a.dtype, b.dtype)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters())), names
    return a, b


def hide(batch, side, hidden):
    """Leaves `hidden[row]` tokens at one end of each row of input_ids out of the attention mask, where there is a side."""
    if side:
        mask = batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        for row, count in enumerate(hidden):
            mask[row, slice(mask.shape[1] - count, None) if side == "right" else slice(count)] = 0


def causal_example(mask=None, length=11):
    """Tokens of three texts, below 257; some have no label."""
    ids = torch.randint(0, 257, (3, length), generator=torch.Generator().manual_seed(1))
    batch = {"input_ids": ids, "labels": ids.clone()}
    batch["labels"][1, 3:6] = -100
    hide(batch, mask, (0, 3, 5))
    if mask:
        batch["labels"][batch["attention_mask"] == 0] = -100
    return batch


def write_byte_tokenizer(folder):
    """Ids 0 to 255 are bytes; one more is <|endoftext|>."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    vocab = {chr(b) if b in printable else chr(256 + others.index(b)): b for b in range(256)}
    (folder / "vocab.json").write_text(json.dumps({**vocab, "<|endoftext|>": 256}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def check_continuation(model, folder, name, prompt, end, length):
    """The likeliest continuation of a prompt to texts of `length` tokens or one that ends before, byte for byte."""
    ids, count = torch.tensor([list(prompt)]), length - len(prompt)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                         pad_token_id=0)[0].tolist()[len(prompt):]
    out = out[:-1] if out[-1] == end else out
    text = b"".join(b"<|endoftext|>" if i == 256 else bytes([i]) for i in out)
    done = subprocess.run([MSTRAIN, "generate", "--model", name, "--prompt", prompt.decode(), "--tokens", str(count),
                           "--greedy"], cwd=folder, capture_output=True)
    assert done.returncode == 0 and done.stdout == prompt + text + b"\n", (name, prompt, out, done)


def fine_tune(folder, start, model, data, batch=4):
    """Losses of a run that begins with the directory `start`, and its last checkpoint. model, data: YAML in those sections."""
    (folder / "run.yaml").write_text(f"""
run: {{output_dir: run_{start}, threads: 1}}
model: {{{model}}}
data: {{{data}, split: 1.0, shuffle: false}}
batch: {{global: {batch}}}
optimizer: {{type: adamw, lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: {STEPS}}}
log: {{interval: 1}}
""")
    mstrain("--config", "run.yaml", folder=folder)
    rows = [json.loads(line) for line in (folder / f"run_{start}/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == STEPS
    return [row["loss"] for row in rows], folder / f"run_{start}/checkpoints/step-{STEPS:08}"


def fine_tune_causal(model_class, folder, start, model=""):
    """As fine_tune on four windows that follow each other, and the same by PyTorch: both lists of losses, the checkpoint
    and PyTorch's model."""
    text = b"the cat sat on the mat, and so on"
    (folder / "text.txt").write_bytes(text)
    losses, checkpoint = fine_tune(folder, start, f"{model}init: {{from: {start}}}",
                                   "train: text.txt, tokenizer: {type: byte}, seq_length: 8")
    ids = torch.tensor(list(text))
    trained = model_class.from_pretrained(folder / start)
    expected = adamw_steps(trained, lambda model: torch.nn.functional.cross_entropy(
        model(ids[:-1].reshape(4, 8)).logits.flatten(0, 1), ids[1:]), steps=STEPS)
    return losses, expected, checkpoint, trained


def run(*checks):
    """Each check on one folder, where it finds what those before it wrote."""
    with tempfile.TemporaryDirectory() as name:
        for check in checks:
            check(pathlib.Path(name))
    print(f"transformers {transformers.__version__} and mstrain agree")
