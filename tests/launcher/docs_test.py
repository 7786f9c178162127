#!/usr/bin/env python3
"""The pages on training runs do what they say: every command that begins with `mstrain` is run, and every YAML snippet is laid over a
small configuration and read. (docs/fine_tuning.md has a test of its own, whose commands build on each other.)

Usage: docs_test.py MSTRAIN"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fine_tuning_test as tuning  # noqa: E402

ROOT = tuning.ROOT
PAGES = ["README.md", "docs/training.md", "docs/tokenizers.md", "docs/plans.md", "docs/precision.md", "docs/fusion.md"]
BASE = """
run: {name: my, threads: 1}
model: {hidden_size: 16, num_layers: 2, num_attention_heads: 2, max_position_embeddings: 64}
data: {train: text/, tokenizer: byte, seq_length: 32}
batch: {global: 8}
schedule: {total_steps: 40}
eval: {interval: 20, batches: 2}
"""
# What stands for the names that the pages leave open, and keys whose values are large there.
STANDS_FOR = {"FILE": "my.yaml", "DIR": "gpt2"}
TAKES_LONG = {"configs/gpt_quickstart.yaml": ["schedule.total_steps=2", "batch.global=1", "data.train=text/"],
              "configs/gpt_10b.yaml": ["memory.limit_gb=100000", "data.train=text/"]}
SERVES = "mstrain watch"


def snippets(page):
    """(line, language, text) of each fenced block."""
    text = (ROOT / page).read_text()
    for match in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match[1], match[2]


def prepare(folder):
    tuning.write_model(folder / "gpt2")
    (folder / "text").mkdir()
    for page in sorted((ROOT / "docs").glob("*.md")):
        (folder / "text" / page.name).write_text(page.read_text())
    text = "\n".join(page.read_text() for page in (folder / "text").iterdir())
    for name in ("web.txt", "src.txt", "tests.txt"):
        (folder / name).write_text(text[:20000])
    (folder / "text.jsonl").write_text('{"text": "the cat"}\n{"text": "sat"}\n')
    (folder / "data").mkdir()
    (folder / "my.yaml").write_text(BASE)
    (folder / "configs").symlink_to(ROOT / "configs")


def adapted(command, line):
    """The command of that line as it is run here: without its comment, with names that exist, an export into a folder of its own."""
    command = re.sub(r"\s+#.*", "", command).replace("--output DIR", f"--output exported-{line}")
    for name, stands_for in STANDS_FOR.items():
        command = re.sub(rf"(?<= ){name}\b", stands_for, command)
    for config, overrides in TAKES_LONG.items():
        if config in command:
            command += " " + " ".join(overrides)
    return command


def run_command(command, where, folder, environment):
    if command.startswith(SERVES):
        process = subprocess.Popen(["sh", "-c", "exec " + command + " --port 0"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0 and "http://127.0.0.1:" in line, (where, line)
        return
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, (where, command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])


def read_yaml(text, where, folder, environment):
    (folder / "snippet.yaml").write_text("extends: my.yaml\n" + text)
    run_command("mstrain --config snippet.yaml --print-config", where, folder, environment)


def main():
    mstrain = pathlib.Path(sys.argv[1]).resolve()
    environment = {**os.environ, "PATH": f"{mstrain.parent}:{os.environ['PATH']}"}
    counts = {"sh": 0, "yaml": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for run in ("a", "b"):
            run_command(f"mstrain --config my.yaml run.name={run}", "the runs that the pages look at", folder, environment)
        # A batch with the names that `mstrain forward` reads.
        tokens = (8).to_bytes(4, "little") * 8
        header = b'{"input_ids":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},"labels":{"dtype":"I32","shape":[2,4],"data_offsets":[32,64]}}'
        (folder / "in.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + tokens + tokens)
        for page in PAGES:
            for line, language, text in snippets(page):
                where = f"{page}:{line}"
                if language == "yaml":
                    read_yaml(text, where, folder, environment)
                    counts["yaml"] += 1
                elif language == "sh":
                    for command in text.splitlines():
                        if command.startswith("mstrain "):
                            run_command(adapted(command, line), where, folder, environment)
                            counts["sh"] += 1
    assert counts["sh"] > 20 and counts["yaml"] > 4, counts
    print(f"ran {counts['sh']} commands and read {counts['yaml']} YAML snippets of {', '.join(PAGES)}")


if __name__ == "__main__":
    main()
