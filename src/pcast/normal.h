// The normal distribution as P-Cast uses it: tails, maxima of samples, the paired t-test.
// Paper: P-Cast 3.1 (delta_k), 3.3, appendix B. Everything is computed by quadrature in FP64; no
// asymptotic formula, since those are wrong by half at the four sink tokens that matter.
// Used by: closed forms, appendix B.
#pragma once

#include <cstdint>
#include <span>

namespace flamia::pcast {

/// Phi(x), accurate also far in the lower tail.
double normal_cdf(double x);
double normal_density(double x);

/// ln Phi(x), finite for every finite x.
double log_normal_cdf(double x);

/// delta_n = E[max of n independent N(0, 1)], n >= 1: 0, 0.564, 0.846, 1.029, ...
double expected_maximum(double n);

/// Mean difference of paired samples and its t statistic with n - 1 degrees of freedom.
struct PairedTest {
  int64_t pairs = 0;
  double mean_a = 0;
  double mean_b = 0;
  double mean_difference = 0;  ///< of a - b
  double t = 0;                ///< 0 where all differences are equal
  double p_value = 1;          ///< two-sided
};

/// a and b: equally long, at least two entries.
PairedTest paired_test(std::span<const double> a, std::span<const double> b);

/// Two-sided p-value of Student's t.
double student_p_value(double t, double degrees);

/// Integral of f over [begin, end] by Simpson's rule; intervals must be even.
template <typename Function>
double integrate(double begin, double end, int intervals, const Function& f) {
  const double step = (end - begin) / intervals;
  double sum = f(begin) + f(end);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4.0 : 2.0) * f(begin + i * step);
  return sum * step / 3.0;
}

}  // namespace flamia::pcast
