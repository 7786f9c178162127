"""What tests share that hold a model of Hugging Face's `transformers` against the same one in mstrain."""
import json
import pathlib
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
MSTRAIN = str(pathlib.Path(sys.argv[1]).resolve())


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
