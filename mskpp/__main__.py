# SPDX-License-Identifier: Apache-2.0
"""``python -m mskpp`` is the command ``mskpp``."""

import sys

from mskpp.command.main import main

if __name__ == "__main__":
    sys.exit(main())
