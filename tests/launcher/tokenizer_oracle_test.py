#!/usr/bin/env python3
"""`mstrain tokenize` gives the ids that tiktoken, tokenizers and sentencepiece give, over random Unicode text.

Usage: tokenizer_oracle_test.py MSTRAIN. Exits with 77 (skipped) where the packages or GPT-2's files (MSTRAIN_TEST_DATA)
are missing; set MSTRAIN_TOKENIZERS_PYTHON to an interpreter that has tiktoken, tokenizers and sentencepiece, or create
the virtual environment .venv-tokenizers."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("MSTRAIN_TEST_DATA", ROOT.parent / "shared/data"))
SEED = 7
TEXTS = 4000


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def with_packages():
    """Starts this program again under an interpreter that has the packages."""
    candidates = [os.environ.get("MSTRAIN_TOKENIZERS_PYTHON"), ROOT / ".venv-tokenizers/bin/python"]
    for candidate in candidates:
        if candidate and pathlib.Path(candidate).exists() and str(candidate) != sys.executable:
            probe = [candidate, "-c", "import tiktoken, tokenizers, sentencepiece"]
            if subprocess.run(probe, capture_output=True).returncode == 0:
                os.execv(candidate, [str(candidate), *sys.argv])
    skip("the Python packages tiktoken, tokenizers and sentencepiece are not installed")


def random_texts():
    rng = random.Random(SEED)
    print(f"seed {SEED}, {TEXTS} texts, Unicode {unicodedata.unidata_version}")
    # Characters that are newer than the peers' tables would be an unfair question.
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    spaces = [c for c in assigned if c.isspace()]
    words = ["12", "'ll", "'re", " the", "!?", "é", "e\u0301", "ﬁ", "１", "  ", "한국", "👩‍👩‍👧"]

    def part():
        kind = rng.randrange(8)
        return rng.choice(assigned if kind < 2 else "abcXYZ'stremvd" if kind < 5 else " \n\t  " if kind == 5
                          else spaces if kind == 6 else words)
    return ["".join(part() for _ in range(rng.randrange(1, 60))) for _ in range(TEXTS)]


def ours(mstrain, tokenizer, texts, *more):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "in.jsonl")
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        run = subprocess.run([mstrain, "tokenize", "--tokenizer", str(tokenizer), "--input", str(path), "--output", "-",
                              "--format", "jsonl", *more], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return [json.loads(line) for line in run.stdout.splitlines()]


def compare(name, texts, found, encode):
    assert len(found) == len(texts), (name, len(found), len(texts))
    for text, ids in zip(texts, found):
        assert ids == encode(text), (name, text, ids, encode(text))
    print(f"{name}: {len(texts)} texts agree")


def train_small():
    """tokenizer.json files of tokenizers' own making, as transformers would save them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    texts = [line for page in sorted((ROOT / "docs").glob("*.md")) for line in page.read_text().splitlines()]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"],
        show_progress=False))
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    unigram.decoder = decoders.Metaspace()
    unigram.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return {"tokenizers, own BPE": bpe, "tokenizers, own Unigram": unigram}


def main():
    try:
        import sentencepiece
        import tiktoken  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError:
        with_packages()
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tokenizers_vs_python as peers
    mstrain = str(pathlib.Path(sys.argv[1]).resolve())
    texts = random_texts()
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in train_small().items():
            path = pathlib.Path(folder, "tokenizer.json")
            tokenizer.save(str(path))
            compare(name, texts, ours(mstrain, path, texts), lambda t: tokenizer.encode(t, add_special_tokens=False).ids)
            if "Unigram" in name:
                compare(name + ", special", texts, ours(mstrain, path, texts, "--add-special"),
                        lambda t: tokenizer.encode(t).ids)
    if not (DATA / "gpt2/encoder.json").exists():
        skip("GPT-2's files are not in MSTRAIN_TEST_DATA")
    found = ours(mstrain, DATA / "gpt2", texts)
    compare("tiktoken", texts, found, peers.with_tiktoken(DATA / "gpt2"))
    compare("tokenizers", texts[:1000], found[:1000], peers.with_tokenizers(DATA / "gpt2"))
    model = DATA / "unigram/test_model.model"
    if model.exists():
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        lines = (DATA / "unigram/botchan.txt").read_text().splitlines() + texts
        compare("sentencepiece", lines, ours(mstrain, model, lines), processor.encode)


if __name__ == "__main__":
    main()
