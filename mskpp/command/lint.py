# SPDX-License-Identifier: Apache-2.0
"""``mskpp lint SCRIPT.py``: what is wrong, missing or needless about the flags of what a script records."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from mskpp.command import output, user_file
from mskpp.command.frame import FAILED, GOOD, INTERRUPTED, Subparsers, command
from mskpp.command.output import emit, printable, say
from mskpp.core.exploring import Explorer
from mskpp.core.lint import SEVERITIES, Finding
from mskpp.errors import MskppError

if TYPE_CHECKING:
    from mskpp.core.chip import Chip

SCHEMA = 1

DESCRIPTION = """Runs a script and looks at the flags of each `with Chip(...)` block, without scheduling it: no block
writes files, and only a result that the script reads is computed. docs/errors.md explains the findings.

errors    the block could not be scheduled: unmatched or crossed flags
warnings  reads of local memory that no flag puts behind the write on another pipe; flags that do nothing: never
          needed, or within one pipe
hints     what the model allows and hardware does not: a flag set twice, ids above 7, waits that come too late, and
          once for a block without any flag that it models reads and writes between pipes

The exit code is 1 when there are errors."""

EXAMPLES = """
mskpp lint matmul.py
mskpp lint matmul.py --json
mskpp lint matmul.py -- --size 4096     # sys.argv[1:] of matmul.py
"""


class Recording(Explorer):
    """Keeps the blocks, and lets none be scheduled at its end."""

    schedules = False

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.blocks: list[tuple[str, list[Finding]]] = []  # the chip's name, and not the chip: programs are large

    def ended(self, chip: Chip) -> None:
        super().ended(chip)
        self.blocks.append((chip.name, chip.lint()))


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "lint",
        run,
        summary="find wrong, missing and needless flags, without scheduling",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="words after -- are the arguments of the script",
    )
    parser.add_argument("script", metavar="SCRIPT.py", help="the script; it runs as with python")


def run(arguments: argparse.Namespace) -> int:
    recording = Recording()
    with output.stdout_set_aside(arguments.json):
        failure, interrupted = run_script(arguments, recording)
        if not recording.blocks and not failure and not interrupted:
            failure = f"{arguments.script} ran no `with Chip(...)` block to its end, so there is nothing to look at"
    found = [finding for _, findings in recording.blocks for finding in findings]
    counts = {f"{severity}s": sum(f.severity == severity for f in found) for severity in SEVERITIES}
    if arguments.json:
        output.emit_json(document(arguments.script, recording, counts, failure))
    else:
        tell(recording, counts)
    if failure:
        say(f"{arguments.parser.prog}: {failure}")
    if interrupted:
        return INTERRUPTED
    return FAILED if failure or counts["errors"] else GOOD


def run_script(arguments: argparse.Namespace, recording: Explorer) -> tuple[str, bool]:
    """Why the script did not run to its end, or nothing; and whether it was interrupted."""
    main = sys.modules.get("__main__")
    with user_file.program(arguments.script, arguments.rest) as module, recording.looking_on():
        path = str(module.__file__)
        module.__name__ = "__main__"
        sys.modules["__main__"] = module
        try:
            user_file.run_file(module)
        except KeyboardInterrupt:
            return "interrupted", True
        except SystemExit as end:
            if end.code not in (None, 0):
                return f"the script ended itself with sys.exit({end.code!r}){user_file.place(end, path)}", False
        except MskppError as error:
            return user_file.placed(error, path), False
        except BaseException as error:
            say(user_file.traceback_text(error, path))
            return f"the script ended with {type(error).__name__}: {error}", False
        finally:
            if main is not None:
                sys.modules["__main__"] = main
    return "", False


def tell(recording: Recording, counts: dict[str, int]) -> None:
    for number, (name, findings) in enumerate(recording.blocks, 1):
        if findings and len(recording.blocks) > 1:
            emit(f"block {number} ({name})")
        for finding in findings:
            where = ", ".join(finding.lines) or "(line not known)"
            times = f", {finding.count:,} times" if finding.count > 1 else ""
            emit(printable(f"{where}: {finding.severity}: {finding.kind}{times}"))
            emit(f"  {printable(finding.text)}")
            emit(f"  cure: {printable(finding.cure)}")
    blocks = len(recording.blocks)
    if blocks:
        told = ", ".join(f"{count} {kind if count != 1 else kind[:-1]}" for kind, count in counts.items())
        emit(f"{told} in {blocks} block{'s' if blocks != 1 else ''}")


def document(script: str, recording: Recording, counts: dict[str, int], failure: str) -> dict[str, Any]:
    blocks = [{"chip": chip, "findings": [as_row(one) for one in found]} for chip, found in recording.blocks]
    return {
        "schema": SCHEMA,
        "script": os.path.basename(script),
        "failure": failure or None,
        **counts,
        "blocks": blocks,
    }


def as_row(finding: Finding) -> dict[str, Any]:
    names = ("kind", "severity", "lines", "text", "cure", "count", "pairs")
    return {name: getattr(finding, name) for name in names}
