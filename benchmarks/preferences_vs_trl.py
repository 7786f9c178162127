#!/usr/bin/env python3
"""Races DPO and supervised fine-tuning of mstrain against Hugging Face's TRL on texts of very unlike lengths (log-normal, cut at --longest):
the same Llama, data, batches of 32, learning by AdamW, f32 and threads. Three contenders take turns: mstrain as it is; mstrain with one
micro-batch, whose rows are all as long as the longest text; and TRL with the fastest of several sizes of its device's batch, each padded to its own longest
text. A round is the median of some steps, after two that count nothing. Tokens of texts a second count no padding.

    python benchmarks/preferences_vs_trl.py --program build/bin/mstrain

Needs torch, transformers, datasets and trl from PyPI in the interpreter that runs it."""
import argparse
import copy
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import race

LAYERS, HEADS, KEY_HEADS, WIDTH, FFN = 6, 8, 4, 256, 704
BATCH, PAIRS, VOCAB = 32, 1024, 256
TRL_BATCHES = (2, 4, 8, 32)


def samples(longest):
    draw = random.Random(1)

    def text(median, most):
        return "".join(draw.choice("abcdefgh ijklmno") for _ in range(min(most, 1 + int(draw.lognormvariate(0, 0.8) * median))))

    out = []
    for _ in range(PAIRS):
        prompt = text(60, longest // 2)
        out.append({"prompt": prompt, "chosen": text(40, longest // 2 - 1), "rejected": text(40, longest // 2 - 1)})
    return out


def model_of(longest):
    return f"""{{type: llama, hidden_size: {WIDTH}, num_layers: {LAYERS}, num_attention_heads: {HEADS}, num_key_value_heads: {KEY_HEADS},
        ffn_hidden_size: {FFN}, max_position_embeddings: {longest}, vocab_size: {VOCAB}MORE}}"""


def config_of(options, folder, objective, steps, name, more=""):
    return f"""
run: {{output_dir: {folder}/{name}, threads: {options.threads}}}
model: {model_of(options.longest).replace("MORE", more)}
data: {{train: {folder}/{objective}.jsonl, split: 1, packing: false, tokenizer: {{type: byte}}, seq_length: {options.longest}}}
objective: {{type: {objective}, end: '~'}}
batch: {{global: {BATCH}}}
optimizer: {{type: adamw, lr: 1.0e-6, weight_decay: 0.0, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: {steps}}}
log: {{interval: 1}}
checkpoint: {{interval: 1000000}}
"""


def write_data(options, folder):
    pairs = samples(options.longest)
    (folder / "dpo.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "sft.jsonl").write_text("".join(json.dumps({"prompt": p["prompt"], "response": p["chosen"]}) + "\n" for p in pairs))


def ours(options, folder, keys):
    def run(objective, steps, name, more="", keys=()):
        (folder / "run.yaml").write_text(config_of(options, folder, objective, steps, name, more))
        shutil.rmtree(folder / name, ignore_errors=True)
        subprocess.run([options.program, "--config", str(folder / "run.yaml"), *keys], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return [json.loads(row) for row in (folder / name / "metrics.jsonl").read_text().splitlines()]

    write_data(options, folder)
    run("sft", 1, "base")
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        steps = int(line) + 2
        seconds = {}
        for objective in ("sft", "dpo"):
            rows = run(objective, steps, "out", f", init: {{from: {folder}/base}}", keys)
            seconds[objective] = statistics.median(row["step_seconds"] for row in rows[2:steps])
        print(json.dumps(seconds), flush=True)


def theirs(options, folder):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets
    import tokenizers
    import torch
    import transformers
    import trl

    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.set_seed(1)
    vocab = {chr(i) if 32 <= i < 127 else f"<{i}>": i for i in range(VOCAB)}
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=[]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<0>", pad_token="<1>")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, hidden_size=WIDTH,
        intermediate_size=FFN, max_position_embeddings=options.longest, vocab_size=VOCAB, pad_token_id=1, eos_token_id=0))
    reference = copy.deepcopy(model)
    times = []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.begin = time.perf_counter()

        def on_step_end(self, *_, **__):
            times.append(time.perf_counter() - self.begin)

    pairs = samples(options.longest)
    data = {"dpo": pairs, "sft": [{"prompt": p["prompt"], "completion": p["chosen"]} for p in pairs]}

    def train(objective, each, steps):
        kind = {"dpo": (trl.DPOConfig, trl.DPOTrainer), "sft": (trl.SFTConfig, trl.SFTTrainer)}[objective]
        config = kind[0](output_dir=str(folder / "trl"), per_device_train_batch_size=each, max_length=options.longest,
                         gradient_accumulation_steps=BATCH // each, max_steps=steps + 2, learning_rate=1e-6, weight_decay=0.0,
                         lr_scheduler_type="constant", max_grad_norm=1.0, use_cpu=True, bf16=False, gradient_checkpointing=False,
                         report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=10**6)
        more = {"ref_model": reference} if objective == "dpo" else {}
        times.clear()
        with open(os.devnull, "w") as nowhere:
            out, sys.stdout = sys.stdout, nowhere
            kind[1](model=model, args=config, processing_class=tokenizer, train_dataset=datasets.Dataset.from_list(data[objective]),
                    callbacks=[Clock()], **more).train()
            sys.stdout = out
        return statistics.median(times[2:])

    best = {objective: min(TRL_BATCHES, key=lambda each: train(objective, each, 2)) for objective in data}
    print(json.dumps(best), flush=True)
    for line in sys.stdin:
        print(json.dumps({objective: train(objective, best[objective], int(line)) for objective in data}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/mstrain")
    parser.add_argument("--longest", type=int, default=512, help="tokens of a text")
    parser.add_argument("--steps", type=int, default=4, help="of a round")
    race.add_race_options(parser, rounds=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.contender:
            if options.contender == "trl":
                theirs(options, folder)
            else:
                ours(options, folder, ["batch.micro=32"] if options.contender == "whole" else [])
            return
        environment = race.environment(options.threads, options.isa)
        commands = {kind: [sys.executable, __file__, *sys.argv[1:], "--contender", kind] for kind in ("mstrain", "whole", "trl")}
        contenders = {kind: race.Contender(command, environment) for kind, command in commands.items()}
        rounds = [{kind: contender.ask(options.steps) for kind, contender in contenders.items()} for _ in range(options.rounds)]
        for contender in contenders.values():
            contender.close()
    pairs = samples(options.longest)
    lengths = {"sft": [len(p["prompt"]) + len(p["chosen"]) for p in pairs],
               "dpo": [2 * len(p["prompt"]) + len(p["chosen"]) + len(p["rejected"]) for p in pairs]}
    print(f"batches of {BATCH}, texts of {statistics.mean(lengths['sft']):.0f} tokens on average, {max(lengths['sft'])} at most; "
          f"{options.threads} threads, {options.isa or 'best'} instructions, {options.rounds} rounds of {options.steps} steps; "
          f"TRL's device batches {contenders['trl'].first}")
    for what in ("sft", "dpo"):
        seconds = {kind: statistics.median(each[kind][what] for each in rounds) for kind in contenders}
        ratios = [statistics.median(each[kind][what] / each["mstrain"][what] for each in rounds) for kind in ("trl", "whole")]
        print(f"{what}  mstrain {seconds['mstrain']:.3f} s ({BATCH * statistics.mean(lengths[what]) / seconds['mstrain']:.0f} tokens/s)  "
              f"trl {seconds['trl']:.3f} s  {ratios[0]:.2f}x TRL's step  whole rows {seconds['whole']:.3f} s  {ratios[1]:.2f}x theirs")


main()
