# SPDX-License-Identifier: Apache-2.0
"""The command ``mskpp``. main.py has the list of subcommands; frame.py says what each of them is made of."""
