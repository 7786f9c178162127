#!/usr/bin/env python3
"""docs/fine_tuning.md does what it says: its files are written, its commands run in order on a tiny GPT-2 directory, and
what comes out opens in `transformers`, where Python has that; everywhere the bytes of the tensors are compared.

Usage: fine_tuning_test.py MSTRAIN."""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/fine_tuning.md"
SEED = 11
LAYERS, HEADS, WIDTH, POSITIONS = 2, 2, 16, 256


def blocks():
    """(language, text) of each fenced block of the page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)}


def write_tokenizer(folder):
    """Byte-level BPE with a few merges, in the files that GPT-2 has. Returns the size of its vocabulary."""
    spelled = byte_alphabet()
    vocab = {spelled[b]: b for b in range(256)}
    merges = []
    for pair in ("t h", "th e", "h e", "Ġ t", "Ġt he", "i n", "Ġ a", "e r", "o n", "Ġ s", "T h", "Th e"):
        left, right = pair.split()
        assert left in vocab and right in vocab, pair
        vocab[left + right] = len(vocab)
        merges.append(pair)
    vocab["<|endoftext|>"] = len(vocab)
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return len(vocab)


def write_model(folder):
    folder.mkdir()
    vocab = write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": vocab, "n_positions": POSITIONS,
        "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "bos_token_id": vocab - 1, "eos_token_id": vocab - 1}))
    shapes = {"wte.weight": [vocab, WIDTH], "wpe.weight": [POSITIONS, WIDTH], "ln_f.weight": [WIDTH],
              "ln_f.bias": [WIDTH]}
    for layer in range(LAYERS):
        for name, shape in {"ln_1": [WIDTH], "ln_2": [WIDTH], "attn.c_attn": [WIDTH, 3 * WIDTH],
                            "attn.c_proj": [WIDTH, WIDTH], "mlp.c_fc": [WIDTH, 4 * WIDTH],
                            "mlp.c_proj": [4 * WIDTH, WIDTH]}.items():
            shapes[f"h.{layer}.{name}.weight"] = shape
            shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
    rng = random.Random(SEED)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes.items():
        mean = 1.0 if ".ln_" in f".{name}" and name.endswith("weight") else 0.0
        values = [rng.gauss(mean, 0.02 if len(shape) > 1 else 0.0) for _ in range(math.prod(shape))]
        header[f"transformer.{name}"] = {"dtype": "F32", "shape": shape,
                                         "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensors(path):
    """Each tensor of a safetensors file as (dtype, shape, bytes)."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"],
                   data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def run(command, folder, path):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace",
                          env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def main():
    mstrain = pathlib.Path(sys.argv[1]).resolve()
    assert mstrain.name == "mstrain"
    outputs, python = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "gpt2")
        pages = sorted((ROOT / "docs").glob("*.md"))
        (folder / "text.txt").write_text("\n".join(page.read_text() for page in pages))
        for language, text in blocks():
            if language == "yaml":
                (folder / re.match(r"# (\S+)\n", text)[1]).write_text(text)
            elif language == "sh":
                for command in text.splitlines():
                    outputs[" ".join(command.split("#")[0].split())] = run(["sh", "-ec", command], folder, mstrain.parent)
            else:
                python.append(text)
        losses = [float(re.match(r"eval_loss (\S+)", out)[1]) for command, out in outputs.items()
                  if command.startswith("mstrain eval")]
        of_tuned, of_base, of_adapted = losses
        assert of_tuned < of_base - 0.1 and of_adapted < of_base - 0.02, losses
        adapter = tensors(folder / "adapter/adapter_model.safetensors")
        assert len(adapter) == 2 * 3 * LAYERS and all("lora_" in name for name in adapter), adapter.keys()
        of_adapter, of_merged = (out for command, out in outputs.items()
                                 if command.startswith(("mstrain generate --checkpoint out/adapted",
                                                        "mstrain generate --checkpoint merged")))
        assert of_adapter == of_merged, (of_adapter, of_merged)
        assert "fits" in outputs["mstrain --config tune.yaml --dry-run"]
        assert "frozen" in outputs["mstrain --config adapt.yaml --dry-run"]
        assert "nanoGPT" in outputs["mstrain inspect text.bin"]
        checkpoint, = (folder / "out/tuned/checkpoints").glob("step-*200")
        tuned, before = tensors(folder / "tuned/model.safetensors"), tensors(folder / "gpt2/model.safetensors")
        assert tuned == tensors(checkpoint / "model.safetensors")
        assert {n: t[:2] for n, t in tuned.items()} == {n: t[:2] for n, t in before.items()}
        assert all(tuned[n][2] != before[n][2] for n in before)
        for file in ("vocab.json", "merges.txt"):
            assert (folder / "tuned" / file).read_bytes() == (folder / "gpt2" / file).read_bytes()
        python_of_page = interpreter.find("torch", "transformers")
        if python_of_page is None:
            print("the Python packages `torch` and `transformers` are not installed: bytes alone were compared")
        else:
            greedy, = (out for command, out in outputs.items() if command.endswith("--greedy") and "out/tuned" in command)
            opened = run([python_of_page, "-c", python[0]], folder, mstrain.parent)
            assert opened == greedy, (opened, greedy)
            print("transformers continues the text with the same tokens")
    print(f"ran {len(outputs)} commands of {PAGE.name}: eval loss {losses[1]:.3f} before, {losses[0]:.3f} after, "
          f"{losses[2]:.3f} with an adapter")


if __name__ == "__main__":
    main()
