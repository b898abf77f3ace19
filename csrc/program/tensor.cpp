// SPDX-License-Identifier: Apache-2.0
#include "mskpp/tensor.h"

#include <algorithm>

#include "base/text.h"
#include "mskpp/error.h"

namespace mskpp {

using base::concat;

void Tensor::refuse_stale() const {
    throw Error(ErrorKind::state,
                concat("Tensor: this slice is stale, it was taken before its ", name(memory()),
                       " tensor took the shape ", storage_->type.shape.text(), "; take the slice again"));
}

Shape Tensor::view_shape() const {
    require_current();
    Shape out;
    for (int i = 0; i < view_->rank; ++i)
        if (view_->axis[static_cast<std::size_t>(i)].visible)
            out.push_back(view_->axis[static_cast<std::size_t>(i)].count);
    if (out.rank() == 0) out.push_back(1);
    return out;
}

std::string Tensor::text() const {
    return concat(name(memory()), " tensor ", has_shape() ? shape().text() : "[?]", " ", name(dtype()));
}

Tensor::View Tensor::whole() const {
    View out{storage_->type.shape.rank(), storage_->generation, {}};
    for (int i = 0; i < out.rank; ++i) out.axis[static_cast<std::size_t>(i)] = {0, 1, storage_->type.shape[i], true};
    return out;
}

// Narrows one axis as Python's slice.indices does, within the `count` elements the axis has.
void Tensor::apply(Axis& axis, const Index& index, int position) {
    const std::int64_t count = axis.count;
    if (index.kind == Index::Kind::integer) {
        const std::int64_t i = *index.start < 0 ? *index.start + count : *index.start;
        if (i < 0 || i >= count)
            throw Error(ErrorKind::index, concat("Tensor: index ", *index.start, " is outside axis ", position,
                                                 " with ", count, " elements"));
        axis = {static_cast<std::int32_t>(axis.start + i * axis.step), 1, 1, false};
        return;
    }
    const std::int64_t step = index.step.value_or(1);
    if (step == 0) throw Error(ErrorKind::value, "Tensor: a slice step of 0; it must not be 0");
    const auto clamp = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
        if (!given) return otherwise;
        const std::int64_t i = *given < 0 ? std::max<std::int64_t>(*given, -count - 1) + count : *given;
        return step > 0 ? std::clamp<std::int64_t>(i, 0, count) : std::clamp<std::int64_t>(i, -1, count - 1);
    };
    const std::int64_t start = clamp(index.start, step > 0 ? 0 : count - 1);
    const std::int64_t stop = clamp(index.stop, step > 0 ? count : -1);
    const std::int64_t distance = step > 0 ? stop - start : start - stop;
    const std::int64_t stride = step > 0 ? step : (step == INT64_MIN ? INT64_MAX : -step);
    const std::int64_t selected = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    if (selected == 0)
        throw Error(ErrorKind::value, concat("Tensor: the slice selects nothing of axis ", position, " with ", count,
                                             " elements; every slice must select at least one"));
    const std::int64_t combined = selected == 1 ? 1 : axis.step * step;  // one element has no stride
    axis = {static_cast<std::int32_t>(axis.start + start * axis.step), static_cast<std::int32_t>(combined),
            static_cast<std::int32_t>(selected), true};
}

Tensor Tensor::slice(const std::vector<Index>& indices) const {
    if (!has_shape())
        throw Error(ErrorKind::value,
                    concat("Tensor: a ", name(memory()),
                           " tensor without a shape cannot be sliced; give it a size or load it first"));
    require_current();
    View view = view_ ? *view_ : whole();
    std::vector<std::size_t> visible;
    for (int i = 0; i < view.rank; ++i)
        if (view.axis[static_cast<std::size_t>(i)].visible) visible.push_back(static_cast<std::size_t>(i));
    const auto is_ellipsis = [](const Index& index) { return index.kind == Index::Kind::ellipsis; };
    const auto ellipses = static_cast<std::size_t>(std::count_if(indices.begin(), indices.end(), is_ellipsis));
    const std::size_t named = indices.size() - ellipses;
    if (ellipses > 1) throw Error(ErrorKind::index, "Tensor: more than one ellipsis in a subscript");
    if (named > visible.size())
        throw Error(ErrorKind::index,
                    concat("Tensor: ", named, " indices for a tensor of ", visible.size(), " axes ", shape().text()));
    std::size_t at = 0;
    for (const Index& index : indices) {
        if (is_ellipsis(index)) {
            at += visible.size() - named;
        } else {
            apply(view.axis[visible[at]], index, static_cast<int>(at));
            ++at;
        }
    }
    Tensor out = *this;
    out.view_ = std::make_shared<const View>(view);
    return out;
}

Box Tensor::region() const {
    require_current();
    Box box;
    box.rank = storage_->type.shape.rank();
    for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i) {
        if (!view_) {
            box.end[i] = storage_->type.shape[static_cast<int>(i)];
            continue;
        }
        const Axis& axis = view_->axis[i];
        const std::int32_t last = axis.start + axis.step * (axis.count - 1);
        box.begin[i] = std::min(axis.start, last);
        box.end[i] = std::max(axis.start, last) + 1;
    }
    return box;
}

void Tensor::check_type(const TensorType& type, std::string_view who) const {
    if (!view_) return;
    if (type.dtype != dtype())
        throw Error(ErrorKind::type,
                    concat(who, ": writes ", name(type.dtype), " ", type.shape.text(), " into a slice of ",
                           name(dtype()), " ", shape().text(), "; a slice keeps its dtype"));
    if (type.shape.elements() != elements())
        throw Error(ErrorKind::value, concat(who, ": writes ", type.shape.text(), " into a slice of ", shape().text(),
                                             "; they must have the same number of elements"));
}

void Tensor::set_type(const TensorType& type) {
    if (view_) return;
    Storage& storage = *storage_;
    if (storage.has_shape && !(storage.type.shape == type.shape)) storage.generation = ++storage.generations;
    storage.type = type;
    storage.has_shape = true;
}

void Tensor::drop_shape() {
    storage_->has_shape = false;
    storage_->generation = ++storage_->generations;
}

}  // namespace mskpp
