// Every rule can fail: each is fed code that breaks it and code beside it that does not.
#include <gtest/gtest.h>

#include "tests/architecture/rules.hpp"

namespace megatoken::architecture {
namespace {

using Rule = Complaints (*)(const Source&);

size_t count(Rule rule, const std::string& path, const std::string& text) { return rule(Source(path, text)).size(); }

TEST(Rules, SeeCodeButNotCommentsOrLiterals) {
  EXPECT_EQ(code_of("a // b\nc /* d\ne */ f"), "a     \nc     \n     f");
  EXPECT_EQ(code_of(R"(x("a\"b", 'c', 1'000'000);)"), R"(x("    ", ' ', 1'000'000);)");
  EXPECT_EQ(code_of("R\"x(a\" // b)x\" + c"), "R\"           \" + c");
  EXPECT_EQ(code_of("#include \"a/b.hpp\"\n"), "#include \"a/b.hpp\"\n");
}

TEST(Rules, ArrowsPointOneWay) {
  EXPECT_EQ(count(arrows, "reference/core/a.cpp", "#include \"optimized/x.hpp\"\n#include \"harness/x.hpp\"\n#include \"datasets/x.hpp\"\n"), 3u);
  EXPECT_EQ(count(arrows, "reference/core/a.cpp", "#include \"tests/planted/x.hpp\"\n"), 1u);
  EXPECT_EQ(count(arrows, "optimized/a.cpp", "#include \"harness/x.hpp\"\n#include \"datasets/x.hpp\"\n"), 2u);
  EXPECT_EQ(count(arrows, "datasets/a.cpp", "#include \"reference/model/x.hpp\"\n#include \"optimized/x.hpp\"\n#include \"harness/x.hpp\"\n"), 3u);
  EXPECT_EQ(count(arrows, "harness/a.cpp", "#include \"tests/planted/x.hpp\"\n"), 1u);
  EXPECT_EQ(count(arrows, "harness/check/a.cpp", "#include \"a.hpp\"\n#include \"../b.hpp\"\n"), 2u) << "paths start at the root";

  EXPECT_EQ(count(arrows, "reference/core/a.cpp", "#include \"reference/core/x.hpp\"\n#include <vector>\n// #include \"harness/x.hpp\"\n"), 0u);
  EXPECT_EQ(count(arrows, "optimized/a.cpp", "#include \"reference/components/attention/attention.hpp\"\n#include \"optimized/x.hpp\"\n"), 0u);
  EXPECT_EQ(count(arrows, "datasets/a.cpp", "#include \"reference/core/x.hpp\"\n#include \"datasets/x.hpp\"\n"), 0u);
  EXPECT_EQ(count(arrows, "harness/a.cpp", "#include \"datasets/x.hpp\"\n#include \"optimized/x.hpp\"\n"), 0u);
  EXPECT_EQ(count(arrows, "tests/a_test.cpp", "#include \"harness/x.hpp\"\n"), 0u);
}

TEST(Rules, OptimizedCodeSeesNoImplementationOfTheReference) {
  EXPECT_EQ(count(arrows, "optimized/a.cpp", "#include \"reference/components/attention/cpu.cpp\"\n"), 1u);
  EXPECT_EQ(count(arrows, "optimized/a.cu", "#include \"reference/components/attention/gpu.cu\"\n"), 1u);
  EXPECT_EQ(count(arrows, "optimized/a.cpp", "#include \"reference/components/attention/cpu_loops.hpp\"\n"), 1u);
  EXPECT_EQ(count(arrows, "tests/a_test.cpp", "#include \"reference/components/attention/cpu_loops.hpp\"\n"), 0u);
}

TEST(Rules, LibrariesHaveOneHome) {
  EXPECT_EQ(count(homes, "harness/check/a.cpp", "#include <hdf5.h>\n"), 1u);
  EXPECT_EQ(count(homes, "harness/store/a.cpp", "#include <hdf5.h>\n"), 0u);
  EXPECT_EQ(count(homes, "harness/check/a.cpp", "#include <nccl.h>\n#include <mpi.h>\n"), 2u);
  EXPECT_EQ(count(homes, "optimized/comm/a.cpp", "#include <nccl.h>\n#include <mpi.h>\n"), 0u);
  EXPECT_EQ(count(homes, "harness/cli/verbs/a.cpp", "#include <CLI/CLI.hpp>\n"), 1u);
  EXPECT_EQ(count(homes, "harness/cli/arguments.cpp", "#include <CLI/CLI.hpp>\n"), 0u);
  EXPECT_EQ(count(homes, "harness/a.hpp", "#include <toml++/toml.h>\n#include <nlohmann/json.hpp>\n"), 2u);
  EXPECT_EQ(count(homes, "harness/a.cpp", "#include <toml++/toml.h>\n#include <nlohmann/json.hpp>\n"), 0u);
  EXPECT_EQ(count(homes, "reference/core/error.hpp", "#include <fmt/format.h>\n"), 1u);
  EXPECT_EQ(count(homes, "reference/core/format.hpp", "#include <fmt/core.h>\n"), 0u);
}

TEST(Rules, LongFilesAreAnAlarm) {
  const auto lines = [](size_t n) { std::string text; while (n-- > 0) text += "x\n"; return text; };
  EXPECT_EQ(count(length, "harness/a.cpp", lines(501)), 1u);
  EXPECT_EQ(count(length, "harness/a.cpp", lines(500)), 0u);
}

TEST(Rules, LibrariesDoNotPrintExitOrReadTheEnvironment) {
  for (const char* loud : {"std::cout << 1;", "std::cerr << 1;", "  printf(\"x\");", "std::printf(\"x\");", "fprintf(stderr, \"x\");", "puts(\"x\");", "std::exit(1);",
                           "exit(1);", "::exit(1);", "if (x) exit (1);", "getenv(\"HOME\");", "std::getenv(\"HOME\");"}) {
    EXPECT_EQ(count(silence, "reference/core/a.cpp", loud), 1u) << loud;
    EXPECT_EQ(count(silence, "optimized/a.cu", loud), 1u) << loud;
    EXPECT_EQ(count(silence, "harness/a.cpp", loud), 0u) << loud;
  }
  for (const char* fine : {"std::snprintf(buffer, 8, \"x\");", "layer.exit(x);", "at_exit(f);", "// printf(\"x\")", "\"std::cout\";", "exits(3);"})
    EXPECT_EQ(count(silence, "reference/core/a.cpp", fine), 0u) << fine;
}

TEST(Rules, KernelOffsetsAreWide) {
  for (const char* narrow : {"int row_stride = d;", "f(const float* q, int stride)", "uint32_t offset = 0;", "unsigned q_stride_t;", "int i = blockIdx.x * blockDim.x + threadIdx.x;",
                             "x[kTile * blockIdx.y] = 0;", "int i, int d) { q[i * d + 1] = 0;", "int row = 0; int width = 1; q[3 + row * width];"}) {
    EXPECT_EQ(count(wide_offsets, "optimized/a.cu", narrow), 1u) << narrow;
    EXPECT_EQ(count(wide_offsets, "optimized/a.cpp", narrow), 0u) << narrow;
  }
  for (const char* wide : {"int64_t row_stride = d;", "constexpr int kTileStride = 72;", "const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;",
                           "const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x;", "int i; tile[i * kWidth + 1];", "int i; int64_t d; q[i * d];", "int block = blockIdx.x;"})
    EXPECT_EQ(count(wide_offsets, "optimized/a.cu", wide), 0u) << wide;
}

TEST(Rules, NamesTellTheGpuArchitecture) {
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/flash.cu", "wgmma::commit();"), 1u);
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/flash_sm100.cu", "wgmma::commit();"), 1u);
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/flash_sm90.cu", "tcgen05_mma();"), 1u);
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/flash_sm90.cu", "wgmma::commit();"), 0u);
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/flash_sm100.cu", "tcgen05_mma();  // no wgmma here"), 0u);
  EXPECT_EQ(count(architecture_names, "optimized/components/attention/split.cu", "mma_sync();"), 0u);
}

TEST(Rules, FilesIntroduceThemselves) {
  EXPECT_EQ(count(introductions, "harness/a.hpp", "#pragma once\nint x;\n"), 1u);
  EXPECT_EQ(count(introductions, "harness/a.hpp", "// What it holds.\nint x;\n"), 1u);
  EXPECT_EQ(count(introductions, "reference/a.cu", "#include <vector>\n"), 1u);
  EXPECT_EQ(count(introductions, "harness/a.hpp", "// What it holds.\n#pragma once\n"), 0u);
}

TEST(Rules, NothingIsLeftForLater) {
  EXPECT_EQ(count(leftovers, "harness/a.cpp", "f();  // TODO faster\n"), 1u);
  EXPECT_EQ(count(leftovers, "harness/a.cpp", "f();  // todos los dias\n"), 0u);
}

TEST(Rules, ATypeHasOneDefinition) {
  const auto complaints = [](const std::string& a, const std::string& b) { return one_definition({Source("reference/a.hpp", a), Source("harness/b.cpp", b)}).size(); };
  const std::string one = "namespace megatoken {\nstruct Field {\n};\n}  // namespace megatoken\n";
  EXPECT_EQ(complaints(one, one), 1u);
  EXPECT_EQ(complaints(one, "namespace megatoken {\nclass Field final : Base {\n};\n}  // namespace megatoken\n"), 1u);
  EXPECT_EQ(complaints(one, "namespace megatoken {\nenum class Field { a };\n}  // namespace megatoken\n"), 1u);
  EXPECT_EQ(complaints(one, "namespace megatoken {\nnamespace {\nstruct Field {\n};\n}  // namespace\n}  // namespace megatoken\n"), 0u);
  EXPECT_EQ(complaints(one, "namespace megatoken::store {\nstruct Field {\n};\n}  // namespace megatoken::store\n"), 0u);
  EXPECT_EQ(complaints(one, "namespace megatoken {\nstruct Field::State {\n};\n}  // namespace megatoken\n"), 0u);
  EXPECT_EQ(complaints(one, "namespace megatoken {\nstruct Field;\n}  // namespace megatoken\n"), 0u);
}

}  // namespace
}  // namespace megatoken::architecture
