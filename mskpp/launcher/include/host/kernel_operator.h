// SPDX-License-Identifier: Apache-2.0
// Lets a source that names the Ascend C header compile on the CPU as far as it uses what mskpp/kernel.h has.
#pragma once
#include "mskpp/kernel.h"
