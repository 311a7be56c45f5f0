// The normal distribution, maxima of normal samples, the paired t-test.

#include "pcast/normal.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace flamia::pcast {

namespace {

// The density outside is below 1e-22: nothing of a double is lost.
constexpr double kReach = 10.0;
constexpr int kIntervals = 4000;

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2.0); }

double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2.0;
}

double log_normal_cdf(double x) {
  if (x > 0) return std::log1p(-normal_cdf(-x));
  if (x > -30.0) return std::log(normal_cdf(x));
  // Mills' ratio: Phi(x) ~ density(x) / -x.
  return -0.5 * x * x - std::log(-x) - 0.5 * std::log(2.0 * std::numbers::pi);
}

double expected_maximum(double n) {
  return integrate(-kReach, kReach, kIntervals, [n](double x) {
    return x * n * normal_density(x) * std::exp((n - 1.0) * log_normal_cdf(x));
  });
}

double student_p_value(double t, double degrees) {
  // x = sqrt(degrees) * tan(angle) turns the density into cos(angle)^(degrees - 1).
  const auto density = [degrees](double angle) { return std::pow(std::cos(angle), degrees - 1.0); };
  const double quarter = std::numbers::pi / 2.0;
  const double from = std::atan(std::fabs(t) / std::sqrt(degrees));
  const double total = integrate(0.0, quarter, kIntervals, density);
  return integrate(from, quarter, kIntervals, density) / total;
}

PairedTest paired_test(std::span<const double> a, std::span<const double> b) {
  FLAMIA_CHECK(a.size() == b.size() && a.size() >= 2, a.size(), b.size());
  PairedTest test;
  const double n = static_cast<double>(a.size());
  test.pairs = static_cast<int64_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    test.mean_a += a[i] / n;
    test.mean_b += b[i] / n;
    test.mean_difference += (a[i] - b[i]) / n;
  }
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = a[i] - b[i] - test.mean_difference;
    squares += off * off;
  }
  const double error = std::sqrt(squares / (n - 1.0) / n);
  if (error > 0) {
    test.t = test.mean_difference / error;
    test.p_value = student_p_value(test.t, n - 1.0);
  }
  return test;
}

}  // namespace flamia::pcast
