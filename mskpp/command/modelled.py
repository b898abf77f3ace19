# SPDX-License-Identifier: Apache-2.0
"""The results that a subcommand works on: of a script, which is run, or of a result.json."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from mskpp.command.frame import FAILED, GOOD, INTERRUPTED, near
from mskpp.command.output import say
from mskpp.core.exploring import Explorer
from mskpp.errors import InputError

if TYPE_CHECKING:
    from mskpp.core.chip import Chip
    from mskpp.report.result import Result
    from mskpp.report.schema import SavedResult

MOST_BLOCKS = 1_000
Kind = TypeVar("Kind")

# The path is that of this process, so that the same packages are found.
CHILD = """import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from mskpp.command.main import main
sys.exit(main())"""


class Blocks(Explorer):
    """Keeps the result of each block of a script."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.results: list[Result] = []
        self.left_out = 0
        """How many came after the first 1,000."""

    def ended(self, chip: Chip) -> None:
        super().ended(chip)
        if len(self.results) < MOST_BLOCKS:
            self.results.append(chip.result)
        else:
            self.left_out += 1


def is_script(path: str) -> bool:
    return path.endswith(".py")


def checked(path: str, parser: argparse.ArgumentParser, what: str) -> None:
    """Ends with wrong usage where there is no such file."""
    if os.path.isfile(path) or (os.path.isdir(path) and not is_script(path) and what != "a script"):
        return
    where = os.path.dirname(path)
    others: list[str] = []
    with contextlib.suppress(OSError):
        found = [entry for entry in os.listdir(where or ".") if entry.endswith((".py", ".json"))]
        others = [os.path.join(where, entry) for entry in found]
    state = "is a folder, no file" if os.path.isdir(path) else "does not exist"
    parser.error(f"{path} {state}{near(path, others)} Give {what}")


def chosen(found: Sequence[Kind], texts: Sequence[str], block: int | None, script: str) -> Kind:
    """The N-th block, or the only one. ``texts`` says what each is. InputError where that is not clear."""
    name = os.path.basename(script)
    if not found:
        raise InputError(f"{name} ended no Chip block; give a script that models with Chip")
    if block is None and len(found) > 1:
        shown = [f"{number} ({text})" for number, text in enumerate(texts[:10], 1)]
        more = f" ... ({len(found) - 10} more)" if len(found) > 10 else ""
        raise InputError(f"{name} has {len(found)} Chip blocks; choose one with --block: {', '.join(shown)}{more}")
    if block is not None and block > len(found):
        raise InputError(f"--block is {block}, and {name} has {len(found)} Chip block{'s' if len(found) > 1 else ''}")
    return found[(block or 1) - 1]


def read(path: str, block: int | None, rest: Sequence[str], prog: str) -> SavedResult:
    """The result in a result.json or its folder, or that of a script.

    A script is run in a process of its own: two scripts of one call must not see each other's modules and registered
    costs. What it prints goes to stderr. SystemExit where it fails, which it has said why.
    """
    from mskpp.report.schema import load, load_result

    if not is_script(path):
        return load_result(path)
    words = [sys.executable, "-c", CHILD, json.dumps(sys.path), "run", path, "--json", "--", *rest]
    sys.stdout.flush()
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode != GOOD:
        code = INTERRUPTED if done.returncode == INTERRUPTED else FAILED
        say(f"{prog}: {path} failed, so there is nothing to compare")
        raise SystemExit(code)
    try:
        documents = json.loads(done.stdout)["results"]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{os.path.basename(path)} spoilt its own answer (os._exit, a fork, prints at exit); run it with "
            "mskpp run --out DIR, and give DIR"
        ) from None
    texts = [f"{one['chip']}, {one['total']['us']:,.3f} us" for one in documents]
    return load(json.dumps(chosen(documents, texts, block, path)), path)
