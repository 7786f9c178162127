#!/usr/bin/env python3
"""Writes unicode_class_table.cc from the Unicode Character Database.

    python3 core/data/make_unicode_table.py /usr/share/unicode > core/data/unicode_class_table.cc

The folder holds UnicodeData.txt and PropList.txt (Debian's package unicode-data, unicode.org/Public/15.0.0/ucd)."""
import pathlib
import sys

OTHER, SPACE, LETTER, NUMBER = range(4)


def main():
    folder = pathlib.Path(sys.argv[1])
    classes = [OTHER] * 0x110000
    first = None
    for line in (folder / "UnicodeData.txt").read_text().splitlines():
        code, name, category = line.split(";")[:3]
        code = int(code, 16)
        if name.endswith(", First>"):
            first = code
            continue
        start, first = (code if first is None else first), None
        kind = {"L": LETTER, "N": NUMBER}.get(category[0], OTHER)
        classes[start:code + 1] = [kind] * (code + 1 - start)
    properties = (folder / "PropList.txt").read_text().splitlines()
    version = properties[0].removeprefix("# PropList-").removesuffix(".txt")
    for line in properties:
        codes, _, name = line.split("#")[0].partition(";")
        if name.strip() == "White_Space":
            start, _, end = codes.strip().partition("..")
            for code in range(int(start, 16), int(end or start, 16) + 1):
                classes[code] = SPACE
    starts = [c for c in range(len(classes)) if c == 0 or classes[c] != classes[c - 1]]
    words = [f"0x{start << 2 | classes[start]:06x}" for start in starts]
    print(f"// Made by make_unicode_table.py from Unicode {version}: do not edit.\n"
          '#include "core/data/unicode_class.h"\n\n'
          "namespace mstrain::unicode_detail {\n\n"
          "// First code point of a run * 4 + its class.\n"
          "// clang-format off\n"
          "extern const uint32_t kRuns[] = {")
    for at in range(0, len(words), 9):
        print("    " + ", ".join(words[at:at + 9]) + ",")
    print("};\n// clang-format on\n"
          f"extern const size_t kRunCount = {len(words)};\n\n"
          "}  // namespace mstrain::unicode_detail")


if __name__ == "__main__":
    main()
