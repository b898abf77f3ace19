# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages (instructions.md, chips.md) from mskpp/data.

    python docs/make_docs.py             write the generated pages
    python docs/make_docs.py --outputs   also run the Python blocks of all pages and write anew what they print

How a page marks its blocks: a ``python`` block is run as kernel.py in an empty folder; ``<!-- continues -->`` above it
goes on with the variables of the block before. A ``text`` block holds what the Python block before it prints, or the
error it ends with; above one with times that differ from run to run stands ``<!-- measured -->``.
``<!-- file: NAME -->`` above any other block puts it into the folder first. ``console`` blocks are for the reader.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "mskpp" / "data"
NOTE = "<!-- Written by docs/make_docs.py from the data; change the data, not this page. -->\n"

# --------------------------------------------------------------------------- generated pages


def rows_of(file: Path) -> list[dict[str, str]]:
    """The rows of one of our tables, without its comment lines."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def chip_facts(name: str) -> dict[str, str]:
    """The keys of a chip.csv, over those of its base chip."""
    own = {row["key"]: row["value"] for row in rows_of(DATA / "chips" / name / "chip.csv")}
    base = chip_facts(own["base"]) if "base" in own else {}
    return {**{key: value for key, value in base.items() if key not in ("base", "aliases")}, **own}


def size_text(count: str, unit: str) -> str:
    """Bytes in a larger unit, without needless decimals."""
    if not count:
        return "-"
    return f"{int(count) / {'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30}[unit]:g}"


def chips_page() -> str:
    rows = []
    for folder in sorted((DATA / "chips").iterdir()):
        facts = chip_facts(folder.name)
        own = [table for table in ("mov", "mov_repeat", "mmad", "vec") if (folder / f"{table}.csv").exists()]
        bases = [
            value if key == "base" else f"{value} ({key[5:]})"
            for key, value in facts.items()
            if re.match(r"base(\.|$)", key)
        ]
        rows.append(
            [
                folder.name,
                facts["architecture"],
                f"{facts['cube_cores']} / {facts['vector_cores']}",
                facts["clock_mhz"],
                *(size_text(facts.get(key, ""), unit) for key, unit in (("gm_bytes", "GiB"), ("l2_bytes", "MiB"))),
                *(size_text(facts.get(key, ""), "KiB") for key in ("ub_bytes", "l1_bytes", "l0c_bytes")),
                ", ".join(own) or "-",
                ", ".join(bases) or "-",
                facts.get("aliases", "").replace(" ", ", ") or "-",
            ]
        )
    head = ["chip", "architecture", "cube / vector cores", "MHz", "GM GiB", "L2 MiB", "UB KiB", "L1 KiB", "L0C KiB"]
    head += ["own tables", "inherits from", "also called"]
    return (
        f"{NOTE}\n# Chips\n\nThe {len(rows)} chips that come with mskpp, a folder each in `mskpp/data/chips`. "
        "`mskpp.chips()` lists them. Case does not matter, and the word Ascend may be left out: "
        "`910b4` means Ascend910B4.\n\n"
        "A chip with own tables was measured. One without inherits: on-chip paths and instructions keep the base "
        "chip's cycles, paths that touch GM keep its time ([how it works](how_it_works.md#inheritance)).\n\n"
        + table(head, rows)
        + "\n## Paths\n\nThe moves a chip can make: the pipe that serves each, the width of its port in bytes per "
        "cycle, and what was measured on the chip that has the table. A path without measurements costs its port's "
        "width.\n" + paths_tables()
    )


def measured_text(folder: Path, path: str) -> str:
    """What mov.csv and mov_repeat.csv know of a path."""
    parts = []
    if (folder / "mov.csv").exists():
        for suffix, what in (("", ""), ("_TRANS", " with conversion")):
            sizes = [int(row["bytes"]) for row in rows_of(folder / "mov.csv") if row["path"] == path + suffix]
            if sizes:
                parts.append(f"{len(sizes)} sizes{what}, {min(sizes)} to {max(sizes)} bytes")
    if (folder / "mov_repeat.csv").exists():
        repeats = [int(row["repeat"]) for row in rows_of(folder / "mov_repeat.csv") if row["path"] == path]
        if repeats:
            parts.append(f"{len(repeats)} repeat counts, {min(repeats)} to {max(repeats)}")
    return "; ".join(parts) or "-"


def paths_tables() -> str:
    out = ""
    for folder in sorted((DATA / "chips").iterdir()):
        if not (folder / "paths.csv").exists():
            continue
        rows = []
        for row in rows_of(folder / "paths.csv"):
            cells = [row["source"], row["target"], row["pipe"], row["port_bytes_per_cycle"]]
            rows.append([*cells, measured_text(folder, f"{row['source']}_TO_{row['target']}"), row["note"] or "-"])
        architecture = chip_facts(folder.name)["architecture"]
        out += f"\n### Architecture {architecture} ({folder.name} and the chips that inherit from it)\n\n"
        out += table(["from", "to", "pipe", "port", "measured", "note"], rows)
    return out


def dtypes_text(keys: list[str]) -> str:
    """The dtypes of the cost keys; a key of equal dtypes is written once."""
    short = sorted(" ".join(sorted(set(key.split()))) if len(set(key.split())) == 1 else key for key in keys)
    return "; ".join(
        key if " " not in key else key.replace(" ", " → ", 1) if key.count(" ") == 1 else key for key in short
    )


def instructions_page() -> str:
    keys: dict[str, list[str]] = {}
    for row in rows_of(DATA / "chips" / "Ascend910B1" / "vec.csv"):
        known = keys.setdefault(row["instruction"], [])
        if row["dtypes"] not in known:
            known.append(row["dtypes"])
    lost = set(chip_facts("Ascend950PR_9589")["lost_instructions"].split())
    rows = []
    table_rows = rows_of(DATA / "instructions.csv")
    for row in table_rows:
        if row["cost"].startswith("rate"):
            dtypes = dtypes_text(keys.get(row["instruction"], [])) or "none: register a cost"
        elif row["cost"] == "mmad":
            dtypes = "FP16; BF16; FP32; INT8, UINT8; INT4"
        else:
            dtypes = "any"
        rows.append(
            [
                f"`{row['function']}({', '.join(row['arguments'].split())})()`",
                row["summary"] + (" (not on 3510)" if row["instruction"] in lost else ""),
                row["instruction"],
                row["pipe"] + (" 0 and 1" if row["pipe"] == "RVECEX" else ""),
                row["reads"] + (f" ({row['writes']})" if row["accumulates"] else ""),
                row["writes"],
                row["out_dtype"],
                row["out_shape"].replace("x exactly 256", "x, of 256 elements"),
                row["cost"],
                dtypes,
            ]
        )
    head = [
        "call",
        "what it does",
        "name in results",
        "pipe",
        "reads",
        "writes",
        "dtype of the output",
        "size of the output",
    ]
    head += ["cost", "dtypes with a cost"]
    return (
        f"{NOTE}\n# Instructions\n\nThe {len(rows)} instructions, a row each of `mskpp/data/instructions.csv`. "
        "`help(mskpp.vadd)` shows the same in Python. Each call returns the tuple of its outputs.\n\n"
        "Operands lie in UB; those of `rv_` instructions in VEC, inside `with VecScope(name)`; of `mmad`, x in L0A, "
        "y in L0B, b in L0C or BT. An output in brackets among the reads means: it reads that too, once it holds a "
        "value. The words under *dtype*, *size* and *cost* are explained in "
        "[add an instruction](add_an_instruction.md#columns). The last column is for Ascend910B1, whose table the "
        "other chips inherit: one dtype where all operands have it, `x → output` or the dtypes of the cost key where "
        "they differ. INT4 is not for architecture 3510.\n\n" + table(head, rows)
    )


GENERATED: dict[str, Callable[[], str]] = {"docs/instructions.md": instructions_page, "docs/chips.md": chips_page}

# --------------------------------------------------------------------------- blocks of a page


@dataclass
class Block:
    """A fenced block of a page. line: 1-based line of its first line of text."""

    language: str
    text: str
    line: int
    marks: list[str] = field(default_factory=list)

    @property
    def file(self) -> str | None:
        return next((mark[5:].strip() for mark in self.marks if mark.startswith("file:")), None)


def read_blocks(page: str) -> list[Block]:
    blocks: list[Block] = []
    marks: list[str] = []
    current: Block | None = None
    for number, line in enumerate(page.splitlines(), 1):
        fence = re.fullmatch(r"```(\w*)", line)
        if current is not None:
            if fence:
                blocks.append(current)
                current = None
            else:
                current.text += line + "\n"
        elif fence:
            current, marks = Block(fence[1], "", number + 1, marks), []
        elif comment := re.fullmatch(r"<!-- (.*) -->", line):
            marks.append(comment[1])
        elif line.strip():
            marks = []
    if current is not None:
        raise ValueError(f"the block that begins in line {current.line - 1} has no end")
    return blocks


def outputs_of(blocks: list[Block]) -> list[tuple[Block, Block | None]]:
    """The Python blocks, each with the text block that shows its output, if there is one."""
    pairs: list[tuple[Block, Block | None]] = []
    for number, block in enumerate(blocks, 1):
        behind = blocks[number] if number < len(blocks) else None
        if block.language == "python" and block.file is None:
            pairs.append((block, behind if behind is not None and behind.language == "text" else None))
    return pairs


DRIVER = """
import json, sys
lines = 0
names = {"__name__": "__main__"}
for number, block in enumerate(json.load(open(sys.argv[1]))):
    print(f"\\0block {number}", flush=True)
    try:
        exec(compile("\\n" * lines + block, "kernel.py", "exec"), names)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        print("\\0raised", flush=True)
    lines += block.count("\\n")
"""


@dataclass
class Run:
    """What one Python block printed, and whether it ended with an exception."""

    output: str
    raised: bool


def environment(cache: Path) -> dict[str, str]:
    """Of the processes that run blocks: nothing of the caller's that changes what they print, and a trial store of
    their own."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MSKPP_")}
    return {**ours, "PYTHONUTF8": "1", "MSKPP_CACHE_DIR": str(cache)}


def run_blocks(blocks: list[Block]) -> list[Run]:
    """Runs the Python blocks of a page, in the order of outputs_of()."""
    runs: list[Run] = []
    chains: list[list[str]] = []
    for block, _ in outputs_of(blocks):
        if "continues" in block.marks:
            chains[-1].append(block.text)
        else:
            chains.append([block.text])
    with tempfile.TemporaryDirectory(prefix="mskpp-docs-") as parent:
        folder = Path(parent, "page")
        folder.mkdir()
        for block in blocks:
            if block.file is not None:
                path = folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
        for chain in chains:
            source = Path(parent, "chain.json")
            source.write_text(json.dumps(chain), encoding="utf-8")
            command = [sys.executable, "-u", "-c", DRIVER, str(source)]
            both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
            done = subprocess.run(command, cwd=folder, env=environment(Path(parent, "cache")), check=False, **both)
            parts = re.split(r"\0block \d+\n", done.stdout)[1:]
            if done.returncode != 0 or len(parts) != len(chain):
                raise RuntimeError(f"a block ended the process:\n{done.stdout}")
            runs += [Run(part.replace("\0raised\n", ""), "\0raised" in part) for part in parts]
    return runs


def normal(output: str, marks: Collection[str] = ()) -> str:
    """Without what differs from run to run: folders, spaces at line ends, and where the block is marked so times."""
    if "measured" in marks:
        output = re.sub(r"\d+\.\d{3}(?=μs| us\b)", "1234.567", output)
    output = re.sub(r"\S*/mskpp-docs-\w+/page", "/home/me", output)
    text = re.sub(r"\S*MSKPP\d{14}(_\d+)?", "/home/me/MSKPP20260102030405", output)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def pages() -> list[Path]:
    return [
        ROOT / "README.md",
        ROOT / "README_zh.md",
        ROOT / "example" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]


def with_outputs(page: str) -> str:
    """The page with its text blocks written anew."""
    blocks = read_blocks(page)
    lines = page.splitlines()
    shown = [
        (text, run) for (_, text), run in zip(outputs_of(blocks), run_blocks(blocks), strict=True) if text is not None
    ]
    for text, run in reversed(shown):
        start = text.line - 1
        lines[start : start + text.text.count("\n")] = normal(run.output, text.marks).splitlines()
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--outputs"]):
        print(__doc__)
        return 2
    new = {ROOT / name: page() for name, page in GENERATED.items()}
    if arguments:
        new.update({page: with_outputs(page.read_text(encoding="utf-8")) for page in pages() if page not in new})
    for path, text in new.items():
        same = path.exists() and path.read_text(encoding="utf-8") == text
        if not same:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'up to date' if same else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
