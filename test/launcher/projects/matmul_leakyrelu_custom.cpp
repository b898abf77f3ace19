// SPDX-License-Identifier: Apache-2.0
// c = leaky_relu(a @ b + bias): one block a tile of 16 rows on each cube core, a workspace for the products.
#include "graph/types.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

struct MatmulTiling {  // a plain structure, shared with the kernel
    uint32_t m, n, k;
    uint32_t rows_per_block;
    float slope;
    uint32_t has_bias;
    uint64_t ub_bytes;
};

namespace optiling {
static ge::graphStatus TilingFunc(gert::TilingContext* context) {
    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const gert::Shape& a = context->GetInputShape(0)->GetStorageShape();
    const gert::Shape& b = context->GetInputTensor(1)->GetStorageShape();
    if (a.GetDimNum() != 2 || a.GetDim(1) != b[0]) {
        return ge::GRAPH_FAILED;
    }
    MatmulTiling* tiling = context->GetTilingData<MatmulTiling>();
    tiling->m = static_cast<uint32_t>(a.GetDim(0));
    tiling->n = static_cast<uint32_t>(b.GetDim(1));
    tiling->k = static_cast<uint32_t>(a.GetDim(1));
    const uint32_t cores = platform.GetCoreNumAic();
    tiling->rows_per_block = (tiling->m + cores - 1) / cores;
    tiling->slope = *context->GetAttrs()->GetAttrPointer<float>(0);
    tiling->has_bias = context->GetOptionalInputShape(2) != nullptr;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, tiling->ub_bytes);
    context->SetBlockDim((tiling->m + tiling->rows_per_block - 1) / tiling->rows_per_block);
    context->SetTilingKey(tiling->has_bias ? 1 : 0);
    size_t* sizes = context->GetWorkspaceSizes(1);
    sizes[0] = tiling->m * tiling->n * sizeof(float);
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class MatmulLeakyreluCustom : public OpDef {
  public:
    explicit MatmulLeakyreluCustom(const char* name) : OpDef(name) {
        this->Input("a").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Input("b").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Output("c").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Attr("slope").AttrType(OPTIONAL).Float(0.01);
        OpAICoreConfig config;
        config.DynamicCompileStaticFlag(true).ExtendCfgInfo("opFile.value", "matmul_leakyrelu_custom");
        this->AICore().SetTiling(optiling::TilingFunc).AddConfig("ascend910b", config);
    }
};
OP_ADD(MatmulLeakyreluCustom);
}  // namespace ops
