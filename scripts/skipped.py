#!/usr/bin/env python3
"""Lists the tests that were skipped, with the reason that each gave.

Usage: skipped.py RESULTS.xml..., as `ctest --output-junit` and GoogleTest write them."""
import re
import sys
import xml.etree.ElementTree as xml

REASONS = (r"^skipped: (.*)$",                           # of our Python tests
           r"Skipped\n(.*)\n", r"SkippedTest\n(.*)\n")    # of GoogleTest


def reason(case):
    output = case.findtext("system-out") or ""
    for pattern in REASONS:
        found = re.search(pattern, output, re.M)
        if found:
            return found[1].strip()
    return (case.find("skipped").get("message") or "no reason given").strip().splitlines()[-1]


def name(case):
    suite = case.get("classname")
    return case.get("name") if suite in (None, case.get("name")) else f"{suite}.{case.get('name')}"


skipped = sorted({(reason(case), name(case)) for path in sys.argv[1:] for case in xml.parse(path).iter("testcase")
                  if case.find("skipped") is not None})
print(f"{len(skipped)} tests were skipped" + ":" * bool(skipped))
for why, name in skipped:
    print(f"  {name}: {why}")
