#!/usr/bin/env python3
"""hour-verdict.py VERIFY.json: one cell of a table: the verdict of verify, and what it names."""
import json
import sys

with open(sys.argv[1]) as file:
    document = json.load(file)
cells = []
for cpu in document["verdict"]["cpus"]:
    cells.append(cpu["state"])
    for leak in cpu["leaks"]:
        interruptions = leak["interruptions"]
        sender = interruptions["culprit"].get("text") or interruptions["culprit"]["kind"]
        cells.append(f"{interruptions['count']} × `{interruptions['cause']}` ({sender})")
    cells.extend(f"unknown: {doubt.get('text', doubt)}" for doubt in cpu["unknown"])
print(f"{document['evidence']['span_ns'] / 1e9:.0f} s: {', '.join(cells)}")
