# SPDX-License-Identifier: Apache-2.0
"""What every subcommand is made of: a parser with help, examples and --json, and numbers that are checked.

A module of a subcommand has ``add(subparsers)``, which calls command(), and functions ``run(arguments) -> int`` that
return an exit code. ``arguments.parser`` is its parser: ``arguments.parser.error(text)`` ends with wrong usage.
``arguments.rest`` has the words after ``--``. Modules are imported for every call of ``mskpp``, so they import what is
slow (numpy, rich, plotly, the launcher) in run().
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

GOOD = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

EXIT_CODES = """exit codes:
  0    all went well
  1    the work failed; stderr says why
  2    wrong usage
  130  interrupted (Ctrl-C); what was done until then has been reported"""

Subparsers = argparse._SubParsersAction  # argparse has no public name for it
Run = Callable[[argparse.Namespace], int]


def command(
    subparsers: Subparsers[argparse.ArgumentParser],
    name: str,
    run: Run,
    *,
    summary: str,
    description: str,
    examples: str,
    rest: str = "",
) -> argparse.ArgumentParser:
    """Adds a subcommand and returns its parser. ``name`` may have two words, as "tune show"; ``rest`` says what words
    after ``--`` are for, and is empty where there are to be none."""
    indented = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{indented}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # an option that is added later must not change what an old call means
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, and nothing else there")
    parser.set_defaults(run=run, parser=parser, takes_rest=bool(rest))
    if rest:
        parser.epilog = f"{rest}\n\n{parser.epilog}"
    return parser


def whole(least: int) -> Callable[[str], int]:
    """The type of an option: a whole number from ``least``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least}")
        return value

    return parse


def above_zero(text: str) -> float:
    """The type of an option: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def count_or_share(text: str) -> int | float:
    """The type of an option: a whole number from 1, or a share between 0 and 1."""
    try:
        value = int(text) if text.strip().lstrip("+-").isdigit() else float(text)
    except ValueError:
        value = math.nan
    if not (value >= 1 if isinstance(value, int) else 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number from 1 nor a share between 0.0 and 1.0")
    return value


def near(name: str, known: list[str]) -> str:
    """The end of a sentence on an unknown name: "; did you mean 'x'?", or a full stop."""
    import difflib

    found = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {found[0]!r}?" if found else "."
