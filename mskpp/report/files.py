# SPDX-License-Identifier: Apache-2.0
"""All files of a result in one folder, each of them whole or not at all."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from mskpp.errors import FileError, StateError
from mskpp.report import tables
from mskpp.report.output import new_file
from mskpp.report.result import Result
from mskpp.report.schema import FILE_NAME, SavedResult

TRACE = "trace.json"
REPORT = "report.html"
_PAGE = "mskpp.report.report_page"


def has_report_page() -> bool:
    """Whether this mskpp can write report.html."""
    return importlib.util.find_spec(_PAGE) is not None


def require_report_page() -> None:
    """Raises StateError where this mskpp cannot write it."""
    if not has_report_page():
        raise StateError("report: this mskpp has no report page; install it anew, or use mskpp run --out DIR --json")


def write_report(result: Result | SavedResult, path: Path) -> None:
    """Writes the report page. Raises FileError, and StateError where this mskpp has none."""
    require_report_page()
    page = importlib.import_module(_PAGE)
    page.write_report(result, path)


def write_files(result: Result, folder: Path) -> list[Path]:
    """Writes result.json, report.html, trace.json and the two tables; what was there under these names is replaced.

    Returns the paths. Raises FileError.
    """
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"output: folder {folder} cannot be made: {error.strerror}") from None
    result.write_json(folder / FILE_NAME)
    written = [folder / FILE_NAME]
    if has_report_page():
        write_report(result, folder / REPORT)
        written.append(folder / REPORT)
    _write_trace(result, folder / TRACE)
    written.append(folder / TRACE)
    for name, write in (
        ("Pipe_statistic.csv", tables.write_pipes),
        ("Instruction_statistic.csv", tables.write_instructions),
    ):
        with new_file(folder / name) as file:
            write(result, file)
        written.append(folder / name)
    return written


def _write_trace(result: Result, path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        result.write_trace(part)
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise FileError(f"output: {path.name} cannot be written: {error.strerror}") from None
        raise
