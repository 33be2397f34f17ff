#!/usr/bin/env python3
"""Figures of README.md and docs/MANUAL.md, written from the shipped recordings.

    readme_figures.py FUSEBOX README.md            writes them
    readme_figures.py FUSEBOX README.md --check    says which are others; exit status 1 when any is

A text between <!--figures SCRIPT: TEMPLATE--> and <!--end--> is TEMPLATE with each {COLUMN FIGURE} written out: what
`fusebox run SCRIPT COLUMN --device replay:h200 --format csv` says of that column. FIGURE is wall, gpu, launches or
bytes (those measured, read and written). In a screen (a block of code below <!--screen SCRIPT: COLUMN, COLUMN …-->) the
rows that have figures are held to the same columns. What is not recorded has its sign: ≈ composed, ~ predicted; † recorded of source that has changed since.
"""
import csv
import re
import subprocess
import sys

SIGNS = {"recorded": "", "composed": "≈", "predicted": "~"}
ROWS = {"wall": "wall", "vs 1": "times", "launches": "launches", "device busy": "gpu", "device idle": "idle"}  # of a screen
TEXT = re.compile(r"<!--figures ([^:]+): (.*?)-->.*?<!--end-->", re.S)
SCREEN = re.compile(r"(<!--screen ([^:]+): (.*?)-->\s*```\n)(.*?)(```)", re.S)
PLACE = re.compile(r"\{(\S+) (\w+)\}")


def three(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def time(us):
    for unit, size in (("µs", 1), ("ms", 1e3), ("s", 1e6)):
        if us / size < 999.5 or unit == "s":
            return f"{three(us / size)} {unit}"


def bytes_of(n):
    for unit, size in (("B", 1), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if n / size < 999.5 or unit == "GB":
            return f"{three(n / size)} {unit}"


class Figures:
    """Each script is run once, with all columns that its templates name."""

    def __init__(self, fusebox):
        self.fusebox, self.wanted, self.rows = fusebox, {}, {}

    def want(self, script, columns):
        self.wanted.setdefault(script, set()).update(columns)

    def run(self):
        for script, columns in self.wanted.items():
            command = [self.fusebox, "run", script, *sorted(columns), "--device", "replay:h200", "--format", "csv"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for row in csv.DictReader(done.stdout.splitlines()):
                name = row["plan"] if not row["variant"] else f"{row['variant']}:{row['plan']}"
                at = row["device"]
                self.rows[script, name if at == "replay:h200" else f"{name}@{at}"] = row
            if done.returncode:
                sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")

    def get(self, script, column, figure, first=None):
        row = self.rows.get((script, column))
        if row is None:
            sys.exit(f"{script} has no column {column}")
        if row["source"] not in SIGNS:
            sys.exit(f"{script} {column}: {row['source']}")
        if figure == "launches":
            return row["launches"]
        stale = row["stale"] == "true" and first is None  # a screen says it in words
        sign = ("†" if stale else "") + SIGNS[row["source"]]
        if figure == "times":
            return f"{three(float(self.rows[script, first]['wall_us']) / float(row['wall_us']))} ×"
        if figure == "bytes":
            return sign + bytes_of(float(row["measured_read"]) + float(row["measured_written"]))
        return sign + time(float(row[{"wall": "wall_us", "gpu": "device_us", "idle": "gap_us"}[figure]]))


def screen_row(line, figures, script, columns):
    """`│ wall   596 µs   84.5 µs │`: each figure is written so that it ends where it ended."""
    for label, figure in ROWS.items():
        at = line.find(f"│ {label} ")
        if at < 0:
            continue
        body = line[at + 2 + len(label) :]
        cells = list(re.finditer(r"\S+(?: \S+)*", body[: body.rfind("│")]))
        if len(cells) != len(columns):
            continue
        for cell, column in zip(cells, columns):
            text = figures.get(script, column, figure, columns[0])
            width = max(len(text), cell.end() - cell.start())
            body = body[: cell.end() - width] + text.rjust(width) + body[cell.end() :]
        return line[: at + 2 + len(label)] + body
    return line


def main():
    fusebox, path = sys.argv[1], sys.argv[2]
    text = open(path, encoding="utf-8").read()
    figures = Figures(fusebox)
    for script, template in TEXT.findall(text):
        figures.want(script, [column for column, _ in PLACE.findall(template)])
    for _, script, columns, _, _ in SCREEN.findall(text):
        figures.want(script, columns.split(", "))
    figures.run()

    def fill(match):
        script, template = match.groups()
        said = PLACE.sub(lambda m: figures.get(script, m[1], m[2]), template)
        return f"<!--figures {script}: {template}-->{said}<!--end-->"

    def draw(match):
        head, script, columns, body, tail = match.groups()
        lines = [screen_row(line, figures, script, columns.split(", ")) for line in body.split("\n")]
        return head + "\n".join(lines) + tail

    new = SCREEN.sub(draw, TEXT.sub(fill, text))
    if "--check" not in sys.argv:
        open(path, "w", encoding="utf-8").write(new)
        return 0
    wrong = [(a, b) for a, b in zip(text.split("\n"), new.split("\n")) if a != b]
    for old, now in wrong:
        print(f"it says:   {old}\nrecorded:  {now}")
    return 1 if wrong or len(text.split("\n")) != len(new.split("\n")) else 0


if __name__ == "__main__":
    sys.exit(main())
