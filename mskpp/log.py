# SPDX-License-Identifier: Apache-2.0
"""The package's log: the logger "mskpp", on stderr unless the program set up logging; MSKPP_LOG_LEVEL sets it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

logger = logging.getLogger("mskpp")


class _Stderr(logging.Handler):
    """Writes to the sys.stderr of the moment; silent where the root logger has handlers, which get the record too."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is None or logging.getLogger().handlers:
            return
        try:
            print(self.format(record), file=sys.stderr)
        except (OSError, ValueError):  # a full, broken or closed stderr keeps nobody from modelling
            self.handleError(record)


def set_up() -> None:
    """Attaches the handler and reads MSKPP_LOG_LEVEL: debug, info, warning (the default) or error."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter("mskpp %(levelname)s: %(message)s"))
    logger.addHandler(handler)
    wanted = os.environ.get("MSKPP_LOG_LEVEL", "warning").strip().lower()
    logger.setLevel(LEVELS.get(wanted, logging.WARNING))
    if wanted not in LEVELS:
        logger.warning("MSKPP_LOG_LEVEL is not one of %s; warning is used", ", ".join(LEVELS))


@contextlib.contextmanager
def at_least(level: int) -> Iterator[None]:
    """Within the block, records of the level and above are logged whatever MSKPP_LOG_LEVEL says."""
    before = logger.level
    logger.setLevel(min(before, level))
    try:
        yield
    finally:
        logger.setLevel(before)
