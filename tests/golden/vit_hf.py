"""Writes vit_hf.json: losses, logits and gradients of tiny ViT models with various options, by Hugging Face's implementation
in double precision, and the losses of five AdamW steps.

Usage: python tests/golden/vit_hf.py   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from adamw import adamw_steps
from hf_cases import gradients, set_weights, write
from transformers import ViTConfig, ViTForImageClassification

SIZES = dict(image_size=8, patch_size=2, num_channels=3, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
             intermediate_size=20, num_labels=5)
BATCH = 3
CASES = {  # options of config.json, height and width of the images
    "plain": ({}, (8, 8)),
    "larger": ({}, (12, 12)),
    "oblong": ({}, (6, 10)),
    "coarser": ({"patch_size": 4, "num_channels": 1}, (8, 8)),
    "unbiased": ({"qkv_bias": False, "hidden_act": "relu", "layer_norm_eps": 1e-2}, (8, 8)),
    "odd_heads": ({"hidden_size": 15, "num_hidden_layers": 1, "hidden_act": "gelu_new"}, (4, 4)),
}
OLD = [("vit.layers.", "vit.encoder.layer."), (".attention.q_proj.", ".attention.attention.query."),
       (".attention.k_proj.", ".attention.attention.key."), (".attention.v_proj.", ".attention.attention.value."),
       (".attention.o_proj.", ".attention.output.dense."), (".mlp.fc1.", ".intermediate.dense."),
       (".mlp.fc2.", ".output.dense.")]


def file_name(name):
    for new, old in OLD:
        name = name.replace(new, old)
    return name


def parameters(model):
    """By their names in files, in the order of those."""
    return sorted((file_name(name), p) for name, p in model.named_parameters())


def make(**options):
    config = ViTConfig(**{**SIZES, **options})
    config._attn_implementation = "sdpa"  # "eager" rounds probabilities to 32 bits
    model = ViTForImageClassification(config).double().eval()
    set_weights(parameters(model))
    return model


def pixels(channels, height, width):
    count = BATCH * channels * height * width
    return (torch.arange(count, dtype=torch.float64) * 37 % 101 / 50 - 1).reshape(BATCH, channels, height, width)


cases = []
labels = torch.tensor([3, 0, 4])
for name, (options, (height, width)) in CASES.items():
    model = make(**options)
    out = model(pixel_values=pixels(model.config.num_channels, height, width), labels=labels,
                interpolate_pos_encoding=True)
    out.loss.backward()
    cases.append({"name": name, "config": options, "height": height, "width": width, "loss": out.loss.item(),
                  "logits": out.logits[1].tolist(), "gradients": gradients(parameters(model))})
losses = adamw_steps(make(), lambda model: model(pixel_values=pixels(3, 8, 8), labels=labels).loss,
                     decays=lambda name, p: name.endswith("weight") and "layernorm" not in name)
write(__file__, cases=cases, step_losses=losses)
