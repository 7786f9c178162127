"""What the scripts share that write models as Hugging Face computes them in double precision: weights, gradients, files."""
import json
import pathlib

import torch
from philox_weights import weight


def set_weights(parameters):
    """Parameter number k of (name, parameter), in the order given, is drawn from stream k."""
    for stream, (name, p) in enumerate(parameters):
        p.data = torch.tensor(weight(name, p.numel(), stream)).reshape(p.shape)


def gradients(parameters):
    """[name, norm, greatest absolute value, element number count / 2] in the order of the streams."""
    rows = []
    for name, p in parameters:
        g = p.grad.flatten()
        rows.append([name, g.norm().item(), g.abs().max().item(), g[g.numel() // 2].item()])
    return rows


def text_of(value, indent=0):
    """JSON whose lists and objects of others have a line for each entry."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    line = json.dumps(value)
    if indent + len(line) <= 120 or not any(isinstance(x, (dict, list)) for x in inner):
        return line
    pad = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}: {text_of(x, indent + 1)}" for key, x in value.items()]
        return "{" + pad + f",{pad}".join(entries) + "}"
    return "[" + pad + f",{pad}".join(text_of(x, indent + 1) for x in value) + "]"


def write(script, **content):
    """The file beside the script, with its name."""
    pathlib.Path(script).with_suffix(".json").write_text(text_of(content) + "\n")
