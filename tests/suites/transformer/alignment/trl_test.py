#!/usr/bin/env python3
"""Fine-tuning, preferences, judgements and reward models have the loss curves of Hugging Face's `trl` on the same data, from the same weights.

Usage: trl_test.py MSTRAIN. Skipped where no Python has torch, transformers and trl (tests/interpreter.py)."""
import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import interpreter  # noqa: E402

interpreter.need("torch", "transformers>=5", "trl>=1", "safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ["HF_HUB_OFFLINE"] = "1"
import datasets  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from port import mstrain  # noqa: E402

STEPS, BATCH, RATE = 50, 8, 1e-3
KEYS = [f"batch.global={BATCH}", "data.shuffle=false", "data.packing=false", "optimizer.type=adamw", f"optimizer.lr={RATE}",
        "optimizer.betas=[0.9,0.999]", "optimizer.eps=1e-8", "optimizer.weight_decay=0", "optimizer.clip_grad=1",
        "schedule.type=constant", "schedule.warmup_steps=0", f"schedule.total_steps={STEPS}", "log.interval=1"]
MODEL = """
model:
  type: llama
  hidden_size: 32
  num_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  ffn_hidden_size: 48
  max_position_embeddings: 32
data: {split: 1, tokenizer: {type: byte}, seq_length: 24}
objective: OBJECTIVE
run: {name: NAME}
"""
CHAT = "{% for m in messages %}{{ m.role[0] + m.content + ';' }}{% endfor %}{% if add_generation_prompt %}a{% endif %}"


def in_order(trainer_class):
    class InOrder(trainer_class):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)
    return InOrder


def settings(config_class, folder, **more):
    return config_class(output_dir=str(folder / "trl"), per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=RATE,
                        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, report_to=[],
                        save_strategy="no", use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
                        max_length=25, dataset_num_proc=None, **more)


def trained_by_trl(trainer_class, config, folder, lines, model=None, **more):
    model = model or transformers.AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "base")
    tokenizer.eos_token = ";"
    tokenizer.pad_token = "~"
    model.config.pad_token_id = tokenizer.pad_token_id
    trainer = in_order(trainer_class)(model=model, args=config, train_dataset=datasets.Dataset.from_list(lines),
                                      processing_class=tokenizer, **more)
    trainer.train()
    return trainer, [row["loss"] for row in trainer.state.log_history if "loss" in row]


def rows_of(folder, name):
    return [json.loads(line) for line in (folder / f"out/{name}/metrics.jsonl").read_text().splitlines()]


def curve(folder, name, objective, begin="base", **keys):
    text = MODEL.replace("OBJECTIVE", objective).replace("NAME", name)
    (folder / f"{name}.yaml").write_text(text)
    mstrain("--config", f"{name}.yaml", f"model.init.from={begin}", *KEYS, *(f"{k}={v}" for k, v in keys.items()), folder=folder)
    return [row["loss"] for row in rows_of(folder, name) if "loss" in row]


def compare(name, ours, theirs):
    assert len(ours) == len(theirs), (name, len(ours), len(theirs))
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"{name}: from {ours[0]:.6f} to {ours[-1]:.6f}, apart by at most {worst:.2g}")
    assert worst <= 1e-4, name


def main():
    draw = random.Random(3)
    sums = [(draw.randrange(10, 100), draw.randrange(10, 100)) for _ in range(STEPS * BATCH)]
    answers = [{"prompt": f"{a}+{b}=", "response": str(a + b)} for a, b in sums]
    pairs = [{"prompt": f"{a}+{b}=", "chosen": str(a + b), "rejected": str(a + b + draw.choice((-10, -1, 1, 10, 100)))}
             for a, b in sums]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, lines in (("sft", answers), ("pairs", pairs)):
            (folder / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "base.yaml").write_text(MODEL.replace("OBJECTIVE", "{type: sft}").replace("NAME", "base"))
        mstrain("--config", "base.yaml", "data.train=sft.jsonl", *KEYS, "schedule.total_steps=20", folder=folder)
        mstrain("export", "--checkpoint", "out/base", "--output", "base", folder=folder)

        completions = [{"prompt": line["prompt"], "completion": line["response"]} for line in answers]
        _, losses = trained_by_trl(trl.SFTTrainer, settings(trl.SFTConfig, folder), folder, completions)
        assert len(losses) == STEPS
        compare("sft", curve(folder, "sft", "{type: sft, end: ';'}", **{"data.train": "sft.jsonl"}), losses)

        for kind, loss, beta in (("dpo", "sigmoid", 0.1), ("ipo", "ipo", 0.2)):
            objective = f"{{type: {kind}, end: ';', beta: {beta}}}"
            ours = curve(folder, kind, objective, **{"data.train": "pairs.jsonl", "data.valid": "pairs.jsonl"})
            config = settings(trl.DPOConfig, folder, beta=beta, loss_type=loss)
            trainer, losses = trained_by_trl(trl.DPOTrainer, config, folder, pairs, eval_dataset=datasets.Dataset.from_list(pairs))
            compare(f"{kind}, losses", ours, losses)
            held, theirs = rows_of(folder, kind)[-1], trainer.evaluate()
            if kind == "ipo":  # whose rewards are of sums there, though its loss is of means
                continue
            compare(f"{kind}, loss, margin, rewards and share of pairs",
                    [held[f"eval_{key}"] for key in ("loss", "margin", "chosen_reward", "rejected_reward", "accuracy")],
                    [theirs[f"eval_{key}"] for key in ("loss", "rewards/margins", "rewards/chosen", "rewards/rejected",
                                                       "rewards/accuracies")])
            assert held["eval_margin"] > 0, kind

        # Conversations, as a chat template writes them.
        (folder / "base/chat_template.jinja").write_text(CHAT)
        said = [{"prompt": [{"role": "user", "content": pair["prompt"]}],
                 **{key: [{"role": "assistant", "content": pair[key]}] for key in ("chosen", "rejected")}} for pair in pairs]
        (folder / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
        ours = curve(folder, "chat", "{type: dpo, end: ';'}",
                     **{"data.train": "said.jsonl", "data.tokenizer": "{type: hf, path: base}"})
        _, losses = trained_by_trl(trl.DPOTrainer, settings(trl.DPOConfig, folder, beta=0.1), folder, said)
        compare("dpo of conversations", ours, losses)
        (folder / "base/chat_template.jinja").unlink()

        ours = curve(folder, "kto", "{type: kto, end: ';', beta: 0.2, unwanted_weight: 0.7}", **{"data.train": "pairs.jsonl"})
        config = settings(trl.KTOConfig, folder, beta=0.2, undesirable_weight=0.7, train_sampling_strategy="sequential")
        judged = [{"prompt": pair["prompt"], "completion": pair[key], "label": key == "chosen"}
                  for pair in pairs for key in ("chosen", "rejected")]
        trainer, losses = trained_by_trl(trl.KTOTrainer, config, folder, judged)
        compare("kto, losses", ours, losses)
        points = [row["reference_point"] for row in rows_of(folder, "kto") if "reference_point" in row]
        compare("kto, reference points", points, [row["kl"] for row in trainer.state.log_history if "kl" in row])
        assert max(points) > 0

        score = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=1,
                                                                                dtype=torch.float32)
        score.save_pretrained(folder / "scored")
        ours = curve(folder, "reward", "{type: reward, end: ';', center: 0.05}", begin="scored",
                     **{"data.train": "pairs.jsonl", "data.valid": "pairs.jsonl", "model.head": "score"})
        config = settings(trl.RewardConfig, folder, center_rewards_coefficient=0.05, eos_token=";", pad_token="~")
        trainer, losses = trained_by_trl(trl.RewardTrainer, config, folder, pairs, model=score,
                                         eval_dataset=datasets.Dataset.from_list(pairs))
        compare("reward, losses", ours, losses)
        held, theirs = rows_of(folder, "reward")[-1], trainer.evaluate()
        compare("reward, loss, margin and share of pairs", [held[f"eval_{key}"] for key in ("loss", "margin", "accuracy")],
                [theirs[f"eval_{key}"] for key in ("loss", "margin", "accuracy")])
        # What training gives opens in transformers.
        mstrain("export", "--checkpoint", "out/reward", "--output", "model", folder=folder)
        opened = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "model", dtype=torch.float32)
        assert type(opened).__name__ == "LlamaForSequenceClassification" and opened.num_labels == 1
        for (name, a), (_, b) in zip(sorted(opened.state_dict().items()), sorted(trainer.model.state_dict().items())):
            assert (a - b).abs().max() <= 2e-4, name


main()
