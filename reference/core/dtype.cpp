#include "reference/core/dtype.hpp"

#include <array>
#include <cmath>

#include "reference/core/names.hpp"

namespace megatoken {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int64_t size;
  int mantissa;  // stored bits; −1 for integers
};
constexpr std::array<Row, 8> kRows{{{DType::F64, "fp64", 8, 52},
                                    {DType::F32, "fp32", 4, 23},
                                    {DType::F16, "fp16", 2, 10},
                                    {DType::BF16, "bf16", 2, 7},
                                    {DType::E4M3, "e4m3", 1, 3},
                                    {DType::I32, "i32", 4, -1},
                                    {DType::I64, "i64", 8, -1},
                                    {DType::U8, "u8", 1, -1}}};

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t size_of(DType dtype) { return row(dtype).size; }
std::string to_string(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).mantissa >= 0; }
double unit_roundoff(DType dtype) { return is_float(dtype) ? std::ldexp(1.0, -row(dtype).mantissa - 1) : 0; }

DType parse_dtype(const std::string& name) {
  std::vector<std::string> names;
  for (const Row& r : kRows) {
    if (name == r.name) return r.dtype;
    names.emplace_back(r.name);
  }
  throw_unknown_name("dtype", name, names);
}

}  // namespace megatoken
