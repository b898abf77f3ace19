# SPDX-License-Identifier: Apache-2.0
"""The DSL: names and life cycle of chips, cores and instructions. What they do is C++ (mskpp._core)."""
