// SPDX-License-Identifier: Apache-2.0
// What is wrong in a table is an error of the data, whoever noticed it.
#pragma once

#include "mskpp/error.h"

namespace mskpp {

template <typename Parse>
auto in_data(Parse parse) {
    try {
        return parse();
    } catch (const Error& error) {
        throw Error(ErrorKind::data, error.what());
    }
}

}  // namespace mskpp
