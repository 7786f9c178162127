"""Writes t5_hf.json: losses, logits and gradients of tiny T5 models with various options, by Hugging Face's implementation in
double precision, and the losses of five AdamW steps.

Usage: python tests/golden/t5_hf.py   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from adamw import adamw_steps
from hf_cases import gradients, set_weights, write
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm

SIZES = dict(vocab_size=13, d_model=12, d_kv=4, d_ff=20, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
             relative_attention_max_distance=12, dropout_rate=0, decoder_start_token_id=0)
V11 = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
BATCH, SOURCE, TARGET = 2, 17, 9
CASES = {  # options of config.json, whether the model has a head of its own, whether the last 5 tokens of source 1
    # and the last 3 labels are padding
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
    set_weights(model.named_parameters())
    return model


def batch():
    source = torch.tensor([[1 + (7 * b + 3 * t + b * t) % 12 for t in range(SOURCE)] for b in range(BATCH)])
    labels = torch.tensor([[1 + (5 * b + 4 * t + 1) % 12 for t in range(TARGET)] for b in range(BATCH)])
    return source, labels


cases = []
for name, (options, own_head, padded) in CASES.items():
    model = make(own_head, **options)
    source, labels = batch()
    mask = torch.ones_like(source)
    if padded:
        mask[1, -5:] = 0
        source[1, -5:] = 0
        labels[1, -3:] = -100
    out = model(input_ids=source, labels=labels, attention_mask=mask if padded else None)
    out.loss.backward()
    cases.append({"name": name, "config": options, "own_head": own_head, "padded": padded, "loss": out.loss.item(),
                  "logits": out.logits[1, 4].tolist(), "gradients": gradients(model.named_parameters())})

# A model with a head of its own: five steps on one batch; then answers, greedy and by beams, without their start and from
# their end on.
source, labels = batch()
losses = adamw_steps(make(True, **V11), lambda model: model(input_ids=source, labels=labels).loss)
QUESTIONS = [[3, 9, 4, 1], [12, 2, 2, 7, 5, 11, 8, 1], [6, 1]]
longest = max(map(len, QUESTIONS))
model = make(True, **V11)
source = torch.tensor([q + [0] * (longest - len(q)) for q in QUESTIONS])
mask = torch.tensor([[1] * len(q) + [0] * (longest - len(q)) for q in QUESTIONS])
answers = []
for beams, penalty in [(1, 1.0), (2, 1.0), (4, 1.0), (4, 0.0), (4, 2.5), (3, -1.0)]:
    out = model.generate(input_ids=source, attention_mask=mask, max_new_tokens=9, num_beams=beams, do_sample=False,
                         length_penalty=penalty, eos_token_id=1, pad_token_id=0)
    answers.append({"beams": beams, "length_penalty": penalty,
                    "answers": [row[:row.index(1)] if 1 in row else row for row in out[:, 1:].tolist()]})
write(__file__, cases=cases, step_losses=losses, questions=QUESTIONS, answers=answers)
