"""Writes gpt_hf.json: losses, logits and gradients of tiny GPT-2 models with various options, by Hugging Face's implementation
in double precision, and the losses of five AdamW steps.

Usage: python tests/golden/gpt_hf.py   (torch 2.15.0, transformers 5.23.0 wrote the file that is kept)
"""
import torch
from adamw import adamw_steps
from hf_cases import gradients, set_weights, write
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(vocab_size=11, n_positions=8, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
             bos_token_id=None, eos_token_id=None)
BATCH, LENGTH = 2, 6
CASES = {  # options of config.json, whether the last 2 positions of sample 1 are padding
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
    set_weights(model.named_parameters())
    return model


cases = []
for name, (options, masked) in CASES.items():
    model = make(**options)
    tokens = torch.tensor([[(7 * b + 3 * t + b * t) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    labels = torch.tensor([[(5 * b + 4 * t + 1) % 11 for t in range(LENGTH)] for b in range(BATCH)])
    labels[0, 2] = -100
    mask = torch.ones_like(tokens)
    if masked:
        mask[1, 4:] = 0
        labels[1, 4:] = -100
    logits = model(input_ids=tokens, attention_mask=mask if masked else None).logits
    # Theirs goes through single precision.
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    loss.backward()
    cases.append({"name": name, "config": options, "masked": masked, "loss": loss.item(),
                  "logits": logits[1, 3].tolist(), "gradients": gradients(model.named_parameters())})

# The four windows of 8 bytes that this text has.
TEXT = b"the cat sat on the mat, and so on"
ids = torch.tensor(list(TEXT))
losses = adamw_steps(make(vocab_size=257), lambda model: torch.nn.functional.cross_entropy(
    model(ids[:-1].reshape(4, 8)).logits.flatten(0, 1), ids[1:]))
write(__file__, cases=cases, text=TEXT.decode(), step_losses=losses)
