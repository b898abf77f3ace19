# SPDX-License-Identifier: Apache-2.0
"""Leads old habits to the real build.

mskpp is built by scikit-build-core, which pyproject.toml names; pip reads that
file and never runs this one. It stands here for people who type
``python3 setup.py ...``: a wheel is what they want, and build.py makes it.
"""

import os
import sys

if __name__ == "__main__":
    if "bdist_wheel" in sys.argv[1:]:
        build = os.path.join(os.path.dirname(os.path.abspath(__file__)), "build.py")
        os.execv(sys.executable, [sys.executable, build, "wheel"])
    sys.exit("setup: nothing is built here; run 'python3 build.py wheel' or 'pip install .'")
