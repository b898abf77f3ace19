# SPDX-License-Identifier: Apache-2.0
"""Instructions outside any ``with Chip`` are checked and dropped; that is said once."""

from __future__ import annotations

import functools
import warnings


@functools.cache
def warn_outside() -> None:
    warnings.warn(
        "an instruction outside any `with Chip(...)`: it is checked as on Ascend910B1 but not recorded",
        RuntimeWarning,
        stacklevel=2,
    )
