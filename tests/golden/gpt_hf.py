"""Writes gpt_hf.h: losses, logits and gradients of tiny GPT-2 models with various options, by Hugging Face's implementation
in double precision, and the losses of five AdamW steps.

Usage: python tests/golden/gpt_hf.py | clang-format > tests/golden/gpt_hf.h   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from philox_weights import weight
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(vocab_size=11, n_positions=8, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
             bos_token_id=None, eos_token_id=None)
BATCH, LENGTH = 2, 6
CASES = {  # options of config.json, whether the end of sample 1 is padding
    "plain": ({}, False),
    "masked": ({}, True),
    "by_layer": ({"scale_attn_by_inverse_layer_idx": True, "activation_function": "gelu"}, False),
    "unscaled": ({"scale_attn_weights": False, "activation_function": "tanh", "n_inner": 20}, False),
    "untied": ({"tie_word_embeddings": False, "activation_function": "relu", "layer_norm_epsilon": 1e-2}, False),
    "silu": ({"activation_function": "silu"}, True),
}


def make(**options):
    config = GPT2Config(**{**SIZES, **options})
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config).double().eval()
    for stream, (name, p) in enumerate(model.named_parameters()):
        p.data = torch.tensor(weight(name, p.numel(), stream)).reshape(p.shape)
    return model


print("// Tiny GPT-2 models as Hugging Face computes them in double precision. Written by gpt_hf.py.")
print("#pragma once\n\n#include <vector>\n#include <string_view>\n\nnamespace mstrain::golden {\n")
print("struct HfGradient {\n  std::string_view name;\n  double norm, greatest;  // greatest: of the absolute values\n"
      "  double middle;  // element number count / 2\n};")
print("struct HfCase {\n  std::string_view name;\n  std::string_view options;  // JSON\n  bool masked;  // the last 2 "
      "positions of sample 1\n  double loss;\n  std::vector<double> logits;  // of sample 1 at position 3\n"
      "  std::vector<HfGradient> gradients;\n};\n")
print("inline const std::vector<HfCase> kHfCases = {")
for case, (options, masked) in CASES.items():
    model = make(**options)
    tokens = torch.tensor([[(7 * b + 3 * t + b * t) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    labels = torch.tensor([[(5 * b + 4 * t + 1) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    labels[0, 2] = -100
    mask = torch.ones_like(tokens)
    if masked:
        mask[1, 4:] = 0
        labels[1, 4:] = -100
    out = model(input_ids=tokens, labels=labels, attention_mask=mask if masked else None)
    out.loss.backward()
    text = ", ".join(f'"{key}": {str(value).lower() if isinstance(value, bool) else repr(value)}'
                     for key, value in options.items()).replace("'", '"')
    print(f'{{"{case}", R"({{{text}}})", {str(masked).lower()}, {out.loss.item():.17g},')
    print("{" + ", ".join(f"{x:.17g}" for x in out.logits[1, 3].tolist()) + "}, {")
    for name, p in model.named_parameters():
        g = p.grad.flatten()
        print(f'{{"{name}", {g.norm().item():.17g}, {g.abs().max().item():.17g}, {g[g.numel() // 2].item():.17g}}},')
    print("}},")
print("};\n")

# Five steps on the four windows of 8 bytes that this text has.
TEXT = b"the cat sat on the mat, and so on"
model = make(vocab_size=257)
ids = torch.tensor(list(TEXT))
optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                               {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}],
                              lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
losses = []
for _ in range(5):
    logits = model(ids[:-1].reshape(4, 8)).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[1:])
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print(f'inline constexpr std::string_view kHfText = "{TEXT.decode()}";')
print("inline constexpr double kHfStepLosses[] = {" + ", ".join(f"{x:.17g}" for x in losses) + "};\n")
print("}  // namespace mstrain::golden")
