# SPDX-License-Identifier: Apache-2.0
"""``mskpp tune show``, ``export`` and ``clear``: what earlier tunings have left in the trial store."""

from __future__ import annotations

import argparse
import contextlib
import csv
import fnmatch
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mskpp.command import output
from mskpp.command.frame import FAILED, GOOD, Subparsers, above_zero, command, whole
from mskpp.command.output import say
from mskpp.command.table import Column, emit_table

if TYPE_CHECKING:
    from mskpp.optune.store import Store

SCHEMA = 1
MOST_ROWS = 30
MOST_NAMES = 20  # of kernels in a message
DAY = 86_400
# Of every export, in this order; what else records have comes between these and the configuration.
FIELDS = (
    "key", "kernel", "backend", "device", "source", "when", "ending", "time_us", "low_us", "high_us", "samples",
    "compile_seconds", "reason", "log",
)  # fmt: skip
KERNEL_HELP = "only of kernels of this name; * and ? stand for any letters"

Kept = list[tuple[str, dict[str, Any]]]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    show = command(
        subparsers,
        "tune show",
        run_show,
        summary="what was measured so far",
        description="Lists the trials that earlier tunings have kept, the newest first.",
        examples="mskpp tune show\nmskpp tune show --kernel 'matmul*' --limit 0\nmskpp tune show --json",
    )
    show.add_argument("--kernel", metavar="NAME", help=KERNEL_HELP)
    show.add_argument(
        "--limit", type=whole(0), metavar="N",
        help=f"at most so many; 0: all ({MOST_ROWS} if it is not given, with --json all)",
    )  # fmt: skip
    export = command(
        subparsers,
        "tune export",
        run_export,
        summary="write what was measured so far to a file",
        description="Writes the trials that earlier tunings have kept, as CSV or JSON.",
        examples="mskpp tune export trials.csv\nmskpp tune export trials.json --kernel matmul",
    )
    export.add_argument("out", metavar="OUT.csv|OUT.json", help="the file; its ending says the form")
    export.add_argument("--kernel", metavar="NAME", help=KERNEL_HELP)
    clear = command(
        subparsers,
        "tune clear",
        run_clear,
        summary="forget what was measured so far",
        description="Removes trials that earlier tunings have kept; they are measured again when they are needed.",
        examples="mskpp tune clear\nmskpp tune clear --kernel matmul --older-than 30 --yes",
    )
    clear.add_argument("--kernel", metavar="NAME", help=KERNEL_HELP)
    clear.add_argument("--older-than", type=above_zero, metavar="DAYS", help="only those kept longer ago than that")
    clear.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal to ask on")


def run_show(arguments: argparse.Namespace) -> int:
    with opened() as (store, path):
        kept = entries(store, arguments.kernel)
        if is_unusable(store, kept):
            return FAILED
        names = [] if kept else kernels(store)
    if arguments.json:
        shown = kept[: arguments.limit or None]
        output.emit_json({"schema": SCHEMA, "path": path, "count": len(kept), "trials": rows(shown)})
        return GOOD
    if not kept:
        output.emit(nothing(arguments.kernel, names, path))
        return GOOD
    limit = MOST_ROWS if arguments.limit is None else arguments.limit
    shown = kept[: limit or None]
    columns = [Column("when", rank=4), Column("kernel", rank=2), Column("backend", rank=3), Column("device", rank=5)]
    columns += [
        Column("source", rank=6),
        Column("ending", rank=1),
        Column("us", is_number=True),
        Column("configuration"),
    ]
    emit_table(columns, [line(record) for _, record in shown])
    if len(shown) < len(kept):
        output.emit(f"... {len(kept) - len(shown)} more; --limit 0 shows all")
    output.emit(f"{len(kept)} trials in {path}")
    return GOOD


def run_export(arguments: argparse.Namespace) -> int:
    ending = os.path.splitext(arguments.out)[1].lower()
    if ending not in (".csv", ".json"):
        arguments.parser.error(f"{arguments.out!r} ends neither with .csv nor with .json; its ending says the form")
    output.check_writable(arguments.out, arguments.parser.prog)
    with opened() as (store, path):
        kept = entries(store, arguments.kernel)
        if is_unusable(store, kept):
            return FAILED
        names = [] if kept else kernels(store)
    if not kept and arguments.kernel is not None:
        say(f"{arguments.parser.prog}: {nothing(arguments.kernel, names, path)}; nothing is written")
        return FAILED
    if ending == ".csv":
        text = as_csv(kept)
    else:
        found = {"schema": SCHEMA, "path": path, "count": len(kept), "trials": rows(kept)}
        text = json.dumps(output.finite(found), indent=1, allow_nan=False) + "\n"
    from mskpp.launcher import checks
    from mskpp.optune.results import encodable

    checks.write_file(arguments.out, encodable(text), arguments.parser.prog)
    if arguments.json:
        output.emit_json({"schema": SCHEMA, "path": path, "count": len(kept), "file": arguments.out})
    else:
        output.emit(f"{len(kept)} trials written to {arguments.out}")
    return GOOD


def run_clear(arguments: argparse.Namespace) -> int:
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not arguments.yes and not is_terminal:
        arguments.parser.error("there is no terminal to ask on; give --yes to remove without being asked")
    with opened() as (store, path):
        everything = entries(store, None)
        if is_unusable(store, everything):
            return FAILED
        chosen = [(key, r) for key, r in everything if is_of(r, arguments.kernel)]
        ageless = 0
        if arguments.older_than is not None:
            limit = time.time() - arguments.older_than * DAY
            ageless = sum(moment(record) is None for _, record in chosen)
            chosen = [(k, r) for k, r in chosen if (when := moment(r)) is not None and when < limit]
        if chosen and not arguments.yes and not agreed(f"Remove {len(chosen)} of {len(everything)} trials of {path}?"):
            say(f"{arguments.parser.prog}: nothing is removed")
            return FAILED
        if chosen and store is not None:
            removed(store, chosen, everything)
            if store.path is None:  # a warning has said why
                say(f"{arguments.parser.prog}: {path} could not be changed")
                return FAILED
    if arguments.json:
        left = len(everything) - len(chosen)
        output.emit_json({"schema": SCHEMA, "path": path, "removed": len(chosen), "left": left})
    else:
        output.emit(f"{len(chosen)} of {len(everything)} trials removed from {path}")
        if ageless:
            output.emit(f"{ageless} are of unknown age and stay; without --older-than they are removed")
    return GOOD


def removed(store: Store, chosen: Kept, everything: Kept) -> None:
    if len(chosen) == len(everything):
        store.clear()
        return
    for key, _ in chosen:
        store.forget(key)


def agreed(question: str) -> bool:
    """What the person at the terminal says; anything but yes is no."""
    if sys.stderr is not None:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---------------------------------------------------------------- the store


@contextlib.contextmanager
def opened() -> Iterator[tuple[Store | None, str]]:
    """The store and its path; None where there is no file: looking must not make one. InputError where the environment
    does not say where it is."""
    from mskpp.optune.store import Store, default_path

    path = default_path()
    if not os.path.lexists(path):
        yield None, str(path)
        return
    with Store.open() as store:
        yield store, str(path)


def is_unusable(store: Store | None, found: Kept) -> bool:
    """Whether the file could not be read, of which a warning has told."""
    return store is not None and store.path is None and not found


def entries(store: Store | None, kernel: str | None) -> Kept:
    """The records, the newest first; those that do not say when, last."""
    found = [(key, r) for key, r in store.entries() if is_of(r, kernel)] if store is not None else []
    return sorted(found, key=lambda entry: (-(moment(entry[1]) or 0.0), entry[0]))


def is_of(record: dict[str, Any], kernel: str | None) -> bool:
    return kernel is None or fnmatch.fnmatchcase(str(record.get("kernel") or ""), kernel)


def kernels(store: Store | None) -> list[str]:
    """The names of the kernels of which there is a trial."""
    found = {str(record.get("kernel") or "") for _, record in store.entries()} if store is not None else set()
    return sorted(found - {""})


def nothing(kernel: str | None, names: list[str], path: str) -> str:
    """That there is no trial, and of which kernels there are some."""
    if kernel is None:
        return f"no trial is kept in {path}"
    text = f"no trial of {kernel!r} is kept in {path}"
    if not names:
        return text
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{text}; there are some of {', '.join(map(output.printable, names[:MOST_NAMES]))}{more}"


def moment(record: dict[str, Any]) -> float | None:
    """When it was kept, in unix seconds, if it says so."""
    when = record.get("when")
    return float(when) if isinstance(when, int | float) and not isinstance(when, bool) and abs(when) < 1e11 else None


def line(record: dict[str, Any]) -> list[str]:
    when, time_us = moment(record), record.get("time_us")
    config = " ".join(f"{name}={value}" for name, value in record["config"].items())
    return [
        time.strftime("%Y-%m-%d %H:%M", time.localtime(when)) if when is not None else "-",
        *(str(record.get(name) or "-") for name in ("kernel", "backend", "device")),
        os.path.basename(str(record.get("source") or "")) or "-",
        record["ending"],
        f"{time_us:,.3f}" if time_us is not None else "-",
        config,
    ]


def rows(kept: Kept) -> list[dict[str, Any]]:
    return [{"key": key, **record} for key, record in kept]


def as_csv(kept: Kept) -> str:
    """A row for each; the configuration's values under config.<name>."""
    flat = []
    for row in rows(kept):
        config = row.pop("config")
        flat.append({**row, **{f"config.{name}": value for name, value in config.items()}})
    names = dict.fromkeys(FIELDS)
    names.update(dict.fromkeys(name for row in flat for name in row if not name.startswith("config.")))
    names.update(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
