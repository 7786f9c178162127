"""Writes vit_hf.h: losses, logits and gradients of tiny ViT models with various options, by Hugging Face's implementation
in double precision, and the losses of five AdamW steps.

Usage: python tests/golden/vit_hf.py | clang-format > tests/golden/vit_hf.h   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from philox_weights import weight
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


def make(**options):
    config = ViTConfig(**{**SIZES, **options})
    config._attn_implementation = "sdpa"  # "eager" rounds probabilities to 32 bits
    model = ViTForImageClassification(config).double().eval()
    for stream, (name, p) in enumerate(sorted((file_name(name), p) for name, p in model.named_parameters())):
        p.data = torch.tensor(weight(".ln_" + name if "layernorm" in name else name, p.numel(), stream)).reshape(p.shape)
    return model


def pixels(channels, height, width):
    count = BATCH * channels * height * width
    return (torch.arange(count, dtype=torch.float64) * 37 % 101 / 50 - 1).reshape(BATCH, channels, height, width)


print("// Tiny ViT models as Hugging Face computes them in double precision. Written by vit_hf.py.")
print("#pragma once\n\n#include <vector>\n#include <string_view>\n\nnamespace mstrain::golden {\n")
print("struct VitGradient {\n  std::string_view name;\n  double norm, greatest;  // greatest: of the absolute values\n"
      "  double middle;  // element number count / 2\n};")
print("struct VitCase {\n  std::string_view name;\n  std::string_view options;  // JSON\n  int64_t height, width;\n"
      "  double loss;\n  std::vector<double> logits;  // of sample 1\n  std::vector<VitGradient> gradients;\n};\n")
print("inline const std::vector<VitCase> kVitCases = {")
labels = torch.tensor([3, 0, 4])
for case, (options, (height, width)) in CASES.items():
    model = make(**options)
    out = model(pixel_values=pixels(model.config.num_channels, height, width), labels=labels,
                interpolate_pos_encoding=True)
    out.loss.backward()
    text = ", ".join(f'"{key}": {str(value).lower() if isinstance(value, bool) else repr(value)}'
                     for key, value in options.items()).replace("'", '"')
    print(f'{{"{case}", R"({{{text}}})", {height}, {width}, {out.loss.item():.17g},')
    print("{" + ", ".join(f"{x:.17g}" for x in out.logits[1].tolist()) + "}, {")
    for name, p in sorted((file_name(name), p) for name, p in model.named_parameters()):
        g = p.grad.flatten()
        print(f'{{"{name}", {g.norm().item():.17g}, {g.abs().max().item():.17g}, {g[g.numel() // 2].item():.17g}}},')
    print("}},")
print("};\n")

model = make()
decayed = [p for name, p in model.named_parameters() if name.endswith("weight") and "layernorm" not in name]
others = [p for p in model.parameters() if all(p is not q for q in decayed)]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                              lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
losses = []
for _ in range(5):
    loss = model(pixel_values=pixels(3, 8, 8), labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print("inline constexpr double kVitStepLosses[] = {" + ", ".join(f"{x:.17g}" for x in losses) + "};\n")
print("}  // namespace mstrain::golden")
