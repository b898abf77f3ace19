# SPDX-License-Identifier: Apache-2.0
"""Builds the test scenario (no wheel), runs every test and measures coverage.

The same as ``python3 build.py test --coverage``; more arguments go to pytest.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    # exec, not a child: Ctrl-C and the exit code then need no care here.
    command = [sys.executable, os.path.join(ROOT, "build.py"), "test", "--coverage", *sys.argv[1:]]
    os.execv(sys.executable, command)
