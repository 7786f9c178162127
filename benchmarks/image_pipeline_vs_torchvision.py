#!/usr/bin/env python3
"""Races the preparation of images against torchvision's v2 transforms, each in one thread: JPEG files of 500 x 375, a random
resized crop to 224, flip, RandAugment, normalisation. torchvision decodes with its own binding of libjpeg-turbo.

    .venv-bench/bin/pip install torch torchvision
    .venv-bench/bin/python benchmarks/image_pipeline_vs_torchvision.py --program build/benchmarks/image_pipeline

Rounds are interleaved; the ratio is the median of the rounds' ratios.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time


def write_pictures(folder, count):
    """Smooth pictures with some noise: about as many bytes as photographs."""
    import torch
    from torchvision.io import encode_jpeg
    generator = torch.Generator().manual_seed(1)
    (folder / "class").mkdir()
    for i in range(count):
        coarse = torch.rand(1, 3, 24, 32, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=(375, 500), mode="bicubic")[0]
        picture = ((smooth + 0.04 * torch.randn(3, 375, 500, generator=generator)).clamp(0, 1) * 255).to(torch.uint8)
        (folder / "class" / f"{i}.jpg").write_bytes(bytes(encode_jpeg(picture, quality=85).tolist()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/benchmarks/image_pipeline")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--images", type=int, default=64, help="in a round")
    options = parser.parse_args()
    import torch  # after --help, which needs none of it
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.RandAugment(),
                            v2.ToDtype(torch.float32, scale=True),
                            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_pictures(folder, options.images)
        paths = sorted(map(str, (folder / "class").iterdir()))
        process = subprocess.Popen([options.program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ours():
            process.stdin.write(f"{options.images}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["image_seconds"]

        def theirs():
            start = time.perf_counter()
            for path in paths:
                transform(decode_jpeg(read_file(path), mode=ImageReadMode.RGB))
            return (time.perf_counter() - start) / len(paths)

        ours(), theirs()
        rounds = [(ours(), theirs()) for _ in range(options.rounds)]
        process.stdin.close()
        process.wait()
        size = statistics.mean(pathlib.Path(path).stat().st_size for path in paths)
    print(f"{size / 1000:.0f} kB a file; one thread; median of {options.rounds} rounds")
    print(f"mstrain     {1e3 * statistics.median(a for a, _ in rounds):.2f} ms an image")
    print(f"torchvision {1e3 * statistics.median(b for _, b in rounds):.2f} ms an image, "
          f"{statistics.median(b / a for a, b in rounds):.2f} times that")


if __name__ == "__main__":
    main()
