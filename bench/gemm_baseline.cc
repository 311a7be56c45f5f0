// Single-precision GEMM rate of this machine: the yardstick of the CPU backend.
#include "bench/gemm_baseline.h"

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>
#include <vector>

#ifdef FLAMIA_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace flamia::bench {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Multiply = void (*)(const Matrix& a, const Matrix& b, Matrix* c);

constexpr int kSize = 1024;
constexpr int kRounds = 5;
constexpr int kProductsPerRound = 4;

void multiply_eigen(const Matrix& a, const Matrix& b, Matrix* c) { c->noalias() = a * b; }

#ifdef FLAMIA_HAVE_OPENBLAS
void multiply_openblas(const Matrix& a, const Matrix& b, Matrix* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, a.data(), kSize,
              b.data(), kSize, 0.0f, c->data(), kSize);
}
#endif

struct Operands {
  Matrix a = Matrix::Random(kSize, kSize);
  Matrix b = Matrix::Random(kSize, kSize);
  Matrix c = Matrix::Zero(kSize, kSize);
};

/// A library whose calls disturb each other between threads would be fast and wrong.
bool correct(const Operands& operands) {
  const float expected = operands.a.row(3).dot(operands.b.col(5));
  return std::abs(operands.c(3, 5) - expected) < 1e-2f;
}

/// Rates of the best round; 0 if a product is wrong.
GemmRate rate(const char* library, Multiply multiply, std::vector<Operands>* operands) {
  GemmRate best{0, 0, library};
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    {
      std::vector<std::jthread> threads;
      for (Operands& mine : *operands) {
        threads.emplace_back([multiply, &mine] {
          for (int n = 0; n < kProductsPerRound; ++n) multiply(mine.a, mine.b, &mine.c);
        });
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    const double gflop =
        2e-9 * kSize * kSize * kSize * kProductsPerRound * static_cast<double>(operands->size());
    best.gflops = std::max(best.gflops, gflop / seconds.count());
    best.gflops_per_cpu = std::max(best.gflops_per_cpu, gflop / cpu_seconds);
  }
  for (const Operands& mine : *operands) {
    if (!correct(mine)) return GemmRate{0, 0, library};
  }
  return best;
}

}  // namespace

GemmRate measure_gemm(int threads) {
  std::vector<Operands> operands(static_cast<size_t>(threads));
  GemmRate best = rate("Eigen", multiply_eigen, &operands);
#ifdef FLAMIA_HAVE_OPENBLAS
  const GemmRate openblas = rate("OpenBLAS", multiply_openblas, &operands);
  if (openblas.gflops > best.gflops) best = openblas;
#endif
  return best;
}

}  // namespace flamia::bench
