// Products at sizes beyond one tile and one block, over views, packed beforehand, and with several thread counts.
#include <omp.h>

#include <thread>

#include "core/base/isa.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "tests/amount.h"
#include "tests/core/backends/cpu/against_reference.h"

namespace mstrain {
namespace {

Attrs product(bool transpose_a, bool transpose_b, const std::string& epilogue = {}) {
  Attrs attrs{
      {"dims", fmt::format("{},{}->ac", transpose_a ? "ba" : "ab", transpose_b ? "cb" : "bc")}};
  if (!epilogue.empty()) {
    attrs.set("epilogue", epilogue);
    attrs.set("scale", 0.3);
  }
  return attrs;
}

TEST(CpuProducts, ProductsOfViewsInEveryOrientation) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      const Attrs attrs = product(transpose_a, transpose_b);
      const Tensor a = random(transpose_a ? Shape{70, 33} : Shape{33, 70}, 9);
      const Tensor b = random(transpose_b ? Shape{65, 70} : Shape{70, 65}, 10);
      expect_right("dot_general", {a, b}, attrs);
      expect_right("dot_general", {transpose(transpose(a) + 0), b}, attrs);
      expect_right("dot_general", {a, transpose(transpose(b) + 0)}, attrs);
      expect_right("dot_general", {a, b, random({65}, 11)},
                   product(transpose_a, transpose_b, "bias"));
      expect_right("dot_general", {cast(a, Dtype::kF64), cast(b, Dtype::kF64)}, attrs);
      // Every other row and column: no library takes it.
      const auto sparse = [](const Tensor& x) {
        return slice(slice(x, 0, 0, x.dim(0) - x.dim(0) % 2, 2), 1, 1, x.dim(1), 2);
      };
      const Tensor c = random({66, 70}, 12);
      expect_right("dot_general",
                   {sparse(transpose_a ? transpose(c) + 0 : c),
                    sparse(transpose_b ? random({64, 71}, 13) : random({70, 64}, 13))},
                   attrs);
    }
  }
}

// The product with operand `which` packed beforehand, from memory that it has left, in the bits that it has without; false
// where the kernel takes it as it lies.
bool check_packed(const Tensors& inputs, const Attrs& attrs, double tolerance, size_t which = 1) {
  const OpDef& op = *find_op("dot_general");
  const Tensor expected = run("dot_general", inputs, attrs, backend_named("reference"))[0];
  std::vector<ViewType> views;
  std::vector<void*> addresses;
  for (const Tensor& input : inputs) {
    views.push_back(input.view());
    addresses.push_back(input.buffer().data());
  }
  const ViewType out = ViewType::dense(expected.type());
  for (int threads : {1, 2}) {
    const Kernel kernel =
        find_kernel(backend_named("cpu"), op)
            ->prepare({op, attrs, views, std::span(&out, 1), threads, uint32_t{1} << which});
    if (kernel.packed.input < 0) {
      return false;
    }
    EXPECT_EQ(kernel.packed.input, static_cast<int>(which));
    const Tensor packed = tensor<uint8_t>(
        std::vector<uint8_t>(static_cast<size_t>(kernel.packed.bytes)), {kernel.packed.bytes});
    const Tensor workspace =
        tensor<uint8_t>(std::vector<uint8_t>(static_cast<size_t>(kernel.workspace_bytes)),
                        {kernel.workspace_bytes});
    kernel.packed.pack(inputs[which].buffer().data(), packed.buffer().data());
    addresses[which] = nullptr;
    // Where the kernel may, it adds to what lies in the result.
    const Tensor result = copy(kernel.in_place.empty() ? expected : inputs.back());
    if (!kernel.in_place.empty()) {
      addresses.back() = result.buffer().data();
    }
    void* const to = result.buffer().data();
    kernel.run({addresses, std::span(&to, 1), workspace.buffer().data(), packed.buffer().data()});
    expect_near(expected, result, tolerance, fmt::format("packed, {} threads", threads));
    if (kernel.in_place.empty()) {
      const Tensor read = run("dot_general", inputs, attrs, backend_named("cpu"), threads)[0];
      EXPECT_EQ(to_doubles(read), to_doubles(result)) << threads << " threads";
    }
    addresses[which] = inputs[which].buffer().data();
  }
  return true;
}

TEST(CpuProducts, ProductsWithAPackedMatrix) {
  for (bool transpose_b : {false, true}) {
    for (int64_t rows : {1, 9, 300}) {
      for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
        const double tolerance = dtype == Dtype::kF32 ? 2e-6 : 1e-2;
        // One row reads a matrix only once, as do few of a small one; 16 bits are f32 where the processor has no products of them.
        const bool must = rows > 1 && dtype == Dtype::kF32;
        const auto check = [&](const Tensors& inputs, const std::string& epilogue) {
          EXPECT_TRUE(check_packed(inputs, product(false, transpose_b, epilogue), tolerance) ||
                      !must)
              << rows << " rows, epilogue '" << epilogue << "'";
        };
        const Tensor a = cast(random({rows, 70}, 20), dtype);
        const Tensor b = cast(random(transpose_b ? Shape{65, 70} : Shape{70, 65}, 21), dtype);
        const Tensor bias = cast(random({65}, 22), dtype);
        check({a, b}, "");
        check({a, b, bias}, "bias");
        if (dtype == Dtype::kF32) {
          const Tensor addend = random({rows, 65}, 23);
          check({a, b, addend}, "add");
          check({a, b, bias, addend}, "bias add");
          check({a, b, addend}, "scale add");
          for (const char* activation : {"gelu", "gelu_tanh", "relu", "silu"}) {
            check({a, b, bias}, fmt::format("bias {}", activation));
          }
        }
      }
      // The columns of the result are those of the first operand.
      Attrs turned = product(false, transpose_b);
      turned.set("dims", std::string(transpose_b ? "ab,cb->ca" : "ab,bc->ca"));
      const Tensor b = random(transpose_b ? Shape{rows, 70} : Shape{70, rows}, 24);
      // oneDNN, which makes it with AVX-512, may take one that is transposed as it lies.
      EXPECT_TRUE(check_packed({random({65, 70}, 25), b}, turned, 2e-6, 0) || rows == 1 ||
                  isa() >= Isa::kAvx512);
    }
  }
}

// Heads of small networks, forwards and backwards, as our own loops make them; and beyond what these serve.
TEST(CpuProducts, ProductsOfFewColumns) {
  for (int64_t columns : {1, 2, 4, 5}) {
    for (int64_t rows : {16, 50}) {
      for (int64_t terms : {64, 70}) {
        for (bool transpose_a : {false, true}) {
          const Tensor a = random(transpose_a ? Shape{terms, rows} : Shape{rows, terms}, 31);
          for (bool transpose_b : {false, true}) {
            const Tensor b =
                random(transpose_b ? Shape{columns, terms} : Shape{terms, columns}, 32);
            const Tensor bias = random({columns}, 33), addend = random({rows, columns}, 34);
            const auto check = [&](const Tensors& inputs, const std::string& epilogue) {
              expect_right("dot_general", inputs, product(transpose_a, transpose_b, epilogue));
            };
            check({a, b}, "");
            check({a, b, bias}, "bias relu");
            check({a, b, addend}, "add");
            check({a, b, bias, addend}, "bias add");
          }
        }
      }
    }
  }
}

// Rows enough that kernels pack b themselves.
TEST(CpuProducts, ProductsOfManyRows) {
  for (bool transpose_b : {false, true}) {
    const Tensor a = random({2100, 24}, 24);
    const Tensor b = random(transpose_b ? Shape{40, 24} : Shape{24, 40}, 25);
    expect_right("dot_general", {a, b}, product(false, transpose_b));
    expect_right("dot_general", {a, b, random({40}, 26)}, product(false, transpose_b, "bias"));
  }
}

// Products that are made in parts: of columns where b is large, of rows too where a is transposed.
TEST(CpuProducts, ProductsInParts) {
  const Tensor b = random({2800, 450}, 28);
  const Tensor bias = random({450}, 29);
  const Tensor addend = random({5, 450}, 30);
  for (bool transpose_a : {false, true}) {
    if (kSanitized && !transpose_a) {
      continue;
    }
    const Tensor a = random(transpose_a ? Shape{2800, 5} : Shape{5, 2800}, 27);
    expect_right("dot_general", {a, b}, product(transpose_a, false));
    expect_right("dot_general", {a, b, bias}, product(transpose_a, false, "bias"));
    expect_right("dot_general", {a, b, bias, addend}, product(transpose_a, false, "bias add"));
    expect_right("dot_general", {a, b, bias}, product(transpose_a, false, "bias relu"));
  }
  const Tensor rows = random({20, 2800}, 37);
  if (!kSanitized) {
    EXPECT_TRUE(check_packed({rows, b}, product(false, false), 2e-5));
    expect_right("dot_general", {random({520, 100}, 35), random({520, 1030}, 36)},
                 product(true, false));
  }
  EXPECT_TRUE(check_packed({rows, b, bias}, product(false, false, "bias gelu"), 2e-5));
  const Attrs transposed = product(true, false);
  expect_right("dot_general", {random({9, 6200}, 31), random({9, 11}, 32)}, transposed);
  expect_right("dot_general", {random({2800, 3100}, 33), random({2800, 3}, 34)}, transposed);
}

// Where threads share the columns of blocks of which the last is narrower, one may pack that while another still reads the one before:
// a sum has the same order with every number of threads, so any difference is what one wrote in the place of another.
TEST(CpuProducts, ProductsOfBlocksOfUnlikeWidths) {
  const Tensor a = random({24, 64}, 38);
  const Tensor b = random({5 * 1024 + 544, 64}, 39);
  const auto of = [&](int threads) {
    return to_doubles(
        run("dot_general", {a, b}, product(false, true), backend_named("cpu"), threads)[0]);
  };
  const std::vector<double> one = of(1);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(of(2), one);
    EXPECT_EQ(of(3), one);
  }
}

// OpenMP may start fewer threads than it is asked for where its user lets it: parts of a product would be nobody's.
TEST(CpuProducts, ProductsAreWholeWhereOpenMpMayChooseTheirThreads) {
  const Tensor a = random({64, 300}, 45);
  const Tensor b = random({2000, 300}, 46);
  const Attrs attrs = product(false, true);
  const Tensor expected = run("dot_general", {a, b}, attrs, backend_named("reference"))[0];
  for (const bool invariant : {false, true}) {
    std::thread([&] {
      omp_set_dynamic(1);  // of this thread alone
      Context context;
      context.backend = backend_named("cpu");
      context.threads = omp_get_num_procs() + 3;
      context.batch_invariant = invariant;
      const ContextScope scope(context);
      expect_near(
          expected,
          apply(*find_op("dot_general"), Tensors{a, b}, attrs, SourceLocation::current())[0], 2e-6,
          fmt::format("of {} threads", context.threads));
    }).join();
  }
}

// Along the rows of an operand, of several dims, or along a dim of both.
TEST(CpuProducts, ProductsOfWhatIsRepeated) {
  const auto repeated = [](int64_t times, const Shape& shape, uint64_t seed) {
    return broadcast_to(random(shape, seed), shape.with_inserted(0, times));
  };
  const Attrs rows{{"dims", std::string("abc,cd->abd")}};
  for (const int64_t count : {8, 20}) {
    const Tensor x = repeated(4, {count, 64}, 47);
    expect_right("dot_general", {x, random({64, 80}, 48)}, rows);
    expect_right("dot_general", {x, random({64, 80}, 48), random({80}, 49)},
                 {{"dims", std::string("abc,cd->abd")}, {"epilogue", std::string("bias gelu")}});
    expect_right("dot_general", {x, transpose(random({80, 64}, 50))}, rows);
  }
  expect_right("dot_general", {random({80, 64}, 51), repeated(4, {20, 64}, 52)},
               {{"dims", std::string("dc,abc->dab")}});
  expect_right("dot_general", {repeated(4, {3, 20, 64}, 53), repeated(4, {3, 64, 80}, 54)},
               {{"dims", std::string("abcd,abde->abce")}});
}

TEST(CpuProducts, BatchedProductsOfHeadsAndSharedMatrices) {
  const Attrs attrs{{"dims", std::string("abcd,abed->abce")}};
  const Tensor q = transpose(random({3, 20, 4, 16}, 14), {0, 2, 1, 3});
  const Tensor k = transpose(random({3, 25, 4, 16}, 15), {0, 2, 1, 3});
  expect_right("dot_general", {q, k}, attrs);
  expect_right("dot_general", {q, broadcast_to(random({25, 16}, 16), {3, 4, 25, 16})}, attrs);
  expect_right("dot_general",
               {random({3, 4, 20, 16}, 17), broadcast_to(random({25, 16}, 18), {3, 4, 25, 16})},
               attrs);
  expect_right("dot_general", {broadcast_to(random({20, 16}, 19), {3, 4, 20, 16}), k}, attrs);
  expect_right("dot_general", {cast(q, Dtype::kF64), cast(k, Dtype::kF64)}, attrs);
}

// Every arrangement in which heads are a dim of an operand or of the result.
TEST(CpuProducts, ProductsWhoseHeadsAreADim) {
  const auto expect_product = [](const char* dims, const Shape& a, const Shape& b,
                                 const std::string& epilogue = {}, const Tensors& terms = {}) {
    Tensors inputs{random(a, 40), random(b, 41)};
    inputs.insert(inputs.end(), terms.begin(), terms.end());
    Attrs attrs{{"dims", std::string(dims)}};
    if (!epilogue.empty()) {
      attrs.set("epilogue", epilogue);
    }
    expect_right("dot_general", inputs, attrs);
  };
  const Tensor bias = random({3, 4, 20}, 42);
  const Tensor sum = random({2, 37, 3, 4, 20}, 43);
  expect_product("abc,cdef->abdef", {2, 37, 40}, {40, 3, 4, 20});
  expect_product("abc,cdef->abdef", {2, 37, 40}, {40, 3, 4, 20}, "bias add", {bias, sum});
  expect_product("abc,decf->abdef", {2, 37, 40}, {3, 4, 40, 20}, "bias add", {bias, sum});
  expect_product("abc,dec->abde", {2, 37, 40}, {4, 20, 40});
  expect_product("abde,cde->abc", {2, 37, 4, 20}, {50, 4, 20});
  expect_product("adbe,cde->abc", {2, 4, 37, 20}, {50, 4, 20}, "bias", {random({50}, 44)});
  expect_product("abc,abdef->cdef", {2, 37, 40}, {2, 37, 3, 4, 20});
  expect_product("abde,acde->adbc", {2, 37, 4, 20}, {2, 41, 4, 20});
  expect_product("adbc,acde->abde", {2, 4, 37, 41}, {2, 41, 4, 20});
  expect_product("adbc,acde->aebd", {2, 4, 37, 41}, {2, 41, 4, 20});
}

}  // namespace
}  // namespace mstrain
