// SPDX-License-Identifier: Apache-2.0
// What the host's tiling surface answers beyond what the projects here ask for. Ends with the line of the first wrong
// answer, or 0.
#include "register/op_impl_registry.h"
#include "tiling/context/context_builder.h"
#include "tiling/platform/platform_ascendc.h"

#define CHECK(condition) \
    if (!(condition)) return __LINE__

namespace optiling {
BEGIN_TILING_DATA_DEF(Inner)
TILING_DATA_FIELD_DEF(uint8_t, first);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Middle)
TILING_DATA_FIELD_DEF(uint16_t, first);
TILING_DATA_FIELD_DEF_STRUCT(Inner, inner);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Outer)
TILING_DATA_FIELD_DEF(bool, first);
TILING_DATA_FIELD_DEF_STRUCT(Middle, middle);
TILING_DATA_FIELD_DEF_ARR(uint8_t, 3, last);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Empty)
END_TILING_DATA_DEF;
}  // namespace optiling

static int Structures() {
    optiling::Outer outer;
    CHECK(outer.GetDataSize() == 32);
    outer.set_first(true);
    outer.middle.set_first(0x0203);
    outer.middle.inner.set_first(4);
    const uint8_t three[3] = {5, 6, 7};
    outer.set_last(three);
    CHECK(outer.get_last()[2] == 7 && outer.get_first() && outer.middle.get_first() == 0x0203);
    uint8_t bytes[40];
    std::memset(bytes, 0xFF, sizeof bytes);
    outer.SaveToBuffer(bytes, 31);
    CHECK(bytes[0] == 0xFF);
    outer.SaveToBuffer(nullptr, 40);
    outer.SaveToBuffer(bytes, sizeof bytes);
    const uint8_t expected[32] = {1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7};
    CHECK(std::memcmp(bytes, expected, sizeof expected) == 0 && bytes[32] == 0xFF);
    CHECK(optiling::Empty().GetDataSize() == 0);
    return 0;
}

static int Shapes() {
    gert::Shape shape{2, 3};
    CHECK(shape.GetShapeSize() == 6 && shape.GetDim(25) == INT64_MIN && !shape.IsScalar());
    shape.SetDim(1, 4);
    shape.AppendDim(5);
    CHECK(shape == (gert::Shape{2, 4, 5}) && shape != gert::Shape{});
    shape[0] = 7;
    CHECK(shape[0] == 7);
    for (int i = 0; i < 40; ++i) shape.AppendDim(1);
    CHECK(shape.GetDimNum() == 25);
    shape.SetDimNum(1);
    CHECK(shape == gert::Shape{7});
    shape.SetScalar();
    CHECK(shape.IsScalar() && shape.GetShapeSize() == 1);
    CHECK(ge::GetSizeByDataType(ge::DT_FLOAT16) == 2 && ge::GetSizeByDataType(ge::DT_INT4) == 1004);
    CHECK(ge::GetSizeByDataType(ge::DT_STRING) == -1);
    return 0;
}

static int Data() {
    const auto memory = gert::TilingData::CreateCap(6);
    auto* data = reinterpret_cast<gert::TilingData*>(memory.get());
    CHECK(data->Append(uint32_t{0x04030201}) == ge::GRAPH_SUCCESS && data->GetDataSize() == 4);
    CHECK(data->Append(uint32_t{0}) == ge::GRAPH_FAILED && data->GetDataSize() == 4);
    CHECK(static_cast<const uint8_t*>(data->GetData())[3] == 4 && data->GetCapacity() == 6);
    const auto sizes = gert::ContinuousVector::Create<size_t>(2);
    auto* vector = reinterpret_cast<gert::ContinuousVector*>(sizes.get());
    CHECK(vector->SetSize(3) == ge::GRAPH_FAILED && vector->SetSize(2) == ge::GRAPH_SUCCESS);
    return 0;
}

static int Context() {
    const auto memory = gert::TilingData::CreateCap(16);
    const auto sizes = gert::ContinuousVector::Create<size_t>(2);
    int32_t value = 9;
    context_ascendc::ContextBuilder builder;
    builder.NodeIoNum(2, 1).IrInstanceNum({1, 0, 1}).SetOpNameType("name", "Type").TilingData(memory.get());
    builder.Workspace(reinterpret_cast<gert::ContinuousVector*>(sizes.get()));
    builder.AddInputTd(0, ge::DT_INT32, ge::FORMAT_ND, ge::FORMAT_ND, gert::StorageShape({1}, {1}), &value);
    builder.AddInputTd(1, ge::DT_BF16, ge::FORMAT_NCHW, ge::FORMAT_NC1HWC0, gert::StorageShape({2}, {3}));
    builder.AddOutputTd(0, ge::DT_BF16, ge::FORMAT_ND, ge::FORMAT_ND, gert::StorageShape({2}, {3}));
    builder.AddAttr("texts", std::vector<std::string>{"a", "bc"}).AddAttr("f", 1.5F);
    builder.AddPlatformInfo("Ascend310P3");
    const auto holder = builder.BuildTilingContext();
    auto* context = holder->GetContext<gert::TilingContext>();
    CHECK(std::string(context->GetNodeName()) + context->GetNodeType() == "nameType");
    CHECK(*context->GetInputTensor(0)->GetData<int32_t>() == 9 && context->GetInputTensor(0)->GetSize() == 4);
    CHECK(context->GetRequiredInputShape(2)->GetStorageShape().GetDim(0) == 3);
    CHECK(context->GetOptionalInputDesc(1) == nullptr && context->GetOptionalInputDesc(3) == nullptr);
    CHECK(context->GetDynamicInputDesc(2, 0)->GetFormat().GetStorageFormat() == ge::FORMAT_NC1HWC0);
    CHECK(context->GetInputShape(2) == nullptr && context->GetOutputDesc(1) == nullptr);
    CHECK(context->GetOutputShape(0)->GetOriginShape().GetDim(0) == 2 && context->GetIrInputsNum() == 3);
    const auto* texts = context->GetAttrs()->GetAttrPointer<gert::ContinuousVector>(0);
    CHECK(texts->GetSize() == 2 && std::string(static_cast<const char* const*>(texts->GetData())[1]) == "bc");
    CHECK(context->GetAttrs()->GetInt(1) == nullptr && context->GetAttrs()->GetInt(2) == nullptr);
    CHECK(context->GetWorkspaceSizes(3) == nullptr && context->GetWorkspaceSizes(2) != nullptr);
    CHECK(context->GetWorkspaceNum() == 2);
    struct Small {
        uint64_t a, b;
    };
    struct Large {
        uint64_t a, b, c;
    };
    CHECK(context->GetTilingData<Large>() == nullptr && context->GetTilingData<Small>() != nullptr);
    CHECK(context->GetRawTilingData()->GetDataSize() == 16 && context->GetCompileInfo<int>() == nullptr);
    context->SetScheduleMode(1);
    context->SetTilingCond(2);
    context->SetLocalMemorySize(3);
    context->SetAicpuBlockDim(4);
    context->SetNeedAtomic(true);
    CHECK(context->GetScheduleMode() == 1 && context->GetTilingCond() == 2 && context->GetLocalMemorySize() == 3);
    CHECK(context->GetAicpuBlockDim() == 4 && context->NeedAtomic());

    const platform_ascendc::PlatformAscendC chip(context->GetPlatformInfo());
    CHECK(chip.GetCoreNum() == 8 && chip.GetCoreNumAic() == 8 && chip.GetCoreNumAiv() == 16);
    CHECK(chip.GetSocVersion() == platform_ascendc::SocVersion::ASCEND310P);
    CHECK(chip.CalcTschBlockDim(9, 8, 16) == 5 && chip.CalcTschBlockDim(9, 8, 0) == 9);
    CHECK(chip.GetLibApiWorkSpaceSize() == 16777216);
    uint64_t bytes = 1;
    chip.GetCoreMemSize(platform_ascendc::CoreMemType::L0_C, bytes);
    CHECK(bytes == 131072);
    chip.GetCoreMemSize(platform_ascendc::CoreMemType::L2, bytes);
    CHECK(bytes == 0);
    CHECK(platform_ascendc::PlatformAscendC(nullptr).GetCoreNumAiv() == 0);
    return 0;
}

static int WrongUse() {
    context_ascendc::ContextBuilder builder;
    builder.NodeIoNum(1, 0);
    builder.AddInputTd(1, ge::DT_INT8, ge::FORMAT_ND, ge::FORMAT_ND, gert::StorageShape({1}, {1}));
    CHECK(builder.BuildTilingContext() == nullptr);
    context_ascendc::ContextBuilder other;
    other.NodeIoNum(1, 0);
    other.AddInputTd(0, ge::DT_INT8, ge::FORMAT_ND, ge::FORMAT_ND, gert::StorageShape({1}, {1}), std::string("absent"));
    CHECK(other.BuildTilingContext() == nullptr);
    return 0;
}

static uint32_t First(gert::TilingContext*) { return 1; }
static uint32_t Second(gert::TilingContext*) { return 2; }
IMPL_OP_OPTILING(Twice).Tiling(First);
IMPL_OP(Twice).Tiling(Second).InferShape([] { return 0; });

int main() {
    for (int (*check)() : {Structures, Shapes, Data, Context, WrongUse}) {
        if (const int line = check()) {
            std::printf("%d\n", line);
            return 1;
        }
    }
    CHECK(mskpp_tiling_find_v1("Twice") == First && std::string(mskpp_tiling_names_v1()) == "Twice\n");
    std::puts("0");
    return 0;
}
