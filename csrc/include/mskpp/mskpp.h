// SPDX-License-Identifier: Apache-2.0
// All public headers, in the order data passes through them.
#pragma once

#include "mskpp/analysis.h"
#include "mskpp/chip.h"
#include "mskpp/cost.h"
#include "mskpp/error.h"
#include "mskpp/instruction.h"
#include "mskpp/lint.h"
#include "mskpp/memory_use.h"
#include "mskpp/metrics.h"
#include "mskpp/program.h"
#include "mskpp/roofline.h"
#include "mskpp/schedule.h"
#include "mskpp/tensor.h"
#include "mskpp/trace.h"
#include "mskpp/types.h"
