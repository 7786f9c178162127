#!/usr/bin/env python3
"""The pages on training runs do what they say: every command that begins with `mstrain` is run, and every YAML snippet is laid over a
small configuration and read, or, where it names its file, written there for the commands. (docs/fine_tuning.md has a test of its own, whose commands build on each other.)

Usage: docs_test.py MSTRAIN"""
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fine_tuning_test as tuning  # noqa: E402

ROOT = tuning.ROOT
PAGES = ["README.md", "docs/training.md", "docs/tokenizers.md", "docs/plans.md", "docs/precision.md", "docs/fusion.md",
         "docs/t5.md", "docs/images.md"]
BASE = """
run: {name: my, threads: 1}
model: {hidden_size: 16, num_layers: 2, num_attention_heads: 2, max_position_embeddings: 64}
data: {train: text/, tokenizer: byte, seq_length: 32}
batch: {global: 8}
schedule: {total_steps: 40}
eval: {interval: 20, batches: 2}
"""
# Under the snippets of other pages, which say what their networks are.
BASE_OF_ANY = """
run: {name: any, threads: 1}
batch: {global: 4}
schedule: {total_steps: 2}
"""
BASES = {"docs/t5.md": BASE_OF_ANY, "docs/images.md": BASE_OF_ANY}
# The classifier that docs/images.md begins with.
VIT = """
run: {name: vit, threads: 1}
model: {type: vit, image_size: 16, patch_size: 8, hidden_size: 16, num_layers: 1, num_attention_heads: 2}
data: {train: flowers}
batch: {global: 4}
schedule: {total_steps: 1}
"""
# What stands for the names that the pages leave open, and keys whose values are large there.
STANDS_FOR = {"FILE": "my.yaml", "DIR": "gpt2"}
TAKES_LONG = {"configs/gpt_quickstart.yaml": ["schedule.total_steps=2", "batch.global=4", "data.train=text/"],
              "configs/t5_digits.yaml": ["schedule.total_steps=2", "run.threads=1", "eval.interval=none"],
              "flowers.yaml": ["schedule.total_steps=2", "batch.global=4", "run.threads=1"],
              "configs/gpt_10b.yaml": ["memory.limit_gb=100000", "data.train=text/"]}
SERVES = "mstrain watch"


def snippets(page):
    """(line, language, text) of each fenced block."""
    text = (ROOT / page).read_text()
    for match in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match[1], match[2]


def write_png(path, shade):
    """16 x 16 grey pixels, from dark to light."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + bytes((shade + 8 * (x + y)) % 256 for x in range(16)) for y in range(16))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


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
    (folder / "data/tinyshakespeare.txt").write_text(text)
    for i in range(16):
        write_png(folder / "flowers" / ("train" if i < 12 else "val") / ("daisy", "rose")[i % 2] / f"{i}.png", 15 * i)
    (folder / "vit.yaml").write_text(VIT)
    (folder / "my.yaml").write_text(BASE)
    for name in ("configs", "examples"):
        (folder / name).symlink_to(ROOT / name)


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


def read_yaml(text, page, where, folder, environment):
    """A snippet that opens with `# NAME.yaml` is that file, whole; others are laid over the page's base."""
    named = re.match(r"# (\w+\.yaml)\n", text)
    name = named[1] if named else "snippet.yaml"
    (folder / "base.yaml").write_text(BASES.get(page, BASE))
    (folder / name).write_text(text if named else "extends: base.yaml\n" + text)
    run_command(f"mstrain --config {name} --print-config", where, folder, environment)


def main():
    mstrain = pathlib.Path(sys.argv[1]).resolve()
    environment = {**os.environ, "PATH": f"{mstrain.parent}:{os.environ['PATH']}"}
    counts = {"sh": 0, "yaml": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for run in ("a", "b"):
            run_command(f"mstrain --config my.yaml run.name={run}", "the runs that the pages look at", folder, environment)
        for command in ("mstrain --config vit.yaml", "mstrain export --checkpoint out/vit --output vit-base-patch16-224-in21k"):
            run_command(command, "the directory that docs/images.md begins with", folder, environment)
        # A batch with the names that `mstrain forward` reads.
        tokens = (8).to_bytes(4, "little") * 8
        header = b'{"input_ids":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},"labels":{"dtype":"I32","shape":[2,4],"data_offsets":[32,64]}}'
        (folder / "in.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + tokens + tokens)
        for page in PAGES:
            for line, language, text in snippets(page):
                where = f"{page}:{line}"
                if language == "yaml":
                    read_yaml(text, page, where, folder, environment)
                    counts["yaml"] += 1
                elif language == "sh":
                    for command in text.splitlines():
                        if command.startswith(("mstrain ", "python3 examples/")):
                            run_command(adapted(command, line), where, folder, environment)
                            counts["sh"] += 1
    assert counts["sh"] > 20 and counts["yaml"] > 4, counts
    print(f"ran {counts['sh']} commands and read {counts['yaml']} YAML snippets of {', '.join(PAGES)}")


if __name__ == "__main__":
    main()
