# SPDX-License-Identifier: Apache-2.0
"""A program that cannot go on, in debug mode: the log shows how far it got, the error why it stopped.

Here each of two pipes waits for a flag that the other one sets only afterwards.
"""

import logging
import sys

from mskpp import Chip, DeadlockError, Tensor, set_flag, vexp, wait_flag

# The log of mskpp goes to stderr unless the program sets up its own, as here.
logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")

try:
    with Chip("Ascend910B1", debug_mode=True):
        gm_x = Tensor("GM", "FP16", [4096], format="ND")
        gm_y = Tensor("GM", "FP16", [4096], format="ND")
        x, y = Tensor("UB"), Tensor("UB")
        x.load(gm_x)
        wait_flag("PIPE-V", "PIPE-MTE2", 0)  # meant for the next tile; here its set_flag can never be reached
        set_flag("PIPE-MTE2", "PIPE-V", 1)
        wait_flag("PIPE-MTE2", "PIPE-V", 1)
        vexp(x, y)()
        set_flag("PIPE-V", "PIPE-MTE2", 0)
        gm_y.load(y)
except DeadlockError as error:
    print("The block ended with a DeadlockError:", str(error).splitlines()[0])
