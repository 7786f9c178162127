#!/usr/bin/env python3
"""`mstrain watch` as a browser and as a stranger on the network meet it, and the page itself in a headless Chromium.

Usage: watch_test.py MSTRAIN. Without Chromium the page is only fetched, and the test says so (exit status 77: skipped in part)."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

CONFIG = """
run: {name: small, threads: 1}
model: {hidden_size: 16, num_layers: 1, num_attention_heads: 2, max_position_embeddings: 16}
data: {train: text.txt, valid: {prose: text.txt, code: text.txt}, tokenizer: byte, seq_length: 16}
batch: {global: 4}
schedule: {total_steps: 20}
eval: {interval: 10, batches: 2}
log: {interval: 5}
"""
ODD = 'a <b>&"x" #%?ü'


@contextlib.contextmanager
def watching(mstrain, folder, *arguments):
    process = subprocess.Popen([mstrain, "watch", folder, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:(\d+)/", line).group(0), process
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def get(url, host=None):
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def status(url, host=None):
    try:
        get(url, host)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def data(url, *ids):
    return json.loads(get(url + "data.json?" + urllib.parse.urlencode([("run", i) for i in ids])))["runs"]


def train(mstrain, folder, name, *overrides):
    subprocess.run([mstrain, "--config", "run.yaml", f"run.output_dir=out/{name}", f"run.name={name}", *overrides],
                   cwd=folder, check=True, capture_output=True)


def serves_all_runs(mstrain, folder):
    out = folder / "out"
    with watching(mstrain, str(out)) as (url, process):
        assert json.loads(get(url + "runs.json")) == {"folder": str(out), "runs": []}
        assert json.loads(get(url + "data.json")) == {"runs": [], "sweep": None}
        (out / "circle").symlink_to("circle")
        train(mstrain, folder, "first")
        train(mstrain, folder, "second", "model.init.from=out/first/checkpoints/step-00000020", "optimizer.lr=1.0e-4")
        shutil.copytree(out / "first", out / ODD)
        (out / "broken").mkdir()
        (out / "broken" / "config.yaml").write_text("run: {name: [")
        (out / "begun").mkdir()
        (out / "begun" / "config.yaml").write_text("run: {name: begun}\n")
        (out / "led_astray").mkdir()
        (out / "led_astray" / "metrics.jsonl").symlink_to("metrics.jsonl")
        (folder / "sweep.json").symlink_to("sweep.json")  # above the folder of a run of `out`
        listed = {run["id"]: run for run in json.loads(get(url + "runs.json"))["runs"]}
        assert set(listed) == {"first", "second", ODD, "broken", "begun"}, listed
        assert "config.yaml" in listed["broken"]["error"]
        assert listed["first"]["status"] == "finished" and listed["first"]["step"] == 20
        first, second = data(url, "first", "second")
        assert first["train"]["step"] == [1, 5, 10, 15, 20]
        assert [s["set"] for s in first["eval"]] == ["", "code", "prose"]
        assert second["origin"]["run"] == first["real"] and second["origin"]["checkpoint"] == "step-00000020"
        assert dict(second["origin"]["config"])["optimizer.lr"] != dict(second["config"])["optimizer.lr"]
        assert "step 20/20" in first["log"], first["log"]
        assert [run["id"] for run in data(url, ODD)] == [ODD]
        # A line that is being written is no row yet; when it ends, it is.
        with open(out / "first" / "metrics.jsonl", "a") as metrics:
            metrics.write('{"step": 25, "loss": 1.')
            metrics.flush()
            assert data(url, "first")[0]["train"]["step"][-1] == 20
            metrics.write("5}\n")
            metrics.flush()
            assert data(url, "first")[0]["train"]["step"][-1] == 25
        return refuses_strangers(mstrain, folder, url, process)


def refuses_strangers(mstrain, folder, url, process):
    (folder / "secret").mkdir()
    (folder / "secret" / "config.yaml").write_text("run: {name: secret}\n")
    for path in ("../secret", "first/../../secret", str(folder / "secret"), "..", "/", "first/", "./first", "\0", "nosuch", "broken"):
        assert data(url, path) == [], path
    for path in ("../secret/config.yaml", "%2e%2e/secret/config.yaml", "first/config.yaml", "etc/passwd"):
        assert status(url + path) == 404, path
    assert status(url, host="evil.example") == 403
    assert status(url, host="localhost:1") == 200
    port = urllib.parse.urlsplit(url).port
    second = subprocess.run([mstrain, "watch", "out", "--port", str(port)], cwd=folder, capture_output=True, text=True)
    assert second.returncode == 1 and f"port {port} of 127.0.0.1 cannot be taken" in second.stderr, second
    for arguments, said in ((["nosuch"], "nosuch"), ([], "expected one FOLDER"), (["out", "--port", "70000"], "65535"), (["run.yaml"], "is no folder")):
        wrong = subprocess.run([mstrain, "watch", *arguments], cwd=folder, capture_output=True, text=True)
        assert wrong.returncode in (1, 2) and said in wrong.stderr, (arguments, wrong)
    with contextlib.suppress(OSError):  # another address of this machine, where it has one
        other = socket.gethostbyname(socket.gethostname())
        if not other.startswith("127."):
            with socket.socket() as attempt:
                attempt.settimeout(2)
                assert attempt.connect_ex((other, port)) != 0, other
    return process.poll() is None


def dom(chromium, url, scratch):
    """The page's elements after its script has run for some seconds of its own time."""
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}", "--virtual-time-budget=6000",
                           "--window-size=1280,2400", "--dump-dom", url], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return re.sub(r"<(script|style).*?</\1>", "", done.stdout, flags=re.S)


def shows_in_a_browser(mstrain, folder, chromium):
    out, scratch = folder / "out", folder / "browser"
    report = subprocess.run([mstrain, "report", "out/first", "out/second"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    static = dom(chromium, (folder / report).as_uri(), scratch)
    with watching(mstrain, str(out)) as (url, _):
        def shown(*ids):
            return dom(chromium, url + "#" + urllib.parse.urlencode([("run", i) for i in ids]), scratch)
        live = shown("first", "second")
        for page in (static, live):
            assert "Comparison of 2 runs" in page
            assert len(re.findall(r'<path d="M', page)) >= 8, page  # training and held-out curves of both
            assert "began from step-00000020" in page and "optimizer.lr" in page  # lineage and what differs
            assert "no data yet" not in page
        assert "cannot be read" in live and "begun" in live
        odd = shown(ODD)
        assert "&lt;b&gt;&amp;" in odd and "<b>&amp;" not in odd
        with open(out / "first" / "metrics.jsonl", "a") as metrics:
            metrics.write('{"step": 4321, "loss": 1.5}\n')
        assert "4,321" in shown("first") and "4,321" not in live
        assert "No run to show" in shown("nosuch")


def main():
    mstrain = str(pathlib.Path(sys.argv[1]).resolve())
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("the cat sat on the mat\n" * 200)
        (folder / "run.yaml").write_text(CONFIG)
        (folder / "out").mkdir()
        assert serves_all_runs(mstrain, folder)
        print("runs are served, strangers and paths from outside are not")
        if chromium is None:
            print("skipped: there is no chromium to show the page in (apt-get install chromium)")
            sys.exit(77)
        shows_in_a_browser(mstrain, folder, chromium)
        print("the page shows them in a browser")


if __name__ == "__main__":
    main()
