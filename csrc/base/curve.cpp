// SPDX-License-Identifier: Apache-2.0
#include "base/curve.h"

#include <algorithm>

namespace mskpp::base {

bool Curve::add(double x, double y) {
    if (!x_.empty() && x <= x_.back()) return false;
    x_.push_back(x);
    y_.push_back(y);
    largest_y_ = std::max(largest_y_, y);
    return true;
}

Curve::Reading Curve::at(double x) const {
    const auto next = std::lower_bound(x_.begin(), x_.end(), x);
    if (next == x_.end()) return {x, y_.back(), Position::beyond};
    const auto i = static_cast<std::size_t>(next - x_.begin());
    if (*next == x) return {x, y_[i], Position::on_point};
    if (i == 0) return {x_[0], y_[0], Position::below};
    const double share = (x - x_[i - 1]) / (x_[i] - x_[i - 1]);
    return {x, y_[i - 1] + share * (y_[i] - y_[i - 1]), Position::between};
}

}  // namespace mskpp::base
