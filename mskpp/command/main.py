# SPDX-License-Identifier: Apache-2.0
"""The command ``mskpp``: finds the subcommand, runs it, and turns what comes out of it into an exit code."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from mskpp import __version__
from mskpp.command import chips, compare, data_check, diff, instructions, lint, report, run, tune, tune_store
from mskpp.command.frame import EXIT_CODES, FAILED, INTERRUPTED, WRONG_USAGE, near
from mskpp.command.output import flush, leave_stdout, message, reader_is_gone, say
from mskpp.errors import MskppError
from mskpp.log import logger

MODULES = (run, report, diff, compare, lint, tune, tune_store, chips, instructions, data_check)

EXAMPLES = """examples:
  mskpp run matmul.py                   how long a kernel takes, and what would help
  mskpp tune matmul.py:tune_it          find the best parameters of a kernel
  mskpp tune show --json                what was measured so far
  mskpp COMMAND --help                  more of a command"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code. No exception comes out of it."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = "mskpp"
    try:
        try:
            arguments = parsed(words)
            name = arguments.parser.prog
            code = arguments.run(arguments)
        except SystemExit as end:  # of argparse, which has said why
            code = end.code if isinstance(end.code, int) else FAILED
        flush()  # what cannot be written shows here, and not when the interpreter ends
        return int(code)
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        return INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and reader_is_gone():
            leave_stdout()
            return FAILED
        if isinstance(error, MskppError):
            return told(name, error)
        return unexpected(name, error)
    except MskppError as error:
        return told(name, error)
    except Exception as error:
        return unexpected(name, error)


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments. SystemExit, after a message, for wrong usage, --help and --version."""
    parser = argparse.ArgumentParser(
        "mskpp",
        usage="mskpp [--help] [--version] COMMAND ...",
        description="How fast an AI kernel will be on an Ascend NPU, and its best parameters.",
        epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mskpp {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND [--help]", title="commands", prog="mskpp")
    for module in MODULES:
        module.add(subparsers)
    # Here and not by argparse, whose versions differ in what they make of it.
    end = words.index("--") if "--" in words else len(words)
    words, rest = words[:end], words[end + 1 :]
    if " ".join(words[:2]) in subparsers.choices:
        words = [" ".join(words[:2]), *words[2:]]
    if not words:
        parser.print_usage(sys.stderr)
        say(f"mskpp: no command; there are {', '.join(subparsers.choices)}. More: mskpp --help")
        raise SystemExit(WRONG_USAGE)
    if not words[0].startswith("-") and words[0] not in subparsers.choices:
        names = list(subparsers.choices)
        of_two = [name for name in names if name.startswith(f"{words[0]} ")]
        if of_two:  # it is the first word of a command of two
            parser.error(f"unknown command {' '.join(words[:2])!r}; did you mean {of_two[0]!r}?")
        parser.error(f"unknown command {words[0]!r}{near(words[0], names)} There are {', '.join(names)}")
    arguments, strange = parser.parse_known_args(words)
    if strange:
        refuse(strange, getattr(arguments, "parser", parser), arguments, words[1:])
    if rest and not arguments.takes_rest:
        arguments.parser.error(f"nothing may follow --, and {rest[0]!r} does")
    arguments.rest = rest
    return arguments


def refuse(
    strange: list[str], parser: argparse.ArgumentParser, arguments: argparse.Namespace, words: list[str]
) -> NoReturn:
    """Ends with wrong usage of words that no option or argument takes."""
    first = next((word for word in strange if word.startswith("-")), strange[0])
    name = first.partition("=")[0]
    known = sorted({option for action in parser._actions for option in action.option_strings if len(option) > 2})
    is_option = first.startswith("-")
    text = f"there is no option {name!r}{near(name, known)}" if is_option else f"{first!r} is one word too many."
    if is_option and text.endswith("."):
        text += f" There are {', '.join(known)}"
    if getattr(arguments, "takes_rest", False):
        own = [word for word in words if word not in strange]
        text += f"{' ' if text[-1] in '.?' else '. '}Words for the file go after --: "
        text += " ".join([parser.prog, *map(shlex.quote, own), "--", *map(shlex.quote, strange)])
    parser.error(text.removesuffix("."))


def told(name: str, error: MskppError) -> int:
    """An error that mskpp raises on purpose: its message says all."""
    if logger.isEnabledFor(logging.DEBUG):
        return unexpected(name, error)
    say(message(name, error))
    return FAILED


def unexpected(name: str, error: Exception) -> int:
    import traceback

    say("".join(traceback.format_exception(error)).rstrip())
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
