"""Writes t5_hf.h: losses, logits and gradients of tiny T5 models with various options, by Hugging Face's implementation in
double precision, and the losses of five AdamW steps.

Usage: python tests/golden/t5_hf.py | clang-format > tests/golden/t5_hf.h   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from philox_weights import weight
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm

SIZES = dict(vocab_size=13, d_model=12, d_kv=4, d_ff=20, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
             relative_attention_max_distance=12, dropout_rate=0, decoder_start_token_id=0)
V11 = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
BATCH, SOURCE, TARGET = 2, 17, 9
CASES = {  # options of config.json, whether the model has a head of its own, whether the end of sample 1 is padding
    "v1_0": ({}, False, False),
    "v1_0_padded": ({}, False, True),
    "v1_1": (V11, True, False),
    "v1_1_padded": ({**V11, "num_decoder_layers": 3, "d_kv": 5}, True, True),
    "tied_unscaled": (V11, False, False),
    "own_head_scaled": ({"feed_forward_proj": "gated-silu"}, True, False),
    "buckets": ({"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "num_heads": 1,
                 "layer_norm_epsilon": 1e-2, "feed_forward_proj": "gelu"}, False, True),
}


def norm_in_double(self, x):  # theirs forms the mean of squares in f32
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


T5LayerNorm.forward = norm_in_double


def make(own_head, **options):
    config = T5Config(**{**SIZES, **options})
    config._attn_implementation = "eager"
    model = T5ForConditionalGeneration(config).double().eval()
    if own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    for stream, (name, p) in enumerate(model.named_parameters()):
        p.data = torch.tensor(weight(name, p.numel(), stream)).reshape(p.shape)
    return model


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


print("// Tiny T5 models as Hugging Face computes them in double precision. Written by t5_hf.py.")
print("#pragma once\n\n#include <cstdint>\n#include <string_view>\n#include <vector>\n\n#include \"tests/golden/gpt_hf.h\"\n\n"
      "namespace mstrain::golden {\n")
print("struct T5Case {\n  std::string_view name;\n  std::string_view options;  // JSON\n  bool own_head;\n"
      "  bool padded;  // the last 5 tokens of source 1, the last 3 labels\n  double loss;\n"
      "  std::vector<double> logits;  // of sample 1 at position 4\n  std::vector<HfGradient> gradients;\n};\n")
print("inline const std::vector<T5Case> kT5Cases = {")
for case, (options, own_head, padded) in CASES.items():
    model = make(own_head, **options)
    source = torch.tensor([[1 + (7 * b + 3 * t + b * t) % 12 for t in range(SOURCE)] for b in range(BATCH)])
    labels = torch.tensor([[1 + (5 * b + 4 * t + 1) % 12 for t in range(TARGET)] for b in range(BATCH)])
    mask = torch.ones_like(source)
    if padded:
        mask[1, -5:] = 0
        source[1, -5:] = 0
        labels[1, -3:] = -100
    out = model(input_ids=source, labels=labels, attention_mask=mask if padded else None)
    out.loss.backward()
    text = ", ".join(f'"{key}": {text_of(value)}' for key, value in options.items())
    print(f'{{"{case}", R"({{{text}}})", {text_of(own_head)}, {text_of(padded)}, {out.loss.item():.17g},')
    print("{" + ", ".join(f"{x:.17g}" for x in out.logits[1, 4].tolist()) + "}, {")
    for name, p in model.named_parameters():
        g = p.grad.flatten()
        print(f'{{"{name}", {g.norm().item():.17g}, {g.abs().max().item():.17g}, {g[g.numel() // 2].item():.17g}}},')
    print("}},")
print("};\n")

# Five steps on one batch of a model with a head of its own.
model = make(True, **V11)
optimizer = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                               {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}],
                              lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
source = torch.tensor([[1 + (7 * b + 3 * t + b * t) % 12 for t in range(SOURCE)] for b in range(BATCH)])
labels = torch.tensor([[1 + (5 * b + 4 * t + 1) % 12 for t in range(TARGET)] for b in range(BATCH)])
losses = []
for _ in range(5):
    loss = model(input_ids=source, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print("inline constexpr double kT5StepLosses[] = {" + ", ".join(f"{x:.17g}" for x in losses) + "};\n")
# Answers of the second model but for its layers: greedy and by beams, without their start and from their end on.
print("struct T5Answers {\n  int beams;\n  double length_penalty;\n  std::vector<std::vector<int32_t>> answers;\n};")
print("inline const std::vector<std::vector<int32_t>> kT5Questions = {{3, 9, 4, 1}, {12, 2, 2, 7, 5, 11, 8, 1}, {6, 1}};")
print("inline const std::vector<T5Answers> kT5Answers = {")
questions = [[3, 9, 4, 1], [12, 2, 2, 7, 5, 11, 8, 1], [6, 1]]
longest = max(map(len, questions))
model = make(True, **V11)
source = torch.tensor([q + [0] * (longest - len(q)) for q in questions])
mask = torch.tensor([[1] * len(q) + [0] * (longest - len(q)) for q in questions])
for beams, penalty in [(1, 1.0), (2, 1.0), (4, 1.0), (4, 0.0), (4, 2.5), (3, -1.0)]:
    out = model.generate(input_ids=source, attention_mask=mask, max_new_tokens=9, num_beams=beams, do_sample=False,
                         length_penalty=penalty, eos_token_id=1, pad_token_id=0)
    texts = []
    for row in out[:, 1:].tolist():
        texts.append("{" + ", ".join(map(str, row[:row.index(1)] if 1 in row else row)) + "}")
    print(f"{{{beams}, {penalty}, {{{', '.join(texts)}}}}},")
print("};\n")
print("}  // namespace mstrain::golden")
