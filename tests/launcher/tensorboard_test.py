#!/usr/bin/env python3
"""TensorBoard's own reader finds in the event files of a run what metrics.jsonl says, also after the run went on.

Usage: tensorboard_test.py MSTRAIN. Skipped where no Python has `tensorboard` (tests/interpreter.py)."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

CONFIG = """
run: {name: small, threads: 1, output_dir: run}
model: {hidden_size: 16, num_layers: 1, num_attention_heads: 2, max_position_embeddings: 16}
data: {train: text.txt, tokenizer: {type: byte}, seq_length: 16}
batch: {global: 4}
schedule: {total_steps: 30}
eval: {interval: 10, batches: 2, prompts: ["the"], sample_tokens: 4}
log: {interval: 5}
"""
TAGS = {"loss": "train/loss", "lr": "train/lr", "grad_norm": "train/grad_norm",
        "tokens_per_second": "train/tokens_per_second", "eval_loss": "eval/loss",
        "eval_perplexity": "eval/perplexity", "eval_bits_per_byte": "eval/bits_per_byte", "eval_accuracy": "eval/accuracy"}


def main():
    interpreter.need("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    mstrain = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text.txt").write_text("the cat sat on the mat\n" * 200)
        pathlib.Path(folder, "run.yaml").write_text(CONFIG)
        for total in (30, 45):  # the second call goes on: a second file, from which earlier steps are read as well
            subprocess.run([mstrain, "--config", "run.yaml", f"schedule.total_steps={total}",
                            "schedule.type=constant"], cwd=folder, check=True, capture_output=True)
        events = EventAccumulator(str(pathlib.Path(folder, "run")), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        rows = [json.loads(line) for line in pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()]
        for key, tag in TAGS.items():
            wanted = [(row["step"], row[key]) for row in rows if key in row]
            found = [(event.step, event.value) for event in events.Scalars(tag)]
            assert [step for step, _ in found] == [step for step, _ in wanted], (tag, found, wanted)
            for (_, value), (_, expected) in zip(found, wanted):
                assert abs(value - expected) <= 1e-6 * abs(expected), (tag, value, expected)
        from tensorboard.plugins.hparams import plugin_data_pb2
        plugin = plugin_data_pb2.HParamsPluginData.FromString(
            events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
        parameters = plugin.session_start_info.hparams
        assert parameters["model.hidden_size"].number_value == 16 and parameters["run.name"].string_value == "small", parameters
        assert parameters["data.shuffle"].bool_value is True and parameters["schedule.type"].string_value == "constant", parameters
        samples = events.Tensors("sample/the")
        texts = [row["samples"][0]["text"] for row in rows if "samples" in row]
        decoded = [s.tensor_proto.string_val[0].decode(errors="replace") for s in samples]
        assert decoded == texts, (decoded, texts)
    print(f"TensorBoard read {len(rows)} rows as they stand in metrics.jsonl")


if __name__ == "__main__":
    main()
