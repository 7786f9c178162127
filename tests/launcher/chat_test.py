#!/usr/bin/env python3
"""Chat templates say what Jinja says, with transformers' settings: those of Llama, Mistral and Qwen over random conversations,
and expressions made at random. And `mstrain generate --chat` answers what transformers' generate() does.

Usage: chat_test.py MSTRAIN RENDER_TEMPLATES. Skipped where no Python has transformers and jinja2 (tests/interpreter.py)."""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interpreter  # noqa: E402

TEMPLATES = pathlib.Path(__file__).resolve().parent / "chat_templates"
SEED = 11
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "Says the \"weather\" é <now>",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "number", "default": 0.5}},
                   "required": ["city"], "return": None}}}
TEXTS = ["Hi", " Hello\n there \u00a0", "é😀 <|im_end|>", "", "[INST] a [/INST]</s>", "x\t", "{{ 1 }}{% if %}", "\u3000b\x1c"]


def random_conversation(rng):
    messages = [{"role": "system", "content": rng.choice(TEXTS)}] if rng.random() < 0.5 else []
    for _ in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        if rng.random() < 0.2:
            call = {"id": "abcdefghi", "type": "function",
                    "function": {"name": "weather", "arguments": {"city": "Rome", "n": [1, -2.5, True, None, 1e22]}}}
            messages += [{"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "22"}]
        if rng.random() < 0.8:
            messages.append({"role": "assistant", "content": rng.choice(TEXTS)})
    if rng.random() < 0.1:
        messages.insert(0, {"role": "assistant", "content": "first"})
    return messages


ATOMS = ["a", "b", "n", "s", "e", "t", "f", "m", "nothing", "none", "true", "'x y'", "' Ab,c '", "3", "0", "2.5", "[1, 'b', a]", "('x', 2)",
         "{'k': 1, 'z': s}", "range(4)", "m.k", "m['z']", "s[0]", "t[-1]", "s[::-1]", "t[1:]", "s[-3:2]"]
FILTERS = ["trim", "length", "upper", "lower", "default('d')", "default('d', true)", "first", "last", "list", "tojson", "tojson(indent=2)",
           "join(', ')", "replace('b', 'cc')", "string", "int", "reverse|list", "map('string')|list", "select('string')|list",
           "selectattr('k', 'defined')|list", "reject('none')|list", "items|list", "dictsort", "abs", "capitalize"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "boolean", "true", "false", "odd", "even",
         "in t", "eq 3", "divisibleby 3"]
METHODS = ["strip()", "rstrip('b')", "split(',')", "split()", "split(' ', 1)", "startswith('b')", "endswith(('c', 'b'))", "replace('b', '')",
           "title()", "get('k')", "items()|list", "keys()|list", "find('b')", "rsplit('b', 1)", "splitlines()", "removeprefix('b')"]
OPERATIONS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
VARIABLES = {"a": "b a b", "b": "B,b é", "n": -7, "s": "bcb xyz", "e": "", "t": [3, "b", {"k": 2}, None], "f": 0.1, "m": {"k": 5, "z": [1]}, "x": None}


def random_expression(rng, depth=0):
    kind = rng.randrange(9) if depth < 3 else 0
    part = lambda: random_expression(rng, depth + 1)  # noqa: E731
    if kind <= 2:
        return rng.choice(ATOMS)
    if kind == 3:
        return f"({part()})|{rng.choice(FILTERS)}"
    if kind == 4:
        return f"({part()}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 5:
        return f"({part()}).{rng.choice(METHODS)}"
    if kind == 6:
        return f"{part()} if {part()} else {part()}"
    if kind == 7:
        return f"not {part()}"
    return f"({part()}) {rng.choice(OPERATIONS)} ({part()})"


def random_template(rng):
    """An expression with white space around it, in a statement or none."""
    space = lambda: rng.choice(["", " ", "\n", "\n  ", "x\n\n", "\t", "  y "])  # noqa: E731
    sign = lambda: rng.choice(["", "", "-"])  # noqa: E731
    tag = lambda text: "{%" + rng.choice(["", "-", "+"]) + f" {text} " + rng.choice(["", "-"]) + "%}"  # noqa: E731
    shown = "{{" + sign() + f" {random_expression(rng)} " + sign() + "}}"
    around = space() + shown + space()
    kind = rng.randrange(6)
    if kind == 0:
        return space() + tag(f"if {random_expression(rng)}") + around + tag("else") + space() + tag("endif") + space()
    if kind == 1:
        return space() + tag(f"for i in {random_expression(rng)}") + around + "{{ loop.index ~ loop.last }}" + tag("endfor") + space()
    if kind == 2:
        return tag(f"set v = {random_expression(rng)}") + space() + "{# c #}" + around + "{{ v|default('none') }}" + space()
    if kind == 3:
        return tag("set ns = namespace(c=0)") + tag("for i in range(3) if i != 1") + tag("set ns.c = ns.c + i") + tag("endfor") + "{{ ns.c }}" + around
    if kind == 4:
        return tag("macro p(q, r='R')") + around + "{{ q ~ r }}" + tag("endmacro") + f"{{{{ p({rng.choice(ATOMS)}) }}}}" + space()
    return around


def compare(render, name, requests, expected, least_equal):
    done = subprocess.run([render], input="".join(json.dumps(each) + "\n" for each in requests), capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(found) == len(requests), (name, len(found), len(requests))
    counts = collections.Counter()
    for request, ours, theirs in zip(requests, found, expected):
        if "text" in ours:
            assert ours == theirs, (name, request, ours, theirs)
            counts["equal"] += 1
        elif "error" in theirs:
            counts["errors"] += 1
        else:
            counts["refused"] += 1  # what is left out here is an error, and never another text
            if os.environ.get("SHOW"): print(ours["error"][:80], "|", theirs["text"][:40].encode(), "|", request["template"][:110].encode())
    assert counts["equal"] >= least_equal * len(requests), (name, counts)
    print(f"{name}: {dict(counts)}")


def check_templates(render):
    from transformers.utils.chat_template_utils import render_jinja_template
    rng = random.Random(SEED)
    requests, expected = [], []
    for path in sorted(TEMPLATES.glob("*.jinja")):
        template = path.read_text()
        for _ in range(150):
            conversation, tools, asks = random_conversation(rng), rng.choice([None, None, [TOOL]]), rng.random() < 0.7
            try:
                text = render_jinja_template([conversation], tools=tools, chat_template=template, add_generation_prompt=asks, **SPECIAL)[0][0]
                expected.append({"text": text})
            except Exception as error:  # noqa: BLE001: whatever Jinja raises
                expected.append({"error": str(error)})
            requests.append({"template": template, "now": int(time.time()), "variables": {
                "messages": conversation, "tools": tools, "documents": None, "add_generation_prompt": asks, **SPECIAL}})
    compare(render, "templates of the families", requests, expected, 0.6)


def check_expressions(render):
    from transformers.utils.chat_template_utils import _compile_jinja_template
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    requests, expected = [], []
    for _ in range(4000):
        template = random_template(rng)
        try:
            expected.append({"text": _compile_jinja_template(template).render(**VARIABLES)})
        except Exception as error:  # noqa: BLE001
            expected.append({"error": str(error)})
        requests.append({"template": template, "now": 0, "variables": VARIABLES})
    compare(render, "random templates", requests, expected, 0.3)


def write_model(folder):
    """A tiny Llama with ChatML's tokens."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", additional_special_tokens=special)
    fast.chat_template = (TEMPLATES / "qwen2.jinja").read_text()
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=512, eos_token_id=fast.convert_tokens_to_ids("<|endoftext|>"))
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # so that answers vary and end
        model.lm_head.weight.normal_(0, 1.0)
    model.generation_config.eos_token_id = [fast.convert_tokens_to_ids(token) for token in ("<|endoftext|>", "<|im_end|>")]
    model.save_pretrained(folder)
    return model.eval(), fast


def expected_answers(model, tokenizer, system, turns, tokens):
    """The answers, and how many of them have no end."""
    import torch
    messages, answers, endless = ([{"role": "system", "content": system}] if system else []), [], 0
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)[0, ids.shape[1]:]
        stops = model.generation_config.eos_token_id
        ids = [int(i) for i in out]
        cut = next((at for at, i in enumerate(ids) if i in stops), len(ids))
        endless += cut == tokens
        answers.append(tokenizer.decode(ids[:cut]))
        messages.append({"role": "assistant", "content": answers[-1]})
    return answers, endless


def check_answers(mstrain):
    with tempfile.TemporaryDirectory() as name:
        model, tokenizer = write_model(name)
        base = [mstrain, "generate", "--model", name, "--chat", "--greedy", "--tokens", "12"]
        for system in (None, "Be brief."):
            more = ["--system", system] if system else []
            turns = ["Hello there", "and then?", "more, please"]
            # Bytes that make no character are printed as they are, and read again as U+FFFD: transformers' way of decoding.
            answers, endless = expected_answers(model, tokenizer, system, turns, 12)
            wanted = "".join(answer + "\n" for answer in answers)
            by_lines = subprocess.run(base + more, input="\n\n".join(turns).encode(), capture_output=True)
            assert by_lines.returncode == 0, by_lines.stderr
            assert by_lines.stdout.decode(errors="replace") == wanted, (by_lines.stdout.decode(errors="replace"), wanted)
            assert by_lines.stderr.count(b"cut before the end, at 12 tokens") == endless, (by_lines.stderr, endless)
            by_options = subprocess.run(base + more + [part for turn in turns for part in ("--prompt", turn)], capture_output=True)
            assert by_options.stdout == by_lines.stdout, (by_options, by_lines)
    print("answers agree with transformers")


def check_terminal(mstrain):
    """On a terminal it asks, and knows its commands."""
    import pty
    with tempfile.TemporaryDirectory() as name:
        write_model(name)
        ours, theirs = pty.openpty()
        process = subprocess.Popen([mstrain, "generate", "--model", name, "--chat", "--greedy", "--tokens", "4"], stdin=theirs,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(theirs)
        os.write(ours, b"hi\n/reset\nhi\n/system Be brief.\nhi\n/nosuch\n\x04")
        out, err = process.communicate()
        os.close(ours)
        parts = out.split(b"> ")
        assert process.returncode == 0 and len(parts) == 8, (process.returncode, out, err)
        assert parts[1] == parts[3] and parts[1] != b"", parts  # nothing of the first turn is left
        assert b"/nosuch: expected /reset or /system TEXT" in err, err
    print("the terminal answers")


def main():
    interpreter.need("transformers>=5", "jinja2", "torch", "tokenizers")
    mstrain, render = (str(pathlib.Path(each).resolve()) for each in sys.argv[1:3])
    check_templates(render)
    check_expressions(render)
    check_answers(mstrain)
    check_terminal(mstrain)


if __name__ == "__main__":
    main()
