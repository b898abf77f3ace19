// SPDX-License-Identifier: Apache-2.0
// A tiling function that looks at all there is: attributes of each type, dynamic and optional inputs, values.
#include "exe_graph/runtime/tiling_context.h"
#include "register/op_impl_registry.h"
#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(ScaleAttributes)
TILING_DATA_FIELD_DEF(uint8_t, transpose);
TILING_DATA_FIELD_DEF(float, factor);
TILING_DATA_FIELD_DEF(int64_t, axis);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleAttributesOp, ScaleAttributes)

BEGIN_TILING_DATA_DEF(ScaleTilingData)
TILING_DATA_FIELD_DEF(uint8_t, inputs);
TILING_DATA_FIELD_DEF(uint16_t, outputs);
TILING_DATA_FIELD_DEF_ARR(int32_t, 4, axes);
TILING_DATA_FIELD_DEF(uint8_t, modeLength);
TILING_DATA_FIELD_DEF_STRUCT(ScaleAttributes, attributes);
TILING_DATA_FIELD_DEF(int64_t, value);
TILING_DATA_FIELD_DEF(uint32_t, flags);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleCustom, ScaleTilingData)

constexpr uint32_t kOptionalIsThere = 1;
constexpr uint32_t kDynamicHasTwo = 2;
constexpr uint32_t kFirstIsHalfNz = 4;
constexpr uint32_t kFirstHasNoValue = 8;
constexpr uint32_t kOriginDiffers = 16;
constexpr uint32_t kRowsAreRagged = 32;
constexpr uint32_t kListOfFloat = 64;
constexpr uint32_t kListOfBool = 128;

static ge::graphStatus ScaleTiling(gert::TilingContext* context) {
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    const float* factor = attrs->GetFloat(0);
    const auto* axes = attrs->GetListInt(1);
    const char* mode = attrs->GetAttrPointer<char>(2);
    const bool* transpose = attrs->GetBool(3);
    const int64_t* axis = attrs->GetInt(4);
    const auto* rows = attrs->GetListListInt(5);
    const auto* weights = attrs->GetListFloat(6);
    const auto* switches = attrs->GetListBool(7);
    if (factor == nullptr || axes == nullptr || mode == nullptr || transpose == nullptr || axis == nullptr ||
        rows == nullptr || weights == nullptr || switches == nullptr || attrs->GetAttrNum() != 8) {
        return ge::GRAPH_PARAM_INVALID;
    }
    uint32_t flags = 0;
    flags |= context->GetOptionalInputTensor(2) != nullptr ? kOptionalIsThere : 0;
    flags |= context->GetDynamicInputShape(1, 1) != nullptr && context->GetDynamicInputShape(1, 2) == nullptr
                 ? kDynamicHasTwo
                 : 0;
    const gert::CompileTimeTensorDesc* desc = context->GetInputDesc(0);
    flags |= desc->GetDataType() == ge::DT_FLOAT16 && desc->GetStorageFormat() == ge::FORMAT_FRACTAL_NZ &&
                     desc->GetOriginFormat() == ge::FORMAT_ND
                 ? kFirstIsHalfNz
                 : 0;
    flags |= context->GetInputTensor(0)->GetData<uint16_t>() == nullptr ? kFirstHasNoValue : 0;
    const gert::StorageShape* shape = context->GetInputShape(0);
    flags |= shape->GetOriginShape() != shape->GetStorageShape() ? kOriginDiffers : 0;
    const auto* row = rows->Get(1);
    flags |= rows->GetSize() == 2 && rows->Get(0)->GetSize() == 1 && row->GetSize() == 2 &&
                     static_cast<const int64_t*>(row->GetData())[1] == -3
                 ? kRowsAreRagged
                 : 0;
    flags |= weights->GetSize() == 2 && weights->GetData()[1] == 0.5F ? kListOfFloat : 0;
    flags |= switches->GetSize() == 2 && switches->GetData()[0] && !switches->GetData()[1] ? kListOfBool : 0;

    ScaleTilingData tiling;
    tiling.set_inputs(static_cast<uint8_t>(context->GetComputeNodeInputNum()));
    tiling.set_outputs(static_cast<uint16_t>(context->GetComputeNodeOutputNum()));
    int32_t four[4] = {-1, -1, -1, -1};
    for (size_t i = 0; i < axes->GetSize() && i < 4; ++i) {
        four[i] = static_cast<int32_t>(axes->GetData()[i]);
    }
    tiling.set_axes(four);
    tiling.set_modeLength(static_cast<uint8_t>(std::strlen(mode)));
    tiling.attributes.set_transpose(*transpose);
    tiling.attributes.set_factor(*factor);
    tiling.attributes.set_axis(*axis);
    const gert::Tensor* last = context->GetInputTensor(context->GetComputeNodeInputNum() - 1);
    const int64_t* value = last->GetData<int64_t>();
    tiling.set_value(value == nullptr ? -1 : value[last->GetShapeSize() - 1]);
    tiling.set_flags(flags);

    const ScaleTilingData copy = tiling;  // as some projects do
    copy.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(copy.GetDataSize());
    size_t* sizes = context->GetWorkspaceSizes(2);
    sizes[0] = 1024;
    sizes[1] = 24;
    context->SetBlockDim(4);
    return context->SetTilingKey(18446744073709551615U);
}

struct CompileInfo {};
static ge::graphStatus ParseScale(gert::TilingParseContext*) { return ge::GRAPH_SUCCESS; }

IMPL_OP_OPTILING(ScaleCustom).Tiling(ScaleTiling).TilingParse<CompileInfo>(ParseScale);
IMPL_OP_OPTILING(ScaleOther).Tiling(ScaleTiling);
}  // namespace optiling
