// Figures printed in the P-Cast paper, and how near ours must come.
// Paper: P-Cast Tables 1 and 2, appendices A and B. Used by: the pcast command, tests.
#pragma once

#include <cstdint>

#include "pcast/cast_kernel.h"

namespace flamia::pcast {

/// Table 1: N = 4096, 4 sinks; percentages.
struct PublishedCollapse {
  double sink;
  double zeroed_unscaled;  ///< S = 1
  double zeroed_scaled;    ///< S = 256
  double other_mass;
  double loss;  ///< other_mass * zeroed_unscaled
};
inline constexpr PublishedCollapse kTable1[] = {
    {5, 22.3, 0.0, 88.0, 19.6}, {6, 51.6, 0.0, 74.0, 38.2}, {7, 82.0, 0.0, 51.7, 42.4},
    {8, 94.8, 0.3, 32.2, 30.5}, {9, 99.5, 2.3, 13.9, 13.9}, {10, 100, 11.7, 5.8, 5.8},
    {12, 100, 67.9, 0.8, 0.8}};
inline constexpr int kTable1Seeds = 12;

/// Largest difference, in points of a percentage.
inline constexpr double kTable1Tolerance = 3.0;

/// The five configurations of section 6.2, in the order of Table 2.
struct Configuration {
  const char* name;
  CastKernel kernel;
};
inline constexpr Configuration kConfigurations[] = {
    {"forward, S=1", {KeyOrder::kForward, 1.0f}},
    {"reverse, S=1", {KeyOrder::kReverse, 1.0f}},
    {"forward, S=448", {KeyOrder::kForward, kE4m3Max}},
    {"forward, S=256", {KeyOrder::kForward, 256.0f}},
    {"reverse, S=256", {KeyOrder::kReverse, 256.0f}}};
inline constexpr int kConfigurationCount = 5;

/// Table 2: MSE at sink strength 7, rows as above.
inline constexpr int64_t kTable2Keys[] = {4096, 8192, 16384};
inline constexpr double kTable2[kConfigurationCount][3] = {{5.65e-5, 4.40e-5, 2.94e-5},
                                                           {1.70e-5, 0.83e-5, 0.32e-5},
                                                           {1.81e-5, 0.90e-5, 0.32e-5},
                                                           {1.64e-5, 0.80e-5, 0.28e-5},
                                                           {1.64e-5, 0.81e-5, 0.28e-5}};
/// First row over the best.
inline constexpr double kTable2Ratio[] = {3.4, 5.5, 10.5};
inline constexpr double kTable2Sink = 7;
inline constexpr int kTable2Seeds = 20;
/// Largest relative difference.
inline constexpr double kTable2Tolerance = 0.10;

/// Appendix A. dp of 512 is that of Remark 3.
struct PublishedStep {
  double scale;
  double step;
  double unit;  ///< of the last digit that the paper prints; 0: exact
};
inline constexpr PublishedStep kSteps[] = {
    {1, 0.0625, 0},      {2, 0.0625, 0},      {4, 0.0625, 0},
    {8, 0.0625, 0},      {16, 0.0625, 0},     {32, 0.0625, 0},
    {64, 0.0625, 0},     {128, 0.0625, 0},    {256, 0.0625, 0},
    {512, 0.25, 0},      {3, 0.083, 0.001},   {100, 0.080, 0.001},
    {250, 0.064, 0.001}, {300, 0.107, 0.001}, {static_cast<double>(kE4m3Max), 0.071, 0.001}};

/// Appendix B: MSE in reverse less MSE in forward order, S = 256.
struct PublishedSaturation {
  double sink;
  int64_t keys;
  double mean_difference;
  double t;
};
inline constexpr PublishedSaturation kAppendixB[] = {{7, 4096, -7e-9, -1.0},
                                                     {7, 16384, -3e-9, -1.1},
                                                     {10, 16384, -2e-8, -4.4},
                                                     {12, 16384, -1e-8, -3.6}};
inline constexpr int kAppendixBSeeds = 100;
/// The same order of magnitude: at most this factor apart.
inline constexpr double kAppendixBFactor = 10;

/// Figure 2: sink strengths at 4096 keys; Figure 3: keys at sink strength 7.
inline constexpr double kFigure2Sinks[] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
inline constexpr int64_t kFigure3Keys[] = {512, 1024, 2048, 4096, 8192, 16384};
inline constexpr int64_t kFigure2Keys = 4096;
inline constexpr int kFigureSeeds = 20;
inline constexpr int64_t kSinkTokens = 4;
/// Figure 3's caption: forward S = 1 over forward S = 256 at the ends.
inline constexpr double kFigure3RatioShort = 1.3;
inline constexpr double kFigure3RatioLong = 10;
/// The caption rounds to 1.3 and 10.
inline constexpr double kFigure3Tolerance = 0.15;
/// Figure 2's caption: where the error of S = 1 in forward order peaks. Under it lies the rounding
/// of the sinks themselves, which only grows, so the peak is looked for in what S = 1 adds.
inline constexpr double kFigure2PeakLow = 7;
inline constexpr double kFigure2PeakHigh = 8;

}  // namespace flamia::pcast
