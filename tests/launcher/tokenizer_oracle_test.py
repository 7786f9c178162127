#!/usr/bin/env python3
"""`mstrain tokenize` gives the ids that tiktoken, tokenizers and sentencepiece give, for every character and over random
Unicode text.

Usage: tokenizer_oracle_test.py MSTRAIN. Skipped where no Python has the packages (tests/interpreter.py), or GPT-2's files
(MSTRAIN_TEST_DATA) are missing."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("MSTRAIN_TEST_DATA", ROOT.parent / "shared/data"))
UNICODE = pathlib.Path(os.environ.get("MSTRAIN_UNICODE_DATA", "/usr/share/unicode"))  # Debian's unicode-data
SEED = 7
TEXTS = 4000


def assigned_characters():
    """Those of Unicode 15.0, or of an older version where Python and the system know no other. What came later has no
    class here, and what has none may have one in the peers."""
    ages = UNICODE / "DerivedAge.txt"
    if ages.exists():
        codes = set()
        for line in ages.read_text().splitlines():
            span, _, age = line.split("#")[0].partition(";")
            if age.strip() and float(age) <= 15.0:
                begin, _, end = span.strip().partition("..")
                codes.update(range(int(begin, 16), int(end or begin, 16) + 1))
        version = "15.0"
    else:
        version = unicodedata.unidata_version
        if tuple(map(int, version.split("."))) > (15, 0, 0):
            print(f"Python's Unicode {version} is newer than 15.0 and {ages} is not there: ASCII alone is compared")
            return [chr(c) for c in range(128)]
        codes = {c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Co")}
    private = {*range(0xE000, 0xF900), *range(0xF0000, 0x110000)}
    surrogates = range(0xD800, 0xE000)
    characters = [chr(c) for c in sorted(codes - private - set(surrogates))]
    print(f"{len(characters)} characters of Unicode {version}")
    return characters


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def cut_by(bpe, pattern):
    """The pre-tokenizer of Llama 3 and Qwen2 in place of GPT-2's."""
    from tokenizers import Regex, pre_tokenizers
    bpe.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return bpe


def telling_tokenizer():
    """A byte-level BPE whose ids tell where text was cut: the last byte of a character becomes one token with an x, 1 or !
    behind it, and its first byte with a space before it, where both are in one piece."""
    import tiktoken
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    import tokenizers_vs_python as peers
    pairs = dict.fromkeys([bytes([b]) + c for b in range(256) for c in (b"x", b"1", b"!")] +
                          [b" " + bytes([b]) for b in range(256)])
    ranks = {bytes([b]): b for b in range(256)} | {pair: 256 + i for i, pair in enumerate(pairs)}
    spelled = {b: c for c, b in peers.byte_alphabet().items()}
    spell = lambda bytes_: "".join(spelled[b] for b in bytes_)  # noqa: E731
    bpe = Tokenizer(models.BPE(vocab={spell(token): i for token, i in ranks.items()},
                               merges=[(spell(p[:1]), spell(p[1:])) for p in pairs]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    encoding = tiktoken.Encoding("telling", pat_str=peers.PATTERN, mergeable_ranks=ranks, special_tokens={})
    return bpe, encoding.encode_ordinary


def check_every_character(mstrain, characters):
    texts = ["".join(f"x{c}x1{c}1!{c}! {c} {c}{c}\n" for c in characters[i:i + 100])
             for i in range(0, len(characters), 100)]
    bpe, with_tiktoken = telling_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tokenizer.json")
        bpe.save(str(path))
        found = ours(mstrain, path, texts)
    compare("every character, tiktoken", texts, found, with_tiktoken)
    compare("every character, tokenizers", texts, found, lambda t: bpe.encode(t).ids)
    signs = ["".join(f"'{c}{c}\n{c}\r\n {c}\t{c}'S{c}!{c}1{c}" for c in characters[i:i + 100])
             for i in range(0, len(characters), 100)]
    for name, pattern in {"Llama 3's pattern": LLAMA3, "Qwen2's pattern": QWEN2}.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokenizer.json")
            cut_by(bpe, pattern).save(str(path))
            compare(f"every character, {name}", texts + signs, ours(mstrain, path, texts + signs),
                    lambda t: bpe.encode(t).ids)


def random_texts(assigned):
    rng = random.Random(SEED)
    print(f"seed {SEED}, {TEXTS} texts")
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
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
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
    qwen = cut_by(Tokenizer(models.BPE()), QWEN2)
    qwen.normalizer = normalizers.NFC()
    qwen.decoder = decoders.ByteLevel()
    llama3 = cut_by(Tokenizer(models.BPE(ignore_merges=True)), LLAMA3)
    llama3.decoder = decoders.ByteLevel()
    for each, special in ((qwen, "<|endoftext|>"), (llama3, "<|begin_of_text|>")):
        each.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[special],
            show_progress=False))
    llama3.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", llama3.token_to_id("<|begin_of_text|>"))])
    return {"tokenizers, own BPE": bpe, "tokenizers, own Unigram": unigram, "tokenizers, as Qwen2": qwen,
            "tokenizers, as Llama 3": llama3}


def sentencepiece_bpe(folder):
    """A SentencePiece BPE with bytes for unknown characters, as Llama 2's, and as `transformers` makes tokenizer.json files of
    such models: with a normaliser (Llama 2) and with Metaspace (later ones)."""
    import sentencepiece
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    text = pathlib.Path(folder, "text.txt")
    text.write_text("\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(text.with_name("bpe")), vocab_size=1200, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=0.999, minloglevel=2)
    model = text.with_name("bpe.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    vocab = {processor.id_to_piece(i): i for i in range(len(processor))}
    pairs = [(vocab[piece], len(piece[:cut]), piece[:cut], piece[cut:]) for piece in vocab for cut in range(1, len(piece))
             if not piece.startswith("<") and piece[:cut] in vocab and piece[cut:] in vocab]
    made = {}
    for name in ("normaliser", "Metaspace"):
        bpe = Tokenizer(models.BPE(vocab=vocab, merges=[(a, b) for _, _, a, b in sorted(pairs)], unk_token="<unk>",
                                   fuse_unk=True, byte_fallback=True))
        if name == "normaliser":
            bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            bpe.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
        bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])
        bpe.add_special_tokens(["<unk>", "<s>", "</s>"])
        bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocab["<s>"])])
        path = pathlib.Path(folder, f"{name}.json")
        bpe.save(str(path))
        made[name] = (path, bpe)
    return model, processor, made


def check_sentencepiece_bpe(mstrain, texts):
    texts = texts + ["", " ", "  two  spaces ", " lead", "tab\tnew\nline", "한국어 テキスト 🙂 e\u0301"]
    special = [f"{a}</s>{b}<s> {a}" for a, b in zip(texts[::2], texts[1::2])]
    with tempfile.TemporaryDirectory() as folder:
        model, processor, made = sentencepiece_bpe(folder)
        compare("sentencepiece, BPE", texts, ours(mstrain, model, texts), processor.encode)
        for name, (path, bpe) in made.items():
            compare(f"tokenizers, BPE over characters, {name}", texts + special, ours(mstrain, path, texts + special),
                    lambda t: bpe.encode(t, add_special_tokens=False).ids)
            compare(f"tokenizers, BPE over characters, {name}, special", texts,
                    ours(mstrain, path, texts, "--add-special"), lambda t: bpe.encode(t).ids)


def fields(message):
    """(number, value) of each field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if size is None else size
        yield key >> 3, message[at:at + size]
        at += size


def converted(model):
    """A SentencePiece model as `transformers` makes a tokenizer.json of T5's."""
    import sentencepiece
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    normalizer = dict(fields(dict(fields(model.read_bytes()))[3]))
    unigram = Tokenizer(models.Unigram([(processor.id_to_piece(i), processor.get_score(i))
                                        for i in range(len(processor))], unk_id=processor.unk_id()))
    unigram.normalizer = normalizers.Sequence([
        normalizers.Precompiled(normalizer[2]), normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁")])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    unigram.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return unigram


def check_sentencepiece(mstrain, model, texts):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    lines = (model.parent / "botchan.txt").read_text().splitlines()
    compare("sentencepiece", lines + texts, ours(mstrain, model, lines + texts), processor.encode)
    lines += ["Ｆｕｌｌ　ｗｉｄｔｈ", "naïve café", "ﬁne ①②", "한국어 テキスト", "  two  spaces ", "tab\tnew"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tokenizer.json")
        unigram = converted(model)
        unigram.save(str(path))
        compare("tokenizers, Unigram with a character map", lines, ours(mstrain, path, lines),
                lambda t: unigram.encode(t).ids)


def check_checkpoints(mstrain, texts):
    """What a checkpoint of a char or byte tokenizer holds for Hugging Face gives the same ids, and the text back."""
    from tokenizers import Tokenizer
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text.txt").write_text("\n".join(texts), newline="")
        for name in ("char", "byte"):
            subprocess.run([mstrain, "--config", os.devnull, f"run.output_dir={folder}/{name}", "run.threads=1",
                            f"data={{train: {folder}/text.txt, tokenizer: {name}, seq_length: 4}}",
                            "model={hidden_size: 8, num_layers: 1, num_attention_heads: 1}", "batch.global=1",
                            "schedule.total_steps=1", "eval.interval=none"], check=True, capture_output=True)
            checkpoint = pathlib.Path(folder, name, "checkpoints/step-00000001")
            theirs = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
            compare(f"tokenizers, a checkpoint's {name}", texts, ours(mstrain, checkpoint, texts),
                    lambda t: theirs.encode(t).ids)
            assert all(theirs.decode(theirs.encode(t).ids) == t for t in texts)
            try:
                from transformers import AutoTokenizer
            except ImportError:
                continue
            auto = AutoTokenizer.from_pretrained(str(checkpoint))
            assert all(auto(t)["input_ids"] == theirs.encode(t).ids for t in texts), name


def main():
    interpreter.need("sentencepiece", "tiktoken", "tokenizers")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tokenizers_vs_python as peers
    mstrain = str(pathlib.Path(sys.argv[1]).resolve())
    characters = assigned_characters()
    check_every_character(mstrain, characters)
    texts = random_texts(characters)
    check_checkpoints(mstrain, [text for text in texts[:500] if text])
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in train_small().items():
            path = pathlib.Path(folder, "tokenizer.json")
            tokenizer.save(str(path))
            compare(name, texts, ours(mstrain, path, texts), lambda t: tokenizer.encode(t, add_special_tokens=False).ids)
            if "Unigram" in name or "Llama" in name:
                compare(name + ", special", texts, ours(mstrain, path, texts, "--add-special"),
                        lambda t: tokenizer.encode(t).ids)
    check_sentencepiece_bpe(mstrain, texts)
    if not (DATA / "gpt2/encoder.json").exists():
        interpreter.skip("GPT-2's files are not in MSTRAIN_TEST_DATA")
    found = ours(mstrain, DATA / "gpt2", texts)
    with_tiktoken = peers.with_tiktoken(DATA / "gpt2")
    compare("tiktoken", texts, found, with_tiktoken)
    compare("tokenizers", texts[:1000], found[:1000], peers.with_tokenizers(DATA / "gpt2"))
    special = [f"{a}<|endoftext|>{b}" for a, b in zip(texts[::2], texts[1::2])]
    compare("tiktoken, special", special, ours(mstrain, DATA / "gpt2", special),
            lambda t: with_tiktoken.__self__.encode(t, allowed_special="all"))
    if (DATA / "unigram/test_model.model").exists():
        check_sentencepiece(mstrain, DATA / "unigram/test_model.model", texts)


if __name__ == "__main__":
    main()
