// SPDX-License-Identifier: Apache-2.0
// Where operator projects look for it; the host surface is in one file.
#pragma once

#include "mskpp/tiling.h"
