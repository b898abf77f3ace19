// SPDX-License-Identifier: Apache-2.0
// A measured curve: points with growing x, read by linear interpolation.
#pragma once

#include <vector>

namespace mskpp::base {

class Curve {
  public:
    // Where an x lies: on a point, between two, before the first, behind the last.
    enum class Position { on_point, between, below, beyond };

    struct Reading {
        double x;  // the x read at: never before the first point
        double y;
        Position position;
    };

    // x must grow from call to call; returns false, and adds nothing, when it does not.
    bool add(double x, double y);
    bool empty() const { return x_.empty(); }
    double last_x() const { return x_.back(); }
    double largest_y() const { return largest_y_; }

    // Linear interpolation between the two neighbours of x, clamped to the first and last point. Not for an empty
    // curve.
    Reading at(double x) const;

  private:
    std::vector<double> x_, y_;
    double largest_y_ = 0;
};

}  // namespace mskpp::base
