#!/usr/bin/env python3
"""Races GRPO of mstrain against Hugging Face's TRL: the same small Llama with random weights in f32, prompts and answers of the same
lengths, no answer ends early, the same number of threads. Generation races transformers' own `generate` of the whole batch with kept keys
and values; a step is generation, rewards and an update of AdamW on all answers at once. Rounds take turns, after a step that counts nothing.

    python benchmarks/grpo_vs_trl.py --program build/bin/mstrain

Needs torch, transformers, datasets and trl from PyPI in the interpreter that runs it."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import race

SIZES = {  # layers, heads, key heads, width, FFN, prompts of a step, answers to each, tokens of a prompt, of an answer
    "small": (6, 8, 4, 256, 704, 16, 8, 32, 32),
    "long": (6, 8, 4, 256, 704, 8, 8, 256, 64),
    "tiny": (3, 4, 4, 96, 256, 128, 8, 6, 5),  # configs/grpo_addition.yaml
}
VOCAB = 257


def config_of(sizes, folder):
    layers, heads, key_heads, width, ffn, prompts, group, prompt, answer = sizes
    return f"""
run: {{output_dir: {folder}/out}}
model: {{type: llama, hidden_size: {width}, num_layers: {layers}, num_attention_heads: {heads}, num_key_value_heads: {key_heads},
        ffn_hidden_size: {ffn}, max_position_embeddings: {prompt + answer}, vocab_size: {VOCAB - 1}}}
data: {{train: {folder}/prompts.jsonl, split: 1, tokenizer: {{type: byte}}, seq_length: {prompt + answer}}}
objective: {{type: grpo, end: '~', grpo: {{group: {group}, answer_tokens: {answer}, rewards: [{{type: regex, pattern: '[a-m]$'}}]}}}}
batch: {{global: {prompts * group}, micro: {prompts * group}}}
optimizer: {{type: adamw, lr: 1.0e-6, weight_decay: 0.0, clip_grad: 1.0}}
schedule: {{type: constant, total_steps: STEPS}}
log: {{interval: 1}}
checkpoint: {{interval: 1000000}}
"""


def prompts_of(sizes):
    count, length = 4 * sizes[5], sizes[7]
    return ["".join(chr(97 + (7 * i + j * (i + 3)) % 26) for j in range(length)) for i in range(count)]


def ours(options, sizes, folder):
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": p, "answer": "x"}) + "\n" for p in prompts_of(sizes)))
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        steps = int(line) + 1
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "run.yaml").write_text(config_of(sizes, folder).replace("STEPS", str(steps)))
        subprocess.run([options.program, "--config", str(folder / "run.yaml"), f"run.threads={options.threads}"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [json.loads(row) for row in (folder / "out/metrics.jsonl").read_text().splitlines()][1:steps]
        writing = statistics.median(row["writing_seconds"] for row in rows)
        print(json.dumps({"writing": writing,
                          "step": statistics.median(row["writing_seconds"] + row["step_seconds"] for row in rows)}), flush=True)


def theirs(options, sizes, folder):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets
    import tokenizers
    import torch
    import transformers
    import trl

    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    layers, heads, key_heads, width, ffn, prompts, group, prompt, answer = sizes
    rows = prompts * group
    vocab = {chr(i) if 32 < i < 127 else f"<{i}>": i for i in range(VOCAB - 1)}
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=[]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<0>", pad_token="<0>")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads, hidden_size=width,
        intermediate_size=ffn, max_position_embeddings=prompt + answer, vocab_size=VOCAB - 1, pad_token_id=0, eos_token_id=0))
    times = []

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.begin = time.perf_counter()

        def on_step_end(self, *_, **__):
            times.append(time.perf_counter() - self.begin)

    config = trl.GRPOConfig(output_dir=str(folder / "trl"), per_device_train_batch_size=rows, num_generations=group,
                            max_completion_length=answer, beta=0.0, learning_rate=1e-6, lr_scheduler_type="constant",
                            max_grad_norm=1.0, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
                            save_strategy="no", disable_tqdm=True, logging_steps=10**6,
                            generation_kwargs={"min_new_tokens": answer, "pad_token_id": 0})
    ids = torch.tensor([[vocab[c] for c in p] for p in prompts_of(sizes)[:prompts] for _ in range(group)])

    def generation():
        begin = time.perf_counter()
        with torch.inference_mode():
            model.eval().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=answer, min_new_tokens=answer,
                                  do_sample=True, top_k=0, pad_token_id=0)
        return time.perf_counter() - begin

    generation()
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        steps = int(line)
        config.max_steps = steps + 1
        times.clear()
        data = datasets.Dataset.from_list([{"prompt": p} for p in prompts_of(sizes)])
        trainer = trl.GRPOTrainer(model=model, args=config, processing_class=tokenizer, train_dataset=data, callbacks=[Clock()],
                                  reward_funcs=lambda completions, **_: [float(c[-1:] < "n") for c in completions])
        with open(os.devnull, "w") as nowhere:
            out, sys.stdout = sys.stdout, nowhere
            trainer.train()
            sys.stdout = out
        print(json.dumps({"writing": statistics.median(generation() for _ in range(steps)),
                          "step": statistics.median(times[1:])}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/mstrain")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=4, help="of a round")
    race.add_race_options(parser, rounds=3)
    options = parser.parse_args()
    sizes = SIZES[options.size]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.contender:
            (ours if options.contender == "mstrain" else theirs)(options, sizes, folder)
            return
        environment = race.environment(options.threads, options.isa)
        commands = {kind: [sys.executable, __file__, *sys.argv[1:], "--contender", kind] for kind in ("mstrain", "trl")}
        contenders = {kind: race.Contender(command, environment) for kind, command in commands.items()}
        rounds = [{kind: contender.ask(options.steps) for kind, contender in contenders.items()}
                  for _ in range(options.rounds)]
        for contender in contenders.values():
            contender.close()
    rows, answer = sizes[5] * sizes[6], sizes[8]
    print(f"{options.size}: {rows} answers of {answer} tokens to prompts of {sizes[7]}, {options.threads} threads, "
          f"{options.isa or 'best'} instructions, {options.rounds} rounds of {options.steps} steps")
    for what, of in (("writing", "transformers' generate"), ("step", "TRL's step")):
        seconds = {kind: statistics.median(each[kind][what] for each in rounds) for kind in contenders}
        ratio = statistics.median(each["trl"][what] / each["mstrain"][what] for each in rounds)
        print(f"{what:8} mstrain {seconds['mstrain']:.3f} s  trl {seconds['trl']:.3f} s  {ratio:.2f}x {of}")


main()
