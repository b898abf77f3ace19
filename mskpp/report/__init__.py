# SPDX-License-Identifier: Apache-2.0
"""What a prediction is shown as. Every report is a view of a Timeline and never changes it; one report, one file."""
