// SPDX-License-Identifier: Apache-2.0
// The tiling surface of an msOpGen project, for the host: what a tiling function reads and sets, how it is registered,
// and how a program builds a context and calls it. Header only.
//
// A tiling library and its caller are compiled apart, perhaps with different settings of _GLIBCXX_USE_CXX11_ABI. So
// everything that crosses from one to the other is plain data of fixed layout (no std::string, no virtual function),
// and a library is reached by two C functions, mskpp_tiling_find_v1 and mskpp_tiling_names_v1. A change of layout
// changes their names.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
using char_t = char;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_STRING = 13,
    DT_DUAL_SUB_INT8 = 14,
    DT_DUAL_SUB_UINT8 = 15,
    DT_COMPLEX64 = 16,
    DT_COMPLEX128 = 17,
    DT_QINT8 = 18,
    DT_QINT16 = 19,
    DT_QINT32 = 20,
    DT_QUINT8 = 21,
    DT_QUINT16 = 22,
    DT_BF16 = 27,
    DT_UNDEFINED = 28,
    DT_INT4 = 29,
    DT_UINT1 = 30,
    DT_INT2 = 31,
    DT_UINT2 = 32,
    DT_COMPLEX32 = 33,
    DT_HIFLOAT8 = 34,
    DT_FLOAT8_E5M2 = 35,
    DT_FLOAT8_E4M3FN = 36,
    DT_FLOAT8_E8M0 = 37,
    DT_FLOAT6_E3M2 = 38,
    DT_FLOAT6_E2M3 = 39,
    DT_FLOAT4_E2M1 = 40,
    DT_FLOAT4_E1M2 = 41,
    DT_MAX
};

enum Format {
    FORMAT_NCHW = 0,
    FORMAT_NHWC,
    FORMAT_ND,
    FORMAT_NC1HWC0,
    FORMAT_FRACTAL_Z,
    FORMAT_NC1C0HWPAD,
    FORMAT_NHWC1C0,
    FORMAT_FSR_NCHW,
    FORMAT_FRACTAL_DECONV,
    FORMAT_C1HWNC0,
    FORMAT_FRACTAL_DECONV_TRANSPOSE,
    FORMAT_FRACTAL_DECONV_SP_STRIDE_TRANS,
    FORMAT_NC1HWC0_C04,
    FORMAT_FRACTAL_Z_C04,
    FORMAT_CHWN,
    FORMAT_FRACTAL_DECONV_SP_STRIDE8_TRANS,
    FORMAT_HWCN,
    FORMAT_NC1KHKWHWC0,
    FORMAT_BN_WEIGHT,
    FORMAT_FILTER_HWCK,
    FORMAT_HASHTABLE_LOOKUP_LOOKUPS,
    FORMAT_HASHTABLE_LOOKUP_KEYS,
    FORMAT_HASHTABLE_LOOKUP_VALUE,
    FORMAT_HASHTABLE_LOOKUP_OUTPUT,
    FORMAT_HASHTABLE_LOOKUP_HITS,
    FORMAT_C1HWNCoC0,
    FORMAT_MD,
    FORMAT_NDHWC,
    FORMAT_FRACTAL_ZZ,
    FORMAT_FRACTAL_NZ,
    FORMAT_NCDHW,
    FORMAT_DHWCN,
    FORMAT_NDC1HWC0,
    FORMAT_FRACTAL_Z_3D,
    FORMAT_CN,
    FORMAT_NC,
    FORMAT_DHWNC,
    FORMAT_FRACTAL_Z_3D_TRANSPOSE,
    FORMAT_FRACTAL_ZN_LSTM,
    FORMAT_FRACTAL_Z_G,
    FORMAT_RESERVED,
    FORMAT_ALL,
    FORMAT_NULL,
    FORMAT_ND_RNN_BIAS,
    FORMAT_FRACTAL_ZN_RNN,
    FORMAT_NYUV,
    FORMAT_NYUV_A,
    FORMAT_NCL,
    FORMAT_FRACTAL_Z_WINO,
    FORMAT_C1HWC0,
    FORMAT_END
};

/// Bits of one element; 0 where there is no fixed size (strings) or the type is unknown.
inline uint32_t BitsOf(DataType type) {
    switch (type) {
        case DT_UINT1:
            return 1;
        case DT_INT2:
        case DT_UINT2:
            return 2;
        case DT_INT4:
        case DT_FLOAT4_E2M1:
        case DT_FLOAT4_E1M2:
            return 4;
        case DT_FLOAT6_E3M2:
        case DT_FLOAT6_E2M3:
            return 6;
        case DT_INT8:
        case DT_UINT8:
        case DT_BOOL:
        case DT_QINT8:
        case DT_QUINT8:
        case DT_DUAL_SUB_INT8:
        case DT_DUAL_SUB_UINT8:
        case DT_HIFLOAT8:
        case DT_FLOAT8_E5M2:
        case DT_FLOAT8_E4M3FN:
        case DT_FLOAT8_E8M0:
            return 8;
        case DT_FLOAT16:
        case DT_BF16:
        case DT_INT16:
        case DT_UINT16:
        case DT_QINT16:
        case DT_QUINT16:
            return 16;
        case DT_FLOAT:
        case DT_INT32:
        case DT_UINT32:
        case DT_QINT32:
        case DT_COMPLEX32:
            return 32;
        case DT_DOUBLE:
        case DT_INT64:
        case DT_UINT64:
        case DT_COMPLEX64:
            return 64;
        case DT_COMPLEX128:
            return 128;
        default:
            return 0;
    }
}

/// Bytes of one element; for types below a byte 1000 + bits.
inline int GetSizeByDataType(DataType type) {
    const uint32_t bits = BitsOf(type);
    if (bits == 0) {
        return -1;
    }
    return bits % 8 == 0 ? static_cast<int>(bits / 8) : static_cast<int>(1000 + bits);
}

}  // namespace ge

namespace mskpp {
namespace tiling {

/// What a program did that would be wrong on a device as well. It goes to stderr, which the caller shows.
template <typename... Values>
inline void Complain(const char* format, Values... values) {
    std::fputs("mskpp tiling: ", stderr);
    if constexpr (sizeof...(values) == 0) {
        std::fputs(format, stderr);
    } else {
        std::fprintf(stderr, format, values...);
    }
    std::fputc('\n', stderr);
}

}  // namespace tiling
}  // namespace mskpp

namespace gert {

/// Up to 25 dimensions.
class Shape {
  public:
    static constexpr size_t kMaxDimNum = 25;

    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) {
        for (const int64_t dim : dims) {
            AppendDim(dim);
        }
    }
    size_t GetDimNum() const { return count_; }
    void SetDimNum(size_t count) { count_ = std::min(count, kMaxDimNum); }
    int64_t GetDim(size_t index) const { return index < kMaxDimNum ? dims_[index] : INT64_MIN; }
    int64_t operator[](size_t index) const { return GetDim(index); }
    int64_t& operator[](size_t index) { return dims_[std::min(index, kMaxDimNum - 1)]; }
    void SetDim(size_t index, int64_t value) {
        if (index < kMaxDimNum) {
            dims_[index] = value;
        }
    }
    Shape& AppendDim(int64_t value) {
        if (count_ < kMaxDimNum) {
            dims_[count_++] = value;
        }
        return *this;
    }
    /// Number of elements; 1 of a scalar.
    int64_t GetShapeSize() const {
        int64_t size = 1;
        for (size_t i = 0; i < count_; ++i) {
            size *= dims_[i];
        }
        return size;
    }
    bool IsScalar() const { return count_ == 0; }
    void SetScalar() { count_ = 0; }
    bool operator==(const Shape& other) const {
        return count_ == other.count_ && std::equal(dims_, dims_ + count_, other.dims_);
    }
    bool operator!=(const Shape& other) const { return !(*this == other); }

  private:
    size_t count_ = 0;
    int64_t dims_[kMaxDimNum] = {};
};

class StorageShape {
  public:
    StorageShape() = default;
    StorageShape(std::initializer_list<int64_t> origin, std::initializer_list<int64_t> storage)
        : origin_(origin), storage_(storage) {}
    const Shape& GetOriginShape() const { return origin_; }
    const Shape& GetStorageShape() const { return storage_; }
    Shape& MutableOriginShape() { return origin_; }
    Shape& MutableStorageShape() { return storage_; }

  private:
    Shape origin_;
    Shape storage_;
};

class StorageFormat {
  public:
    StorageFormat() = default;
    StorageFormat(ge::Format origin, ge::Format storage) : origin_(origin), storage_(storage) {}
    ge::Format GetOriginFormat() const { return origin_; }
    ge::Format GetStorageFormat() const { return storage_; }

  private:
    ge::Format origin_ = ge::FORMAT_ND;
    ge::Format storage_ = ge::FORMAT_ND;
};

class CompileTimeTensorDesc {
  public:
    CompileTimeTensorDesc() = default;
    CompileTimeTensorDesc(ge::DataType type, StorageFormat format) : type_(type), format_(format) {}
    ge::DataType GetDataType() const { return type_; }
    const StorageFormat& GetFormat() const { return format_; }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }

  private:
    ge::DataType type_ = ge::DT_UNDEFINED;
    StorageFormat format_;
};

/// An input or output: shape, type, format and, for inputs whose value is known, the value.
class Tensor {
  public:
    Tensor() = default;
    Tensor(StorageShape shape, CompileTimeTensorDesc desc, const void* data, size_t size)
        : shape_(shape), desc_(desc), data_(data), size_(size) {}
    const StorageShape& GetShape() const { return shape_; }
    const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
    const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
    int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }
    ge::DataType GetDataType() const { return desc_.GetDataType(); }
    const StorageFormat& GetFormat() const { return desc_.GetFormat(); }
    ge::Format GetOriginFormat() const { return desc_.GetOriginFormat(); }
    ge::Format GetStorageFormat() const { return desc_.GetStorageFormat(); }
    const CompileTimeTensorDesc& GetDesc() const { return desc_; }
    /// Bytes of the value; 0 where there is none.
    size_t GetSize() const { return size_; }
    const void* GetAddr() const { return data_; }
    /// nullptr where no value was given.
    template <typename T>
    const T* GetData() const {
        return static_cast<const T*>(data_);
    }

  private:
    StorageShape shape_;
    CompileTimeTensorDesc desc_;
    const void* data_ = nullptr;
    size_t size_ = 0;
};

/// Elements of one type behind a header, in one piece of memory.
class ContinuousVector {
  public:
    template <typename T>
    static std::unique_ptr<uint8_t[]> Create(size_t capacity) {
        static_assert(std::is_trivially_copyable<T>::value, "ContinuousVector holds plain data");
        std::unique_ptr<uint8_t[]> memory(new uint8_t[sizeof(ContinuousVector) + capacity * sizeof(T)]());
        new (memory.get()) ContinuousVector(capacity);
        return memory;
    }
    size_t GetSize() const { return size_; }
    size_t GetCapacity() const { return capacity_; }
    ge::graphStatus SetSize(size_t size) {
        if (size > capacity_) {
            return ge::GRAPH_FAILED;
        }
        size_ = size;
        return ge::GRAPH_SUCCESS;
    }
    const void* GetData() const { return this + 1; }
    void* MutableData() { return this + 1; }

  private:
    explicit ContinuousVector(size_t capacity) : capacity_(capacity) {}
    size_t capacity_;
    size_t size_ = 0;
};

template <typename T>
class TypedContinuousVector : private ContinuousVector {
  public:
    using ContinuousVector::GetCapacity;
    using ContinuousVector::GetSize;
    using ContinuousVector::SetSize;
    const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
    T* MutableData() { return static_cast<T*>(ContinuousVector::MutableData()); }
};

/// Rows of different length: Get(row) of GetSize() rows.
class ContinuousVectorVector {
  public:
    ContinuousVectorVector(const ContinuousVector* const* rows, size_t size) : rows_(rows), size_(size) {}
    size_t GetSize() const { return size_; }
    const ContinuousVector* Get(size_t row) const { return row < size_ ? rows_[row] : nullptr; }

  private:
    const ContinuousVector* const* rows_;
    size_t size_;
};

/// The bytes a tiling function hands to its kernel.
class TilingData {
  public:
    static std::unique_ptr<uint8_t[]> CreateCap(size_t capacity) {
        std::unique_ptr<uint8_t[]> memory(new uint8_t[sizeof(TilingData) + capacity]());
        new (memory.get()) TilingData(capacity);
        return memory;
    }
    size_t GetCapacity() const { return capacity_; }
    size_t GetDataSize() const { return size_; }
    void SetDataSize(size_t size) {
        if (size > capacity_) {
            mskpp::tiling::Complain("SetDataSize(%zu) is more than the capacity, %zu bytes", size, capacity_);
            size = capacity_;
        }
        size_ = size;
    }
    void* GetData() { return this + 1; }
    const void* GetData() const { return this + 1; }
    template <typename T>
    ge::graphStatus Append(const T& value) {
        static_assert(std::is_trivially_copyable<T>::value, "tiling data is plain data");
        if (sizeof(T) > capacity_ - size_) {
            return ge::GRAPH_FAILED;
        }
        std::memcpy(static_cast<uint8_t*>(GetData()) + size_, &value, sizeof(T));
        size_ += sizeof(T);
        return ge::GRAPH_SUCCESS;
    }

  private:
    explicit TilingData(size_t capacity) : capacity_(capacity) {}
    size_t capacity_;
    size_t size_ = 0;
};

enum class AttrKind : uint32_t { kInt, kFloat, kBool, kStr, kListInt, kListFloat, kListBool, kListStr, kListListInt };

struct RuntimeAttr {
    const char* name;
    AttrKind kind;
    const void* value;  // int64_t, float, bool, char[], ContinuousVector or ContinuousVectorVector
};

/// Attributes by position, in the order in which they were given.
class RuntimeAttrs {
  public:
    RuntimeAttrs() = default;
    RuntimeAttrs(const RuntimeAttr* attrs, size_t count) : attrs_(attrs), count_(count) {}
    size_t GetAttrNum() const { return count_; }
    /// nullptr for an index that does not exist, or an attribute that plainly is of another type.
    template <typename T>
    const T* GetAttrPointer(size_t index) const {
        if (index >= count_) {
            mskpp::tiling::Complain("attribute %zu is read, but %zu are given (attributes count from 0, in their order)", index,
                                    count_);
            return nullptr;
        }
        const RuntimeAttr& attr = attrs_[index];
        if (!Fits<T>(attr.kind)) {
            mskpp::tiling::Complain("attribute %zu, '%s', is of type %s but is read as another type", index, attr.name,
                                    KindName(attr.kind));
            return nullptr;
        }
        return static_cast<const T*>(attr.value);
    }
    const int64_t* GetInt(size_t index) const { return GetAttrPointer<int64_t>(index); }
    const float* GetFloat(size_t index) const { return GetAttrPointer<float>(index); }
    const bool* GetBool(size_t index) const { return GetAttrPointer<bool>(index); }
    const char* GetStr(size_t index) const { return GetAttrPointer<char>(index); }
    const TypedContinuousVector<int64_t>* GetListInt(size_t index) const {
        return GetAttrPointer<TypedContinuousVector<int64_t>>(index);
    }
    const TypedContinuousVector<float>* GetListFloat(size_t index) const {
        return GetAttrPointer<TypedContinuousVector<float>>(index);
    }
    const TypedContinuousVector<bool>* GetListBool(size_t index) const {
        return GetAttrPointer<TypedContinuousVector<bool>>(index);
    }
    const ContinuousVectorVector* GetListListInt(size_t index) const {
        return GetAttrPointer<ContinuousVectorVector>(index);
    }

  private:
    static const char* KindName(AttrKind kind) {
        switch (kind) {
            case AttrKind::kInt:
                return "int";
            case AttrKind::kFloat:
                return "float";
            case AttrKind::kBool:
                return "bool";
            case AttrKind::kStr:
                return "str";
            case AttrKind::kListInt:
                return "list_int";
            case AttrKind::kListFloat:
                return "list_float";
            case AttrKind::kListBool:
                return "list_bool";
            case AttrKind::kListStr:
                return "list_str";
            default:
                return "list_list_int";
        }
    }
    template <typename T>
    static bool Fits(AttrKind kind) {
        if constexpr (std::is_same<T, bool>::value) {
            return kind == AttrKind::kBool;
        } else if constexpr (std::is_same<T, char>::value) {
            return kind == AttrKind::kStr;
        } else if constexpr (std::is_floating_point<T>::value) {
            return kind == AttrKind::kFloat && sizeof(T) == sizeof(float);
        } else if constexpr (std::is_integral<T>::value) {
            return kind == AttrKind::kInt;
        } else if constexpr (std::is_same<T, TypedContinuousVector<int64_t>>::value) {
            return kind == AttrKind::kListInt;
        } else if constexpr (std::is_same<T, TypedContinuousVector<float>>::value) {
            return kind == AttrKind::kListFloat;
        } else if constexpr (std::is_same<T, TypedContinuousVector<bool>>::value) {
            return kind == AttrKind::kListBool;
        } else if constexpr (std::is_same<T, ContinuousVectorVector>::value) {
            return kind == AttrKind::kListListInt;
        } else {
            return true;
        }
    }
    const RuntimeAttr* attrs_ = nullptr;
    size_t count_ = 0;
};

/// Where the tensors of one parameter of the operator start, and how many there are (0: an optional one left out).
class AnchorInstanceInfo {
  public:
    AnchorInstanceInfo() = default;
    AnchorInstanceInfo(uint32_t start, uint32_t count) : start_(start), count_(count) {}
    size_t GetInstanceStart() const { return start_; }
    size_t GetInstanceNum() const { return count_; }

  private:
    uint32_t start_ = 0;
    uint32_t count_ = 0;
};

}  // namespace gert

namespace fe {

/// The chip a tiling is made for, as plain figures.
struct PlatFormInfos {
    char soc_version[64];
    char architecture[16];
    uint32_t cube_cores;
    uint32_t vector_cores;
    uint64_t ub_bytes;
    uint64_t l1_bytes;
    uint64_t l0a_bytes;
    uint64_t l0b_bytes;
    uint64_t l0c_bytes;
    uint64_t bt_bytes;
    uint64_t fb_bytes;
    uint64_t l2_bytes;
    uint64_t gm_bytes;

    uint32_t GetCoreNum() const { return cube_cores; }
};

}  // namespace fe

namespace gert {

/// What the tiling function of an operator sees. Pointers stay valid while the holder that built it lives.
class TilingContext {
  public:
    const char* GetNodeName() const { return node_name_; }
    const char* GetNodeType() const { return node_type_; }
    size_t GetComputeNodeInputNum() const { return input_count_; }
    size_t GetComputeNodeOutputNum() const { return output_count_; }
    size_t GetIrInputsNum() const { return ir_count_; }
    const AnchorInstanceInfo* GetIrInputInstanceInfo(size_t ir_index) const {
        return ir_index < ir_count_ ? &ir_[ir_index] : nullptr;
    }

    // By position among all tensors.
    const Tensor* GetInputTensor(size_t index) const { return index < input_count_ ? &inputs_[index] : nullptr; }
    const StorageShape* GetInputShape(size_t index) const { return ShapeOf(GetInputTensor(index)); }
    const CompileTimeTensorDesc* GetInputDesc(size_t index) const { return DescOf(GetInputTensor(index)); }
    const Tensor* GetOutputTensor(size_t index) const { return index < output_count_ ? &outputs_[index] : nullptr; }
    const StorageShape* GetOutputShape(size_t index) const { return ShapeOf(GetOutputTensor(index)); }
    const CompileTimeTensorDesc* GetOutputDesc(size_t index) const { return DescOf(GetOutputTensor(index)); }

    // By parameter of the operator; nullptr for an optional one that was left out.
    const Tensor* GetDynamicInputTensor(size_t ir_index, size_t relative) const {
        const AnchorInstanceInfo* info = GetIrInputInstanceInfo(ir_index);
        return info != nullptr && relative < info->GetInstanceNum()
                   ? GetInputTensor(info->GetInstanceStart() + relative)
                   : nullptr;
    }
    const StorageShape* GetDynamicInputShape(size_t ir_index, size_t relative) const {
        return ShapeOf(GetDynamicInputTensor(ir_index, relative));
    }
    const CompileTimeTensorDesc* GetDynamicInputDesc(size_t ir_index, size_t relative) const {
        return DescOf(GetDynamicInputTensor(ir_index, relative));
    }
    const Tensor* GetOptionalInputTensor(size_t ir_index) const { return GetDynamicInputTensor(ir_index, 0); }
    const StorageShape* GetOptionalInputShape(size_t ir_index) const { return GetDynamicInputShape(ir_index, 0); }
    const CompileTimeTensorDesc* GetOptionalInputDesc(size_t ir_index) const {
        return GetDynamicInputDesc(ir_index, 0);
    }
    const Tensor* GetRequiredInputTensor(size_t ir_index) const { return GetDynamicInputTensor(ir_index, 0); }
    const StorageShape* GetRequiredInputShape(size_t ir_index) const { return GetDynamicInputShape(ir_index, 0); }
    const CompileTimeTensorDesc* GetRequiredInputDesc(size_t ir_index) const {
        return GetDynamicInputDesc(ir_index, 0);
    }

    const RuntimeAttrs* GetAttrs() const { return &attrs_; }
    fe::PlatFormInfos* GetPlatformInfo() const { return platform_; }
    /// There is none: it comes from a compilation of the operator, which does not happen here.
    const void* GetCompileInfo() const { return nullptr; }
    template <typename T>
    const T* GetCompileInfo() const {
        return nullptr;
    }
    int32_t GetDeterministic() const { return 0; }

    ge::graphStatus SetTilingKey(uint64_t key) {
        tiling_key_ = key;
        return ge::GRAPH_SUCCESS;
    }
    uint64_t GetTilingKey() const { return tiling_key_; }
    ge::graphStatus SetBlockDim(uint32_t block_dim) {
        block_dim_ = block_dim;
        return ge::GRAPH_SUCCESS;
    }
    uint32_t GetBlockDim() const { return block_dim_; }
    ge::graphStatus SetNeedAtomic(bool atomic) {
        need_atomic_ = atomic;
        return ge::GRAPH_SUCCESS;
    }
    bool NeedAtomic() const { return need_atomic_; }
    ge::graphStatus SetTilingCond(int32_t condition) {
        tiling_cond_ = condition;
        return ge::GRAPH_SUCCESS;
    }
    int32_t GetTilingCond() const { return tiling_cond_; }
    ge::graphStatus SetScheduleMode(uint32_t mode) {
        schedule_mode_ = mode;
        return ge::GRAPH_SUCCESS;
    }
    uint32_t GetScheduleMode() const { return schedule_mode_; }
    ge::graphStatus SetLocalMemorySize(uint32_t bytes) {
        local_memory_bytes_ = bytes;
        return ge::GRAPH_SUCCESS;
    }
    uint32_t GetLocalMemorySize() const { return local_memory_bytes_; }
    ge::graphStatus SetAicpuBlockDim(uint32_t block_dim) {
        aicpu_block_dim_ = block_dim;
        return ge::GRAPH_SUCCESS;
    }
    uint32_t GetAicpuBlockDim() const { return aicpu_block_dim_; }

    /// Room for count sizes, which the caller sets; nullptr for more than there can be.
    size_t* GetWorkspaceSizes(size_t count) {
        if (workspace_ == nullptr || workspace_->SetSize(count) != ge::GRAPH_SUCCESS) {
            return nullptr;
        }
        return static_cast<size_t*>(workspace_->MutableData());
    }
    size_t GetWorkspaceNum() const { return workspace_ == nullptr ? 0 : workspace_->GetSize(); }
    TilingData* GetRawTilingData() { return tiling_data_; }
    /// The tiling data as a structure, zeroed; nullptr if it does not fit.
    template <typename T>
    T* GetTilingData() {
        static_assert(std::is_trivially_copyable<T>::value, "tiling data is plain data");
        if (tiling_data_ == nullptr || sizeof(T) > tiling_data_->GetCapacity()) {
            return nullptr;
        }
        tiling_data_->SetDataSize(sizeof(T));
        return static_cast<T*>(tiling_data_->GetData());
    }

    // Set by the builder.
    const char* node_name_ = "";
    const char* node_type_ = "";
    const Tensor* inputs_ = nullptr;
    const Tensor* outputs_ = nullptr;
    const AnchorInstanceInfo* ir_ = nullptr;
    size_t input_count_ = 0;
    size_t output_count_ = 0;
    size_t ir_count_ = 0;
    RuntimeAttrs attrs_;
    fe::PlatFormInfos* platform_ = nullptr;
    TilingData* tiling_data_ = nullptr;
    ContinuousVector* workspace_ = nullptr;

  private:
    static const StorageShape* ShapeOf(const Tensor* tensor) { return tensor ? &tensor->GetShape() : nullptr; }
    static const CompileTimeTensorDesc* DescOf(const Tensor* tensor) { return tensor ? &tensor->GetDesc() : nullptr; }

    uint64_t tiling_key_ = 0;
    uint32_t block_dim_ = 0;
    bool need_atomic_ = false;
    int32_t tiling_cond_ = 0;
    uint32_t schedule_mode_ = 0;
    uint32_t local_memory_bytes_ = 0;
    uint32_t aicpu_block_dim_ = 0;
};
static_assert(std::is_trivially_copyable<TilingContext>::value, "crosses library boundaries");

// Operator projects name these in functions that are never called here.
class TilingParseContext;
class InferShapeContext {
  public:
    const Shape* GetInputShape(size_t) const { return nullptr; }
    const Shape* GetOptionalInputShape(size_t) const { return nullptr; }
    const Shape* GetDynamicInputShape(size_t, size_t) const { return nullptr; }
    const Tensor* GetInputTensor(size_t) const { return nullptr; }
    const Tensor* GetOptionalInputTensor(size_t) const { return nullptr; }
    const CompileTimeTensorDesc* GetInputDesc(size_t) const { return nullptr; }
    Shape* GetOutputShape(size_t) { return nullptr; }
    const RuntimeAttrs* GetAttrs() const { return nullptr; }
    const char* GetNodeName() const { return ""; }
    size_t GetComputeNodeInputNum() const { return 0; }
};
class InferDataTypeContext {
  public:
    ge::DataType GetInputDataType(size_t) const { return ge::DT_UNDEFINED; }
    ge::DataType GetOptionalInputDataType(size_t) const { return ge::DT_UNDEFINED; }
    ge::DataType GetDynamicInputDataType(size_t, size_t) const { return ge::DT_UNDEFINED; }
    ge::graphStatus SetOutputDataType(size_t, ge::DataType) { return ge::GRAPH_SUCCESS; }
    const RuntimeAttrs* GetAttrs() const { return nullptr; }
};

}  // namespace gert

// --- registration, in the tiling library ---

namespace mskpp {
namespace tiling {

using Function = uint32_t (*)(gert::TilingContext*);

struct Registered {
    const char* op_type;
    Function function;
    Registered* next;
};

// Hidden: each library has its own list, also when several are loaded into one process.
__attribute__((visibility("hidden"))) inline Registered*& List() {
    static Registered* first = nullptr;
    return first;
}

__attribute__((visibility("hidden"))) inline void Register(const char* op_type, Function function) {
    Registered** place = &List();
    for (; *place != nullptr; place = &(*place)->next) {
        if (std::strcmp((*place)->op_type, op_type) == 0) {
            Complain("'%s' has two tiling functions; the first is used", op_type);
            return;
        }
    }
    *place = new Registered{op_type, function, nullptr};  // lives as long as the library
}

__attribute__((visibility("hidden"))) inline Function Find(const char* op_type) {
    for (const Registered* entry = List(); entry != nullptr; entry = entry->next) {
        if (std::strcmp(entry->op_type, op_type) == 0) {
            return entry->function;
        }
    }
    return nullptr;
}

__attribute__((visibility("hidden"))) inline const char* Names() {
    static char* names = nullptr;
    if (names != nullptr) {
        return names;
    }
    size_t size = 1;
    for (const Registered* entry = List(); entry != nullptr; entry = entry->next) {
        size += std::strlen(entry->op_type) + 1;
    }
    names = static_cast<char*>(std::calloc(size, 1));
    if (names == nullptr) {
        return "";
    }
    for (const Registered* entry = List(); entry != nullptr; entry = entry->next) {
        std::strcat(std::strcat(names, entry->op_type), "\n");
    }
    return names;
}

}  // namespace tiling
}  // namespace mskpp

extern "C" {

/// The tiling function of an operator of this library, or nullptr.
__attribute__((used, visibility("default"))) inline mskpp::tiling::Function mskpp_tiling_find_v1(const char* op_type) {
    return mskpp::tiling::Find(op_type);
}

/// The operators of this library, in the order of registration, each followed by a newline.
__attribute__((used, visibility("default"))) inline const char* mskpp_tiling_names_v1() {
    return mskpp::tiling::Names();
}

}  // extern "C"

namespace gert {

/// IMPL_OP_OPTILING(Op).Tiling(function)
class __attribute__((visibility("hidden"))) OpImplRegisterV2 {
  public:
    explicit OpImplRegisterV2(const char* op_type) : op_type_(op_type) {}
    OpImplRegisterV2& Tiling(mskpp::tiling::Function function, size_t = 0) {
        mskpp::tiling::Register(op_type_, function);
        return *this;
    }
    template <typename T, typename Parse>
    OpImplRegisterV2& TilingParse(Parse) {
        return *this;
    }
    template <typename Infer>
    OpImplRegisterV2& InferShape(Infer) {
        return *this;
    }
    template <typename Infer>
    OpImplRegisterV2& InferDataType(Infer) {
        return *this;
    }
    OpImplRegisterV2& InputsDataDependency(std::initializer_list<int32_t>) { return *this; }
    OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t>) { return *this; }

  private:
    const char* op_type_;
};

}  // namespace gert

#define MSKPP_JOIN_INNER(a, b) a##b
#define MSKPP_JOIN(a, b) MSKPP_JOIN_INNER(a, b)
#define IMPL_OP(op_type)                                                                                    \
    [[maybe_unused]] static const ::gert::OpImplRegisterV2 MSKPP_JOIN(mskpp_op_##op_type##_, __COUNTER__) = \
        ::gert::OpImplRegisterV2(#op_type)
#define IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)
#define IMPL_OP_INFERSHAPE(op_type) IMPL_OP(op_type)

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope { ALL, TILING };

/// The prototype of an operator. Of all it says, the host needs the tiling function alone.
class OpParamDef {
  public:
    OpParamDef& ParamType(Option) { return *this; }
    OpParamDef& DataType(std::vector<ge::DataType>) { return *this; }
    OpParamDef& DataTypeList(std::vector<ge::DataType>) { return *this; }
    OpParamDef& Format(std::vector<ge::Format>) { return *this; }
    OpParamDef& FormatList(std::vector<ge::Format>) { return *this; }
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
    OpParamDef& ValueDepend(Option) { return *this; }
    OpParamDef& ValueDepend(Option, DependScope) { return *this; }
    OpParamDef& IgnoreContiguous() { return *this; }
    OpParamDef& AutoContiguous() { return *this; }
    OpParamDef& Scalar() { return *this; }
    OpParamDef& ScalarList() { return *this; }
    OpParamDef& To(ge::DataType) { return *this; }
    OpParamDef& To(const char*) { return *this; }
    OpParamDef& Follow(const char*) { return *this; }
    OpParamDef& InitValue(uint64_t) { return *this; }
};

class OpAttrDef {
  public:
    OpAttrDef& AttrType(Option) { return *this; }
    OpAttrDef& Bool() { return *this; }
    OpAttrDef& Bool(bool) { return *this; }
    OpAttrDef& Int() { return *this; }
    OpAttrDef& Int(int64_t) { return *this; }
    OpAttrDef& Float() { return *this; }
    OpAttrDef& Float(float) { return *this; }
    OpAttrDef& String() { return *this; }
    OpAttrDef& String(const char*) { return *this; }
    OpAttrDef& ListBool() { return *this; }
    OpAttrDef& ListBool(std::vector<bool>) { return *this; }
    OpAttrDef& ListInt() { return *this; }
    OpAttrDef& ListInt(std::vector<int64_t>) { return *this; }
    OpAttrDef& ListFloat() { return *this; }
    OpAttrDef& ListFloat(std::vector<float>) { return *this; }
    OpAttrDef& ListListInt() { return *this; }
    OpAttrDef& ListListInt(std::vector<std::vector<int64_t>>) { return *this; }
};

class OpAICoreConfig {
  public:
    OpParamDef& Input(const char*) { return param_; }
    OpParamDef& Output(const char*) { return param_; }
    OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
    OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
    OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
    OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
    OpAICoreConfig& ExtendCfgInfo(const char*, const char*) { return *this; }

  private:
    OpParamDef param_;
};

class OpAICoreDef {
  public:
    OpAICoreDef& SetTiling(mskpp::tiling::Function function) {
        tiling_ = function;
        return *this;
    }
    template <typename Function>
    OpAICoreDef& SetCheckSupport(Function) {
        return *this;
    }
    template <typename Function>
    OpAICoreDef& SetOpSelectFormat(Function) {
        return *this;
    }
    OpAICoreDef& AddConfig(const char*) { return *this; }
    OpAICoreDef& AddConfig(const char*, const OpAICoreConfig&) { return *this; }
    mskpp::tiling::Function GetTiling() const { return tiling_; }

  private:
    mskpp::tiling::Function tiling_ = nullptr;
};

class OpMC2Def {
  public:
    OpMC2Def& HcclGroup(const char*) { return *this; }
};

class OpDef {
  public:
    explicit OpDef(const char*) {}
    OpParamDef& Input(const char*) { return param_; }
    OpParamDef& Output(const char*) { return param_; }
    OpAttrDef& Attr(const char*) { return attr_; }
    template <typename Function>
    OpDef& SetInferShape(Function) {
        return *this;
    }
    template <typename Function>
    OpDef& SetInferDataType(Function) {
        return *this;
    }
    template <typename Function>
    OpDef& SetInferShapeRange(Function) {
        return *this;
    }
    OpAICoreDef& AICore() { return core_; }
    OpMC2Def& MC2() { return mc2_; }
    OpDef& Comment(const char*) { return *this; }

  private:
    OpParamDef param_;
    OpAttrDef attr_;
    OpAICoreDef core_;
    OpMC2Def mc2_;
};

template <typename Op>
__attribute__((visibility("hidden"))) bool Add(const char* op_type) {
    Op op(op_type);
    if (op.AICore().GetTiling() != nullptr) {
        mskpp::tiling::Register(op_type, op.AICore().GetTiling());
    }
    return true;
}

}  // namespace ops

#define OP_ADD(op_type) \
    [[maybe_unused]] static const bool MSKPP_JOIN(mskpp_added_##op_type##_, __COUNTER__) = ::ops::Add<op_type>(#op_type)

// --- the structure of the tiling data ---

namespace optiling {

/// Base of BEGIN_TILING_DATA_DEF. SaveToBuffer writes the bytes of a C++ structure with the same fields in the same
/// order: each at its natural alignment (structures at 8), the whole padded to the largest alignment.
class TilingDef {
  public:
    size_t GetDataSize() const { return (end_ + alignment_ - 1) / alignment_ * alignment_; }
    void SaveToBuffer(void* buffer, size_t capacity) const {
        const size_t size = GetDataSize();
        if (buffer == nullptr || size > capacity) {
            mskpp::tiling::Complain("SaveToBuffer needs %zu bytes, the buffer has %zu: nothing is written", size,
                                    buffer == nullptr ? size_t{0} : capacity);
            return;
        }
        std::memset(buffer, 0, size);
        if (end_ != 0) {
            std::memcpy(buffer, bytes_.data(), end_);
        }
        for (const auto& part : parts_) {
            const auto* nested =
                reinterpret_cast<const TilingDef*>(reinterpret_cast<const char*>(this) + part.distance);
            nested->SaveToBuffer(static_cast<char*>(buffer) + part.offset, size - part.offset);
        }
    }

  protected:
    template <typename T>
    size_t Place(size_t count) {
        static_assert(std::is_arithmetic<T>::value || std::is_enum<T>::value, "a field is a number");
        return Reserve(sizeof(T) * count, alignof(T));
    }
    size_t PlaceStruct(const TilingDef& nested) {
        const size_t offset = Reserve(nested.GetDataSize(), 8);
        parts_.push_back({offset, reinterpret_cast<const char*>(&nested) - reinterpret_cast<const char*>(this)});
        return offset;
    }
    template <typename T>
    T* At(size_t offset) {
        return reinterpret_cast<T*>(bytes_.data() + offset);
    }
    template <typename T>
    const T* At(size_t offset) const {
        return reinterpret_cast<const T*>(bytes_.data() + offset);
    }

  private:
    struct Part {
        size_t offset;
        ptrdiff_t distance;  // from this object to the nested one, so that a copy finds its own
    };
    size_t Reserve(size_t size, size_t alignment) {
        const size_t offset = (end_ + alignment - 1) / alignment * alignment;
        alignment_ = std::max(alignment_, alignment);
        end_ = offset + size;
        bytes_.resize(end_);
        return offset;
    }
    size_t end_ = 0;
    size_t alignment_ = 1;
    std::vector<uint8_t> bytes_;
    std::vector<Part> parts_;
};

}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(name)             \
    class name : public ::optiling::TilingDef { \
      public:
#define TILING_DATA_FIELD_DEF(type, field)                               \
  public:                                                                \
    void set_##field(type value) { *At<type>(field##_offset_) = value; } \
    type get_##field() const { return *At<type>(field##_offset_); }      \
                                                                         \
  private:                                                               \
    size_t field##_offset_ = Place<type>(1);                             \
                                                                         \
  public:
#define TILING_DATA_FIELD_DEF_ARR(type, count, field)                                                                \
  public:                                                                                                            \
    void set_##field(const type* values) { std::memcpy(At<type>(field##_offset_), values, sizeof(type) * (count)); } \
    type* get_##field() { return At<type>(field##_offset_); }                                                        \
    const type* get_##field() const { return At<type>(field##_offset_); }                                            \
                                                                                                                     \
  private:                                                                                                           \
    size_t field##_offset_ = Place<type>(count);                                                                     \
                                                                                                                     \
  public:
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) \
  public:                                         \
    type field;                                   \
                                                  \
  private:                                        \
    size_t field##_offset_ = PlaceStruct(field);  \
                                                  \
  public:
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(op_type, name) static_assert(sizeof(name) > 0, #op_type);

// --- the chip ---

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B,
    ASCEND310P,
    ASCEND310B,
    ASCEND910_95,
    ASCEND950,
    RESERVED_VERSION = 99999
};

/// The chip's figures. Zeros when the context has no chip.
class PlatformAscendC {
  public:
    explicit PlatformAscendC(const fe::PlatFormInfos* infos) : infos_(infos) {}
    uint32_t GetCoreNum() const { return infos_ == nullptr ? 0 : infos_->cube_cores; }
    uint32_t GetCoreNumAic() const { return GetCoreNum(); }
    uint32_t GetCoreNumAiv() const { return infos_ == nullptr ? 0 : infos_->vector_cores; }
    uint32_t GetCoreNumVector() const { return GetCoreNumAiv(); }
    void GetCoreMemSize(const CoreMemType& type, uint64_t& bytes) const {
        bytes = infos_ == nullptr ? 0 : BytesOf(type);
    }
    SocVersion GetSocVersion() const {
        if (infos_ == nullptr) {
            return SocVersion::RESERVED_VERSION;
        }
        const std::string name(infos_->soc_version);
        const auto has = [&name](const char* word) { return name.find(word) != std::string::npos; };
        if (has("310P")) {
            return SocVersion::ASCEND310P;
        }
        if (has("310B")) {
            return SocVersion::ASCEND310B;
        }
        if (std::strcmp(infos_->architecture, "3510") == 0) {
            return SocVersion::ASCEND950;
        }
        return std::strcmp(infos_->architecture, "2201") == 0 ? SocVersion::ASCEND910B : SocVersion::ASCEND910;
    }
    /// Workspace that library calls inside a kernel need: 16 MiB.
    uint32_t GetLibApiWorkSpaceSize() const { return 16U << 20; }
    uint32_t GetResGroupBarrierWorkSpaceSize() const { return GetLibApiWorkSpaceSize(); }
    uint32_t GetResCubeGroupWorkSpaceSize() const { return GetLibApiWorkSpaceSize(); }
    /// Blocks for slices of work when a block is one cube core with its vector cores.
    uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cube_cores, uint32_t vector_cores) const {
        if (cube_cores == 0 || vector_cores == 0 || cube_cores > vector_cores) {
            return slices;
        }
        const uint32_t ratio = vector_cores / cube_cores;
        return (slices + ratio - 1) / ratio;
    }

  private:
    uint64_t BytesOf(CoreMemType type) const {
        switch (type) {
            case CoreMemType::L0_A:
                return infos_->l0a_bytes;
            case CoreMemType::L0_B:
                return infos_->l0b_bytes;
            case CoreMemType::L0_C:
                return infos_->l0c_bytes;
            case CoreMemType::L1:
                return infos_->l1_bytes;
            case CoreMemType::L2:
                return infos_->l2_bytes;
            case CoreMemType::UB:
                return infos_->ub_bytes;
            case CoreMemType::HBM:
                return infos_->gm_bytes;
            case CoreMemType::FB:
                return infos_->fb_bytes;
            case CoreMemType::BT:
                return infos_->bt_bytes;
            default:
                return 0;
        }
    }
    const fe::PlatFormInfos* infos_;
};

}  // namespace platform_ascendc

// --- building a context and calling a tiling function, in the caller ---

namespace context_ascendc {

using TilingFunc = uint32_t (*)(gert::TilingContext*);

/// Tiling functions of the libraries loaded so far, each found by the name of its operator.
class OpTilingRegistry {
  public:
    bool LoadTilingLibrary(const char* path) const {
        // Never closed: the functions, and what they registered, stay in use until the process ends.
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            mskpp::tiling::Complain("%s", dlerror());
            return false;
        }
        void* find = dlsym(library, "mskpp_tiling_find_v1");
        if (find == nullptr) {
            mskpp::tiling::Complain(
                "%s has no tiling functions for the host; compile its op_host sources with the "
                "include folder of mskpp",
                path);
            return false;
        }
        libraries_->push_back(reinterpret_cast<TilingFunc (*)(const char*)>(find));
        return true;
    }
    TilingFunc GetTilingFunc(const char* op_type) const {
        for (const auto& find : *libraries_) {
            if (const TilingFunc function = find(op_type)) {
                return function;
            }
        }
        return nullptr;
    }

  private:
    using Finds = std::vector<TilingFunc (*)(const char*)>;
    std::shared_ptr<Finds> libraries_ = std::make_shared<Finds>();
};

/// Owns a context and all it points to.
class KernelRunContextHolder {
  public:
    template <typename T>
    T* GetContext() const {
        static_assert(std::is_same<T, gert::TilingContext>::value, "the host builds tiling contexts only");
        return const_cast<T*>(&context_);
    }

  private:
    friend class ContextBuilder;
    gert::TilingContext context_;
    std::string name_;
    std::string type_;
    std::vector<gert::Tensor> inputs_;
    std::vector<gert::Tensor> outputs_;
    std::vector<gert::AnchorInstanceInfo> ir_;
    std::vector<gert::RuntimeAttr> attrs_;
    std::vector<std::shared_ptr<void>> owned_;
    std::unique_ptr<fe::PlatFormInfos> platform_;
};

class ContextBuilder {
  public:
    ContextBuilder() : holder_(std::make_shared<KernelRunContextHolder>()) {}
    ContextBuilder(ContextBuilder&&) = delete;
    ContextBuilder& operator=(ContextBuilder&&) = delete;

    ContextBuilder& NodeIoNum(size_t inputs, size_t outputs) {
        holder_->inputs_.resize(inputs);
        holder_->outputs_.resize(outputs);
        return *this;
    }
    ContextBuilder& IrInstanceNum(std::vector<uint32_t> counts) {
        uint32_t start = 0;
        for (const uint32_t count : counts) {
            holder_->ir_.emplace_back(start, count);
            start += count;
        }
        return *this;
    }
    ContextBuilder& SetOpNameType(const std::string& name, const std::string& type) {
        holder_->name_ = name;
        holder_->type_ = type;
        return *this;
    }
    ContextBuilder& AddInputTd(int32_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                               gert::StorageShape shape) {
        return AddInput(index, type, origin, storage, shape, nullptr, 0);
    }
    ContextBuilder& AddInputTd(int32_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                               gert::StorageShape shape, void* value) {
        return AddInput(index, type, origin, storage, shape, value, value == nullptr ? 0 : BytesOf(type, shape));
    }
    ContextBuilder& AddInputTd(int32_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                               gert::StorageShape shape, const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        auto value =
            std::make_shared<std::vector<char>>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        const size_t size = BytesOf(type, shape);
        if (!file.is_open() || value->size() < size) {
            mskpp::tiling::Complain("%s holds %zu bytes, input %d needs %zu", path.c_str(), value->size(),
                                    static_cast<int>(index), size);
            failed_ = true;
            return *this;
        }
        holder_->owned_.push_back(value);
        return AddInput(index, type, origin, storage, shape, value->data(), size);
    }
    ContextBuilder& AddOutputTd(int32_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                                gert::StorageShape shape) {
        return Add(holder_->outputs_, index, {shape, {type, {origin, storage}}, nullptr, 0});
    }

    ContextBuilder& AddAttr(const std::string& name, int64_t value) {
        return Own(name, gert::AttrKind::kInt, std::make_shared<int64_t>(value));
    }
    ContextBuilder& AddAttr(const std::string& name, bool value) {
        return Own(name, gert::AttrKind::kBool, std::make_shared<bool>(value));
    }
    ContextBuilder& AddAttr(const std::string& name, float value) {
        return Own(name, gert::AttrKind::kFloat, std::make_shared<float>(value));
    }
    ContextBuilder& AddAttr(const std::string& name, const std::string& value) {
        return OwnText(name, gert::AttrKind::kStr, value);
    }
    ContextBuilder& AddAttr(const std::string& name, const std::vector<int64_t>& values) {
        return Own(name, gert::AttrKind::kListInt, Vector(values));
    }
    ContextBuilder& AddAttr(const std::string& name, const std::vector<float>& values) {
        return Own(name, gert::AttrKind::kListFloat, Vector(values));
    }
    ContextBuilder& AddAttr(const std::string& name, const std::vector<bool>& values) {
        return Own(name, gert::AttrKind::kListBool, Vector(values));
    }
    ContextBuilder& AddAttr(const std::string& name, const std::vector<std::string>& values) {
        std::vector<const char*> texts;
        for (const std::string& value : values) {
            texts.push_back(Text(value));
        }
        return Own(name, gert::AttrKind::kListStr, Vector(texts));
    }
    ContextBuilder& AddAttr(const std::string& name, const std::vector<std::vector<int64_t>>& values) {
        auto rows = std::make_shared<std::vector<const gert::ContinuousVector*>>();
        for (const auto& value : values) {
            const auto row = Vector(value);
            holder_->owned_.push_back(row);
            rows->push_back(static_cast<const gert::ContinuousVector*>(row.get()));
        }
        holder_->owned_.push_back(rows);
        return Own(name, gert::AttrKind::kListListInt,
                   std::make_shared<gert::ContinuousVectorVector>(rows->data(), rows->size()));
    }

    ContextBuilder& CompileInfo(void*) { return *this; }
    ContextBuilder& PlatformInfo(void* infos) {
        holder_->context_.platform_ = static_cast<fe::PlatFormInfos*>(infos);
        return *this;
    }
    /// The chip comes from the environment variable MSKPP_TILING_CHIP ("name=Ascend910B1;cube_cores=24;..."), which
    /// the calling side fills from its chip data; without it there is no chip.
    ContextBuilder& AddPlatformInfo(const char*) {
        const char* text = std::getenv("MSKPP_TILING_CHIP");
        if (text == nullptr) {
            return *this;
        }
        std::map<std::string, std::string> values;
        const std::string all(text);
        for (size_t begin = 0; begin < all.size();) {
            const size_t end = std::min(all.find(';', begin), all.size());
            const size_t sign = all.find('=', begin);
            if (sign < end) {
                values[all.substr(begin, sign - begin)] = all.substr(sign + 1, end - sign - 1);
            }
            begin = end + 1;
        }
        const auto number = [&values](const char* key) { return std::strtoull(values[key].c_str(), nullptr, 10); };
        auto infos = std::unique_ptr<fe::PlatFormInfos>(new fe::PlatFormInfos());
        std::snprintf(infos->soc_version, sizeof infos->soc_version, "%s", values["name"].c_str());
        std::snprintf(infos->architecture, sizeof infos->architecture, "%s", values["architecture"].c_str());
        infos->cube_cores = static_cast<uint32_t>(number("cube_cores"));
        infos->vector_cores = static_cast<uint32_t>(number("vector_cores"));
        infos->ub_bytes = number("ub_bytes");
        infos->l1_bytes = number("l1_bytes");
        infos->l0a_bytes = number("l0a_bytes");
        infos->l0b_bytes = number("l0b_bytes");
        infos->l0c_bytes = number("l0c_bytes");
        infos->bt_bytes = number("bt_bytes");
        infos->fb_bytes = number("fb_bytes");
        infos->l2_bytes = number("l2_bytes");
        infos->gm_bytes = number("gm_bytes");
        holder_->context_.platform_ = infos.get();
        holder_->platform_ = std::move(infos);
        return *this;
    }
    ContextBuilder& TilingData(void* data) {
        holder_->context_.tiling_data_ = static_cast<gert::TilingData*>(data);
        return *this;
    }
    ContextBuilder& Workspace(gert::ContinuousVector* workspace) {
        holder_->context_.workspace_ = workspace;
        return *this;
    }
    /// nullptr when something given before was wrong.
    std::shared_ptr<KernelRunContextHolder> BuildTilingContext() {
        if (failed_) {
            return nullptr;
        }
        gert::TilingContext& context = holder_->context_;
        context.node_name_ = holder_->name_.c_str();
        context.node_type_ = holder_->type_.c_str();
        context.inputs_ = holder_->inputs_.data();
        context.input_count_ = holder_->inputs_.size();
        context.outputs_ = holder_->outputs_.data();
        context.output_count_ = holder_->outputs_.size();
        context.ir_ = holder_->ir_.data();
        context.ir_count_ = holder_->ir_.size();
        context.attrs_ = gert::RuntimeAttrs(holder_->attrs_.data(), holder_->attrs_.size());
        return holder_;
    }

  private:
    static size_t BytesOf(ge::DataType type, const gert::StorageShape& shape) {
        return static_cast<size_t>((shape.GetStorageShape().GetShapeSize() * ge::BitsOf(type) + 7) / 8);
    }
    ContextBuilder& AddInput(int32_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                             const gert::StorageShape& shape, const void* value, size_t size) {
        return Add(holder_->inputs_, index, {shape, {type, {origin, storage}}, value, size});
    }
    ContextBuilder& Add(std::vector<gert::Tensor>& tensors, int32_t index, const gert::Tensor& tensor) {
        if (index < 0 || static_cast<size_t>(index) >= tensors.size()) {
            mskpp::tiling::Complain("tensor %d, but NodeIoNum said %zu", static_cast<int>(index), tensors.size());
            failed_ = true;
        } else {
            tensors[static_cast<size_t>(index)] = tensor;
        }
        return *this;
    }
    const char* Text(const std::string& text) {
        auto copy = std::make_shared<std::vector<char>>(text.c_str(), text.c_str() + text.size() + 1);
        holder_->owned_.push_back(copy);
        return copy->data();
    }
    template <typename T>
    static std::shared_ptr<void> Vector(const std::vector<T>& values) {
        using Element = typename std::vector<T>::value_type;
        std::shared_ptr<uint8_t> memory(gert::ContinuousVector::Create<Element>(values.size()).release(),
                                        std::default_delete<uint8_t[]>());
        auto* vector = reinterpret_cast<gert::ContinuousVector*>(memory.get());
        vector->SetSize(values.size());
        std::copy(values.begin(), values.end(), static_cast<Element*>(vector->MutableData()));
        return memory;
    }
    ContextBuilder& Own(const std::string& name, gert::AttrKind kind, const std::shared_ptr<void>& value) {
        holder_->owned_.push_back(value);
        holder_->attrs_.push_back({Text(name), kind, value.get()});
        return *this;
    }
    ContextBuilder& OwnText(const std::string& name, gert::AttrKind kind, const std::string& text) {
        const char* copy = Text(text);
        holder_->attrs_.push_back({Text(name), kind, copy});
        return *this;
    }

    std::shared_ptr<KernelRunContextHolder> holder_;
    bool failed_ = false;
};

}  // namespace context_ascendc
