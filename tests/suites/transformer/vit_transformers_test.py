#!/usr/bin/env python3
"""Tiny random ViT models made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged; pictures in
folders are prepared as its image processor does.

Usage: vit_transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json
import pathlib
import struct
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import interpreter  # noqa: E402

interpreter.need("torch", "transformers", "safetensors.torch")
import torch  # noqa: E402
import transformers  # noqa: E402
from port import check_forward, difference, mstrain, raw_tensors  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import ViTConfig, ViTForImageClassification, ViTModel  # noqa: E402

SIZES = dict(image_size=8, patch_size=2, num_channels=3, hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
             intermediate_size=40, num_labels=7)
MODELS = {
    "plain": {},
    "grey": {"num_channels": 1},
    "odd_heads": {"hidden_size": 20},
    "unbiased": {"qkv_bias": False},
    "relu": {"hidden_act": "relu", "layer_norm_eps": 1e-3},
    "one_patch": {"patch_size": 8, "num_hidden_layers": 1},
}
STEPS = 5
OLD_CONFIG = ["architectures", "attention_probs_dropout_prob", "encoder_stride", "hidden_act", "hidden_dropout_prob",
              "hidden_size", "image_size", "initializer_range", "intermediate_size", "layer_norm_eps", "model_type",
              "num_attention_heads", "num_channels", "num_hidden_layers", "patch_size", "qkv_bias", "id2label", "label2id"]


def make_model(seed=0, model_class=ViTForImageClassification, **options):
    torch.manual_seed(seed)
    model = model_class(ViTConfig(**{**SIZES, **options})).eval()
    with torch.no_grad():  # as they come, biases are zero and scores almost equal
        for name, p in model.named_parameters():
            p.normal_(1.0 if "layernorm" in name and name.endswith("weight") else 0.0, 0.25)
    return model


def example(channels=3, height=8, width=8):
    generator = torch.Generator().manual_seed(1)
    return {"pixel_values": torch.randn(4, channels, height, width, generator=generator),
            "labels": torch.tensor([0, 6, -100, 3])}


def file_names(model, directory):
    """The name in the file of each parameter of a model: transformers 5 calls modules otherwise."""
    stored = load_file(directory / "model.safetensors")
    names = {}
    for name, p in model.named_parameters():
        same = [key for key, value in stored.items() if value.shape == p.shape and torch.equal(value.float(), p)]
        assert len(same) == 1, (name, same)
        names[name] = same[0]
    return names


def check(folder, directory, batch, **options):
    model = ViTForImageClassification.from_pretrained(folder / directory, dtype=options.get("dtype", torch.float32)).float()
    names = file_names(model, folder / directory)
    check_forward(ViTForImageClassification, folder, directory, batch, keys=names.get, **options)


def check_options(folder):
    for name, options in MODELS.items():
        make_model(**options).save_pretrained(folder / name)
        check(folder, name, example(options.get("num_channels", 3)))
    for height, width in ((16, 16), (6, 10), (2, 2)):
        check(folder, "plain", example(3, height, width), interpolate_pos_encoding=True)


def check_forms(folder):
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model().to(dtype).save_pretrained(folder / name)
        check(folder, name, example(), dtype=dtype)
    config = json.loads((folder / "plain/config.json").read_text())
    tensors = load_file(folder / "plain/model.safetensors")
    model = make_model()

    def variant(name, config, tensors):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
        save_file(tensors, folder / name / "model.safetensors", metadata={"format": "pt"})
        save_file(example(), folder / "in.safetensors")
        mstrain("forward", "--model", name, "--input", "in.safetensors", "--output", "out.safetensors", folder=folder)
        out = load_file(folder / "out.safetensors")
        assert difference(out["logits"], model(**example()).logits) <= 1e-4, name

    variant("four", {**{key: config[key] for key in OLD_CONFIG}, "torch_dtype": "float32"}, tensors)
    variant("new_names", config, {name: p.detach().contiguous() for name, p in model.state_dict().items()})
    variant("pooled", config, {**tensors, "vit.pooler.dense.weight": torch.ones(24, 24), "vit.pooler.dense.bias": torch.ones(24)})


def check_export(folder):
    for name in ("plain", "float16", "bfloat16"):
        mstrain("export", "--checkpoint", name, "--output", f"{name}_out", folder=folder)
        assert raw_tensors(folder / f"{name}_out") == raw_tensors(folder / name), name
        a, b = (ViTForImageClassification.from_pretrained(folder / each) for each in (name, f"{name}_out"))
        assert a.config.id2label == b.config.id2label and a.dtype == b.dtype, name
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters())), name


def write_png(path, pixels):
    """pixels: [height, width, 3] of bytes."""
    height, width, _ = pixels.shape
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def check_fine_tuning(folder):
    """On folders of pictures of three classes, from directories with seven labels and with none."""
    generator = torch.Generator().manual_seed(3)
    pictures, labels = [], []
    for label, name in enumerate(("cat", "dog", "eel")):
        for i in range(2):
            picture = torch.randint(0, 256, (8, 8, 3), generator=generator)
            write_png(folder / f"pictures/{name}/{i}.png", picture)
            pictures.append(picture)
            labels.append(label)
    pixels = (torch.stack(pictures).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
    make_model(model_class=ViTModel).save_pretrained(folder / "backbone")
    make_model(num_labels=3).save_pretrained(folder / "same")
    for start in ("plain", "same", "backbone"):
        def run(steps):
            (folder / "run.yaml").write_text(f"""
run: {{output_dir: run_{start}, threads: 1}}
model: {{init: {{from: {start}}}}}
data: {{train: pictures, split: 1.0, shuffle: false}}
batch: {{global: 6}}
optimizer: {{type: adamw, lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: {steps}}}
checkpoint: {{interval: 1, keep: 10}}
log: {{interval: 1}}
""")
            mstrain("--config", "run.yaml", folder=folder)
        run(STEPS)
        rows = [json.loads(line) for line in (folder / f"run_{start}/metrics.jsonl").read_text().splitlines()]
        log = (folder / f"run_{start}/log.txt").read_text()
        assert ("drawn anew" in log) == (start != "same"), log
        checkpoints = folder / f"run_{start}/checkpoints"
        model = ViTForImageClassification.from_pretrained(checkpoints / f"step-{STEPS:08}")
        assert model.config.id2label == {0: "cat", 1: "dog", 2: "eel"} or start == "same", model.config.id2label
        check(folder, checkpoints / f"step-{STEPS:08}", example() | {"labels": torch.tensor([0, 2, -100, 1])})
        if start != "same":
            continue
        model = ViTForImageClassification.from_pretrained(folder / start)
        decayed = [p for name, p in model.named_parameters() if name.endswith("weight") and "layernorm" not in name]
        others = [p for p in model.parameters() if all(p is not q for q in decayed)]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                      lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
        assert len(rows) == STEPS
        for row in rows:
            loss = model(pixel_values=pixels, labels=torch.tensor(labels)).loss
            assert abs(row["loss"] - loss.item()) <= 2e-5 * max(1, loss.item()), (row, loss)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_options(folder)
        check_forms(folder)
        check_export(folder)
        check_fine_tuning(folder)
    print(f"transformers {transformers.__version__} and mstrain agree on {len(MODELS)} ViT models and {STEPS} steps")


if __name__ == "__main__":
    main()
