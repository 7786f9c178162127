#!/usr/bin/env python3
"""Tiny random ViT models made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged; pictures in
folders are prepared as its image processor does.

Usage: vit_transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors (tests/interpreter.py)."""
import json
import struct
import zlib

import port
import torch
from golden.adamw import adamw_steps
from port import STEPS, check_forward, difference, fine_tune, mstrain
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTForImageClassification, ViTModel

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
        a, b = port.check_export(ViTForImageClassification, folder, name)
        assert a.config.id2label == b.config.id2label, name


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
    for start in ("plain", "backbone", "same"):
        losses, checkpoint = fine_tune(folder, start, f"init: {{from: {start}}}", "train: pictures", batch=6)
        log = (folder / f"run_{start}/log.txt").read_text()
        assert ("drawn anew" in log) == (start != "same"), log
        model = ViTForImageClassification.from_pretrained(checkpoint)
        assert model.config.id2label == {0: "cat", 1: "dog", 2: "eel"} or start == "same", model.config.id2label
        check(folder, checkpoint, example() | {"labels": torch.tensor([0, 2, -100, 1])})
    expected = adamw_steps(ViTForImageClassification.from_pretrained(folder / "same"),
                           lambda model: model(pixel_values=pixels, labels=torch.tensor(labels)).loss,
                           decays=lambda name, p: name.endswith("weight") and "layernorm" not in name, steps=STEPS)
    for loss, wanted in zip(losses, expected):  # of the last: its head is the directory's
        assert abs(loss - wanted) <= 2e-5 * max(1, wanted), (losses, expected)


if __name__ == "__main__":
    port.run(check_options, check_forms, check_export, check_fine_tuning)
