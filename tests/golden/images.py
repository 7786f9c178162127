"""Writes images.h: small PNG and JPEG files with the pixels that PIL decodes, and one picture resized by PIL and changed by
torchvision's RandAugment operations.

Usage: python tests/golden/images.py > tests/golden/images.h   (torchvision 0.29.2 wrote the file that is kept)
"""
import io

import numpy
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

HEIGHT, WIDTH = 7, 9


def picture(height, width, channels):
    y, x, c = numpy.meshgrid(numpy.arange(height), numpy.arange(width), numpy.arange(channels), indexing="ij")
    return (20 + (9 * x * (c + 1) + 23 * y + 5 * x * y + 40 * c) % 200).astype(numpy.uint8)


def text(data):
    return '"' + data.hex() + '"'


rgb = picture(HEIGHT, WIDTH, 3)
grey = picture(HEIGHT, WIDTH, 1)[:, :, 0]
large = Image.fromarray(picture(40, 52, 3))
coloured = Image.fromarray(rgb)


def file_of(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


cmyk = Image.merge("CMYK", [Image.fromarray(picture(16, 16, 4)[:, :, c]) for c in range(4)])
with_alpha = Image.fromarray(numpy.dstack([rgb, grey]))
FILES = {
    "rgb": file_of(coloured, "PNG"),
    "grey": file_of(Image.fromarray(grey), "PNG"),
    "palette": file_of(coloured.quantize(16), "PNG"),
    "alpha": file_of(with_alpha, "PNG"),
    "bits": file_of(Image.fromarray(grey > 120), "PNG"),
    "jpeg": file_of(Image.fromarray(picture(16, 24, 3)), "JPEG", quality=90),
    "grey_jpeg": file_of(Image.fromarray(picture(16, 24, 1)[:, :, 0]), "JPEG"),
    "progressive": file_of(Image.fromarray(picture(16, 24, 3)), "JPEG", progressive=True),
    "cmyk": file_of(cmyk, "JPEG"),
}

print("// Small pictures as PIL and torchvision read and change them, in hexadecimal digits. Written by images.py.")
print("// clang-format off\n#pragma once\n\n#include <string_view>\n\nnamespace mstrain::golden {\n")
print("struct PictureFile {\n  std::string_view name, file;\n  int height, width, channels;\n  std::string_view pixels;\n};")
print("inline constexpr PictureFile kPictureFiles[] = {")
for name, data in FILES.items():
    image = Image.open(io.BytesIO(data))
    is_grey = image.mode in ("L", "1")
    pixels = numpy.array(image.convert("L" if is_grey else "RGB"))
    print(f'  {{"{name}", {text(data)}, {image.height}, {image.width}, {1 if is_grey else 3}, {text(pixels.tobytes())}}},')
print("};\n")
print(f'inline constexpr PictureFile kLargeJpeg = {{"large", {text(file_of(large, "JPEG", quality=95, subsampling=0))}, '
      f'40, 52, 3, ""}};\n')
print("struct PictureSize {\n  int height, width;\n  std::string_view pixels;\n};")
print(f"inline constexpr std::string_view kPicture = {text(rgb.tobytes())};  // {HEIGHT} x {WIDTH} x 3")
print("inline constexpr PictureSize kResizedPictures[] = {")
for height, width in [(7, 4), (3, 9), (14, 20), (5, 5), (1, 1)]:
    data = coloured.resize((width, height), Image.Resampling.BILINEAR).tobytes()
    print(f"  {{{height}, {width}, {text(data)}}},")
print("};\n")

STRENGTH = 9 / 30
CHANGES = {"Identity": 0, "ShearX": .3 * STRENGTH, "ShearY": .3 * STRENGTH,
           "TranslateX": int(150 / 331 * WIDTH * STRENGTH), "TranslateY": int(150 / 331 * HEIGHT * STRENGTH),
           "Rotate": 30 * STRENGTH, "Brightness": .9 * STRENGTH, "Color": .9 * STRENGTH, "Contrast": .9 * STRENGTH,
           "Sharpness": .9 * STRENGTH, "Posterize": 8 - round(4 * STRENGTH), "Solarize": 1 - STRENGTH,
           "AutoContrast": 0, "Equalize": 0}
print("struct ChangedPicture {\n  std::string_view name;\n  double sign;\n  std::string_view pixels;\n};")
print("inline constexpr ChangedPicture kChangedPictures[] = {")
augment = v2.RandAugment()
tensor = torch.tensor(rgb).permute(2, 0, 1)
for name, magnitude in CHANGES.items():
    for sign in (1, -1):
        if sign == -1 and name in ("Identity", "Posterize", "Solarize", "AutoContrast", "Equalize"):
            continue
        changed = augment._apply_image_or_video_transform(tensor, name, sign * magnitude, InterpolationMode.NEAREST, {torch.Tensor: 0, type(tensor): 0})
        print(f'  {{"{name}", {sign}, {text(changed.permute(1, 2, 0).numpy().tobytes())}}},')
print("};\n\n}  // namespace mstrain::golden")
