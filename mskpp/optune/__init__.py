# SPDX-License-Identifier: Apache-2.0
"""Finding the best parameters of a kernel."""
