"""Writes gpt_tiny.h: loss, logits and gradients of a tiny GPT-2, by Hugging Face's implementation in double precision.

Usage: python tests/golden/gpt_tiny.py | clang-format > tests/golden/gpt_tiny.h   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from philox_weights import weight
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, POSITIONS, WIDTH, LAYERS, HEADS, BATCH, LENGTH = 11, 8, 12, 2, 3, 2, 6

config = GPT2Config(vocab_size=VOCAB, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None)
config._attn_implementation = "eager"
model = GPT2LMHeadModel(config).double().eval()
parameters = dict(model.named_parameters())
for stream, (name, p) in enumerate(parameters.items()):
    p.data = torch.tensor(weight(name, p.numel(), stream)).reshape(p.shape)

tokens = torch.tensor([[(7 * b + 3 * t + b * t) % VOCAB for t in range(LENGTH)] for b in range(BATCH)])
targets = torch.tensor([[(5 * b + 4 * t + 1) % VOCAB for t in range(LENGTH)] for b in range(BATCH)])
targets[1, 2] = -100
logits = model(input_ids=tokens).logits
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
loss.backward()

print("// A tiny GPT-2 as Hugging Face computes it in double precision. Written by gpt_tiny.py.")
print("#pragma once\n\n#include <array>\n#include <string_view>\n\nnamespace mstrain::golden {\n")
print(f"inline constexpr double kGptLoss = {loss.item():.17g};")
last = logits[1, LENGTH - 1].tolist()
print("// Of sample 1 at the last position.")
print(f"inline constexpr std::array<double, {VOCAB}> kGptLogits{{")
print("    " + ",\n    ".join(f"{x:.17g}" for x in last) + "};\n")
print("struct GptGradient {\n  std::string_view name;\n  double norm;    // of all elements\n"
      "  double middle;  // element number count / 2\n};")
print("// In the order of the streams.")
print("inline constexpr GptGradient kGptGradients[] = {")
for name, p in parameters.items():
    g = p.grad.flatten()
    print(f'    {{"{name}", {g.norm().item():.17g}, {g[g.numel() // 2].item():.17g}}},')
print("};\n\n}  // namespace mstrain::golden")
