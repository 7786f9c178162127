#!/usr/bin/env python3
"""Tiny random T5 models made by Hugging Face's `transformers` mean the same to mstrain, and go back unchanged.

Usage: t5_transformers_test.py MSTRAIN. Skipped where no Python has torch, transformers and safetensors."""
import json
import os
import subprocess

import port
import torch
from golden.adamw import adamw_steps
from port import MSTRAIN, STEPS, check_forward, difference, fine_tune, hide, mstrain
from transformers import AutoTokenizer, MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration

PAD, END = 256, 257  # as mstrain's bytes have them
SIZES = dict(vocab_size=300, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, dropout_rate=0.0,
             relative_attention_num_buckets=8, relative_attention_max_distance=14, pad_token_id=PAD, eos_token_id=END,
             decoder_start_token_id=PAD)
V11 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MODELS = {  # options, whether the head is one of its own
    "plain": ({}, False),
    "v11": (V11, True),
    "odd": ({**V11, "d_kv": 5, "num_heads": 1, "num_decoder_layers": 3}, True),
    "buckets": ({"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}, False),
    "tied_unscaled": (V11, False),
    "own_head_scaled": ({"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-3}, True),
    "gelu": ({"feed_forward_proj": "gelu"}, False),
}


def randomise(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if "layer_norm" in name else 0.0, 0.3)
    return model.eval()


def make_model(own_head=False, seed=0, **options):
    torch.manual_seed(seed)
    model = T5ForConditionalGeneration(T5Config(**{**SIZES, **options}))
    if own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    return randomise(model)


def example(mask=None, decoder=False):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 250, (3, 19), generator=generator)
    labels = torch.randint(0, 250, (3, 11), generator=generator)
    labels[1, 8:] = -100
    batch = {"input_ids": ids, "labels": labels}
    hide(batch, mask, (0, 3, 7))
    if decoder:
        batch["decoder_input_ids"] = torch.randint(0, 250, (3, 11), generator=generator)
        batch["decoder_attention_mask"] = torch.ones_like(labels)
        batch["decoder_attention_mask"][2, 6:] = 0
    return batch


def check(folder, directory, batch, **options):
    check_forward(T5ForConditionalGeneration, folder, directory, batch, **options)


def check_options(folder):
    for name, (options, own_head) in MODELS.items():
        make_model(own_head, **options).save_pretrained(folder / name)
        check(folder, name, example())
    for mask in ("right", "left"):
        check(folder, "v11", example(mask))
    check(folder, "plain", example("right", decoder=True))


def check_forms(folder):
    """The same weights in other files."""
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        make_model(True, **V11).to(dtype).save_pretrained(folder / name)
        check(folder, name, example(), dtype=dtype)
    make_model(True, **V11).save_pretrained(folder / "sharded", max_shard_size="20KB")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 2
    check(folder, "sharded", example())
    # As version 4 wrote them.
    for name in ("plain", "v11"):
        options, own_head = MODELS[name]
        make_model(own_head, **options).save_pretrained(folder / f"{name}_4")
        path = folder / f"{name}_4/config.json"
        config = json.loads(path.read_text())
        del config["scale_decoder_outputs"]
        config.update(tie_word_embeddings=not own_head, n_positions=512, torch_dtype=config.pop("dtype"))
        path.write_text(json.dumps(config))
        check(folder, f"{name}_4", example())
    torch.manual_seed(0)
    multilingual = MT5ForConditionalGeneration(MT5Config(**{**SIZES, "feed_forward_proj": "gated-gelu"}))
    multilingual.lm_head.weight = torch.nn.Parameter(torch.empty_like(multilingual.shared.weight))
    randomise(multilingual).save_pretrained(folder / "mt5")
    check_forward(MT5ForConditionalGeneration, folder, "mt5", example("right"))


def check_export(folder):
    for name in ("plain", "v11", "float16", "bfloat16", "sharded", "tied_unscaled", "plain_4", "v11_4"):
        a, b = port.check_export(T5ForConditionalGeneration, folder, name)
        assert a.config.scale_decoder_outputs == b.config.scale_decoder_outputs, name
        assert a.config.decoder_start_token_id == b.config.decoder_start_token_id, name


PAIRS = [("the cat", "sat"), ("on", "a longer target"), ("a much longer source", "x"), ("12", "21")]


def padded(texts, value, length):
    return torch.tensor([list(t.encode()) + [END] + [value] * (length - len(t) - 1) for t in texts])


def check_fine_tuning(folder):
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"input": a, "target": b}) + "\n" for a, b in PAIRS))
    sources = padded([source for source, _ in PAIRS], PAD, 24)
    labels = padded([target for _, target in PAIRS], -100, 24)
    for start in ("plain", "v11"):
        losses, checkpoint = fine_tune(
            folder, start, f"type: t5, init: {{from: {start}}}, extra_ids: 20",
            "task: pairs, train: pairs.jsonl, tokenizer: {type: byte}, seq_length: 24, packing: false")
        trained = T5ForConditionalGeneration.from_pretrained(folder / start)
        expected = adamw_steps(trained, lambda model: model(input_ids=sources, attention_mask=(sources != PAD).long(),
                                                            labels=labels).loss, steps=STEPS)
        for loss, wanted in zip(losses, expected):
            assert abs(loss - wanted) <= 2e-5 * max(1, wanted), (start, losses, expected)
        saved = T5ForConditionalGeneration.from_pretrained(checkpoint)
        for (name, p), q in zip(trained.named_parameters(), saved.parameters()):
            assert difference(p, q) <= 5e-4, (start, name, difference(p, q))
        check(folder, checkpoint, example())


def check_tokenizers(folder):
    """What `tokenizer.json` makes of a text is what the encoder is given: sentinels are one id, and the ending token is last."""
    text = "First <extra_id_0> x<extra_id_19><extra_id_20>"
    (folder / "text.txt").write_text(40 * text)
    for name in ("char", "byte"):
        run = folder / f"corrupted_{name}"
        mstrain("--config", os.devnull, f"run.output_dir={run}", "run.threads=1", "batch.global=1",
                     "model={type: t5, extra_ids: 20, hidden_size: 8, d_kv: 4, ffn_hidden_size: 8, num_layers: 1, "
                     "num_attention_heads: 2}",
                     f"data={{task: span_corruption, train: text.txt, tokenizer: {name}, seq_length: 32}}", "schedule.total_steps=1",
                     "eval.interval=none", folder=folder)
        exported = folder / f"exported_{name}"
        mstrain("export", "--checkpoint", run, "--output", exported, folder=folder)
        for directory in (exported, next((run / "checkpoints").glob("step-*"))):
            tokenizer = AutoTokenizer.from_pretrained(directory)
            config = T5ForConditionalGeneration.from_pretrained(directory).config
            vocabulary = json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"]
            own = (lambda t: [vocabulary[c] for c in t]) if name == "char" else (lambda t: list(t.encode()))
            top = len(vocabulary) + 21  # behind <pad> and </s>
            assert (config.pad_token_id, config.eos_token_id) == (len(vocabulary), len(vocabulary) + 1)
            assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (config.pad_token_id, config.eos_token_id)
            ids = own("First ") + [top] + own(" x") + [top - 19] + own("<extra_id_20>")
            assert tokenizer(text).input_ids == ids + [config.eos_token_id], (name, tokenizer(text).input_ids)
            assert tokenizer.decode(ids) == text, (name, tokenizer.decode(ids))


def check_generation(folder):
    """The likeliest answers, and those of searches, byte for byte."""
    for start in ("plain", "v11"):
        run = folder / f"run_{start}"
        checkpoint = next((run / "checkpoints").glob("step-*"))
        model = T5ForConditionalGeneration.from_pretrained(checkpoint).eval()
        model.generation_config.suppress_tokens = list(range(278, 300))  # ids of no token
        for prompt in ("a", "the cat", "12"):
            ids = torch.tensor([list(prompt.encode()) + [END]])
            for beams, penalty in ((1, 1.0), (4, 1.0), (3, 0.5)):
                out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12,
                                     num_beams=beams, length_penalty=penalty)[0].tolist()[1:]
                out = out[:out.index(END)] if END in out else out
                text = b"".join(f"<extra_id_{277 - i}>".encode() if i > END else bytes([i] if i < PAD else [])
                                for i in out)
                search = ["--greedy"] if beams == 1 else ["--beams", str(beams), "--length-penalty", str(penalty)]
                done = subprocess.run([MSTRAIN, "generate", "--model", run, "--prompt", prompt, "--tokens", "12", *search],
                                      capture_output=True)
                assert done.returncode == 0, done.stderr
                assert done.stdout == prompt.encode() + b"\n" + text + b"\n", (start, prompt, beams, out, done)


if __name__ == "__main__":
    port.run(check_options, check_forms, check_export, check_fine_tuning, check_generation, check_tokenizers)
