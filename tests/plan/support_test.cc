// Every rule about options, with the whole sentence; every combination that must stay legal.
#include "plan/support.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "problem/names.h"

namespace flamia {
namespace {

Problem valid_problem() {
  Problem problem;
  problem.query_tokens = problem.key_tokens = 300;
  problem.documents = 4;
  problem.heads = 8;
  problem.kv_heads = 2;
  problem.head_dim = 128;
  return problem;
}

Status support(const Options& options) {
  Refusals refusals;
  check_support(valid_problem(), options, {}, &refusals);
  return refusals.status("is_supported");
}

struct Case {
  const char* name;
  std::function<void(Options*)> change;
  StatusCode code;
  const char* message;  ///< behind "is_supported: "; empty where the options are legal
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class Support : public testing::TestWithParam<Case> {};

TEST_P(Support, GivesTheReason) {
  Options options;
  GetParam().change(&options);
  const Status status = support(options);
  EXPECT_EQ(status.code(), GetParam().code);
  const std::string message = GetParam().message;
  EXPECT_EQ(status.message(), message.empty() ? "" : "is_supported: " + message);
}

constexpr StatusCode kOk = StatusCode::kOk;
constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Case kRangeCases[] = {
    {"Defaults", [](Options*) {}, kOk, ""},
    {"PathByte", [](Options* o) { o->path = static_cast<Path>(4); }, kInvalid,
     "path must be bf16, mxfp8, nvfp4 or all4bit; got 4"},
    {"MaskByte", [](Options* o) { o->mask.kind = static_cast<MaskKind>(3); }, kInvalid,
     "mask must be full, causal or window; got 3"},
    {"ManyBytes",
     [](Options* o) {
       o->emulate = static_cast<Family>(2);
       o->dq_scale = static_cast<DqScale>(255);
     },
     kInvalid,
     "emulate must be hopper or blackwell; got 2; dq_scale must be auto, document or causal; got "
     "255"},
    {"Cpu", [](Options* o) { o->backend = BackendKind::kCpu; }, kOk, ""},
    {"HopperBackend", [](Options* o) { o->backend = BackendKind::kHopper; }, kUnsupported,
     "backend must be cpu or auto on this machine; got hopper (no GPU was looked for; cpu with "
     "emulate=hopper gives its numbers)"},
    {"BlackwellBackend", [](Options* o) { o->backend = BackendKind::kBlackwell; }, kUnsupported,
     "backend must be cpu, hopper or auto in this build; got blackwell (cpu with "
     "emulate=blackwell gives its numbers)"},
    {"ManyThreads", [](Options* o) { o->threads = 1024; }, kOk, ""},
    {"TooManyThreads", [](Options* o) { o->threads = 1025; }, kInvalid,
     "threads must be between 0 and 1024; got 1025 (0 means one per core)"},
    {"NegativeThreads", [](Options* o) { o->threads = -1; }, kInvalid,
     "threads must be between 0 and 1024; got -1 (0 means one per core)"},
    {"NanScale", [](Options* o) { o->softmax_scale = kNan; }, kInvalid,
     "softmax_scale must be finite; got nan"},
    {"InfiniteScale", [](Options* o) { o->softmax_scale = -kInfinity; }, kInvalid,
     "softmax_scale must be finite; got -inf"},
    {"NegativeScale", [](Options* o) { o->softmax_scale = -1.0f; }, kOk, ""},
    {"ZeroScale", [](Options* o) { o->softmax_scale = 0.0f; }, kOk, ""},
};
INSTANTIATE_TEST_SUITE_P(Ranges, Support, testing::ValuesIn(kRangeCases), case_name);

const Case kMaskCases[] = {
    {"Causal", [](Options* o) { o->mask.kind = MaskKind::kCausal; }, kOk, ""},
    {"CausalAsWindow",
     [](Options* o) {
       o->mask = {MaskKind::kCausal, -1, 0};
     },
     kOk, ""},
    {"CausalWithWindow",
     [](Options* o) {
       o->mask = {MaskKind::kCausal, 128, 0};
     },
     kInvalid, "mask.kind must be window when a window is set; got causal with window 128,0"},
    {"FullWithWindow",
     [](Options* o) {
       o->mask = {MaskKind::kFull, -1, 0};
     },
     kInvalid, "mask.kind must be window when a window is set; got full with window -1,0"},
    {"Window",
     [](Options* o) {
       o->mask = {MaskKind::kWindow, 128, 0};
     },
     kOk, ""},
    {"WindowWithoutEnds",
     [](Options* o) {
       o->mask = {MaskKind::kWindow, -1, -1};
     },
     kOk, ""},
    {"LargestWindow",
     [](Options* o) {
       o->mask = {MaskKind::kWindow, std::numeric_limits<int64_t>::max(), 0};
     },
     kOk, ""},
    {"WindowBelow",
     [](Options* o) {
       o->mask = {MaskKind::kWindow, -2, -5};
     },
     kInvalid,
     "mask.window_left must be >= -1; got -2 (-1 means unlimited); mask.window_right must be >= "
     "-1; got -5 (-1 means unlimited)"},
};
INSTANTIATE_TEST_SUITE_P(Masks, Support, testing::ValuesIn(kMaskCases), case_name);

const Case kProbabilityCases[] = {
    {"LargestPScale", [](Options* o) { o->p_scale = 448.0f; }, kOk, ""},
    {"PScaleAboveIt", [](Options* o) { o->p_scale = 449.0f; }, kInvalid,
     "p_scale must keep log2(p_scale) + tau <= log2(448); got p_scale=449 tau=0 (larger "
     "probabilities would saturate)"},
    {"TauAboveIt",
     [](Options* o) {
       o->emulate = Family::kBlackwell;
       o->p_scale = 256.0f;
     },
     kInvalid,
     "p_scale must keep log2(p_scale) + tau <= log2(448); got p_scale=256 tau=4 (larger "
     "probabilities would saturate)"},
    {"FractionalTau",
     [](Options* o) {
       o->p_scale = 256.0f;
       o->tau = 0.8f;
     },
     kOk, ""},
    {"NegativeTau", [](Options* o) { o->tau = -0.5f; }, kInvalid,
     "tau must be finite and >= 0; got -0.5"},
    {"NanTau", [](Options* o) { o->tau = kNan; }, kInvalid, "tau must be finite and >= 0; got nan"},
    {"ZeroPScale", [](Options* o) { o->p_scale = 0.0f; }, kInvalid,
     "p_scale must be finite and >= 1; got 0 (smaller factors flush probabilities)"},
    {"InfinitePScale", [](Options* o) { o->p_scale = kInfinity; }, kInvalid,
     "p_scale must be finite and >= 1; got inf (smaller factors flush probabilities)"},
    {"SmallPScale", [](Options* o) { o->p_scale = 1.0f; }, kOk, ""},
    {"PScaleOfBf16",
     [](Options* o) {
       o->path = Path::kBf16;
       o->p_scale = 256.0f;
     },
     kInvalid, "p_scale must be 1 for path bf16; got 256 (probabilities in BF16 need no scale)"},
    {"PScaleOfAll4Bit",
     [](Options* o) {
       o->path = Path::kAll4Bit;
       o->p_scale = 256.0f;
     },
     kInvalid,
     "p_scale must be 1 for path all4bit with the numbers of hopper; got 256 (its probabilities "
     "have a scale for each 32 keys)"},
    {"PScaleOfNvfp4OnBlackwell",
     [](Options* o) {
       o->path = Path::kNvfp4;
       o->emulate = Family::kBlackwell;
       o->p_scale = 16.0f;
     },
     kInvalid,
     "p_scale must be 1 for path nvfp4 with the numbers of blackwell; got 16 (its probabilities "
     "have a scale for each 32 keys)"},
    {"TauOfBf16",
     [](Options* o) {
       o->path = Path::kBf16;
       o->tau = 8.0f;
     },
     kOk, ""},
    {"Schraudolph", [](Options* o) { o->exponential = Exponential::kSchraudolph; }, kOk, ""},
    {"SchraudolphElsewhere",
     [](Options* o) {
       o->path = Path::kNvfp4;
       o->exponential = Exponential::kSchraudolph;
     },
     kUnsupported,
     "exponential must be exact or polynomial for path nvfp4; got schraudolph (schraudolph needs "
     "path mxfp8)"},
    {"Mitchell",
     [](Options* o) {
       o->path = Path::kAll4Bit;
       o->exponential = Exponential::kMitchell;
     },
     kOk, ""},
    {"MitchellElsewhere", [](Options* o) { o->exponential = Exponential::kMitchell; }, kUnsupported,
     "exponential must be exact or polynomial for path mxfp8; got mitchell (mitchell needs path "
     "all4bit)"},
};
INSTANTIATE_TEST_SUITE_P(Probabilities, Support, testing::ValuesIn(kProbabilityCases), case_name);

const Case kProductCases[] = {
    {"RotatedBf16",
     [](Options* o) {
       o->path = Path::kBf16;
       o->hadamard = Hadamard::kOn;
     },
     kUnsupported, "hadamard must be auto or off for path bf16; got on"},
    {"RotatedAll4Bit",
     [](Options* o) {
       o->path = Path::kAll4Bit;
       o->hadamard = Hadamard::kOn;
     },
     kOk, ""},
    {"Fp8GradientsOfBf16",
     [](Options* o) {
       o->path = Path::kBf16;
       o->grad_products = GradProducts::kFp8;
     },
     kUnsupported, "grad_products must be auto or bf16 for path bf16; got fp8"},
    {"Bf16GradientsOfMxfp8", [](Options* o) { o->grad_products = GradProducts::kBf16; }, kOk, ""},
    {"Bf16GradientsOfAll4Bit",
     [](Options* o) {
       o->path = Path::kAll4Bit;
       o->grad_products = GradProducts::kBf16;
     },
     kUnsupported, "grad_products must be auto or fp8 for path all4bit; got bf16"},
    {"E5M2", [](Options* o) { o->ds_format = DsFormat::kE5M2; }, kOk, ""},
    {"E5M2WithoutFp8",
     [](Options* o) {
       o->ds_format = DsFormat::kE5M2;
       o->grad_products = GradProducts::kBf16;
     },
     kUnsupported,
     "ds_format must be e4m3 for path mxfp8 with grad_products bf16; got e5m2 (e5m2 needs path "
     "mxfp8 or nvfp4 with grad_products fp8)"},
    {"E5M2OfAll4Bit",
     [](Options* o) {
       o->path = Path::kAll4Bit;
       o->ds_format = DsFormat::kE5M2;
     },
     kUnsupported,
     "ds_format must be e4m3 for path all4bit with grad_products fp8; got e5m2 (e5m2 needs path "
     "mxfp8 or nvfp4 with grad_products fp8)"},
    {"HalfScores", [](Options* o) { o->score_accumulator = ScoreAccumulator::kF16; }, kOk, ""},
    {"HalfScoresOfNvfp4",
     [](Options* o) {
       o->path = Path::kNvfp4;
       o->score_accumulator = ScoreAccumulator::kF16;
     },
     kUnsupported, "score_accumulator must be f32 for path nvfp4; got f16 (f16 needs path mxfp8)"},
    {"Unpromoted",
     [](Options* o) {
       o->promote = Promote::kNone;
       o->accumulate = Accumulate::kHardware;
     },
     kOk, ""},
    {"UnpromotedExact", [](Options* o) { o->promote = Promote::kNone; }, kInvalid,
     "promote must be tile with accumulate exact; got none (promote none has no effect with exact "
     "accumulation)"},
    {"ExactWithDocumentScale",
     [](Options* o) {
       o->safety = Safety::kExact;
       o->dq_scale = DqScale::kDocument;
     },
     kInvalid,
     "dq_scale must be auto or causal for safety exact with dq_accumulate fp16; got document (one "
     "scale for a document lets later tokens round earlier rows of dq)"},
    {"ExactWithFp32",
     [](Options* o) {
       o->safety = Safety::kExact;
       o->dq_scale = DqScale::kDocument;
       o->dq_accumulate = DqAccumulate::kFp32;
     },
     kOk, ""},
    {"CausalScaleByDefault", [](Options* o) { o->dq_scale = DqScale::kCausal; }, kOk, ""},
};
INSTANTIATE_TEST_SUITE_P(Products, Support, testing::ValuesIn(kProductCases), case_name);

TEST(CheckSupport, ListsReasonsOfShapesAndOptions) {
  Problem problem = valid_problem();
  problem.head_dim = 96;
  Options options;
  options.path = Path::kBf16;
  options.hadamard = Hadamard::kOn;
  Refusals refusals;
  check_support(problem, options, {}, &refusals);
  EXPECT_EQ(refusals.status("is_supported").message(),
            "is_supported: head_dim must be 64 or 128; got 96 (pad q, k, v to 128); hadamard must "
            "be auto or off for path bf16; got on");
  EXPECT_EQ(refusals.status("is_supported").code(), StatusCode::kInvalidArgument);
}

TEST(CheckSupport, AcceptsEveryPathFamilyAndAccumulationModel) {
  for (size_t path = 0; path < spellings<Path>().size(); ++path) {
    for (const Family family : {Family::kHopper, Family::kBlackwell}) {
      for (const Accumulate accumulate : {Accumulate::kExact, Accumulate::kHardware}) {
        for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
          Options options;
          options.path = static_cast<Path>(path);
          options.emulate = family;
          options.accumulate = accumulate;
          options.safety = safety;
          EXPECT_EQ(support(options).message(), "");
        }
      }
    }
  }
}

Machine hopper_machine() {
  Machine machine;
  machine.gpu = BackendKind::kHopper;
  machine.no_hopper.clear();
  return machine;
}

Status support_on(const Machine& machine, const Problem& problem, const Options& options) {
  Refusals refusals;
  check_support(problem, options, machine, &refusals);
  return refusals.status("is_supported");
}

TEST(ResolveBackend, FollowsTheDeviceUnlessToldOtherwise) {
  Options options;
  EXPECT_EQ(resolve_backend(options, {}), BackendKind::kCpu);
  EXPECT_EQ(resolve_backend(options, hopper_machine()), BackendKind::kHopper);
  options.backend = BackendKind::kCpu;
  EXPECT_EQ(resolve_backend(options, hopper_machine()), BackendKind::kCpu);
  options.backend = BackendKind::kHopper;
  EXPECT_EQ(resolve_backend(options, {}), BackendKind::kHopper);
}

TEST(HopperSupport, TakesWhatItsKernelsDo) {
  for (const BackendKind backend : {BackendKind::kAuto, BackendKind::kHopper}) {
    Options options;
    options.backend = backend;
    options.mask = {MaskKind::kWindow, 100, 3};
    options.accumulate = Accumulate::kHardware;
    options.row_sum = RowSum::kP;
    options.kv_order = KvOrder::kForward;
    options.hadamard = Hadamard::kOff;
    options.p_scale = 448.0f;
    options.softmax_scale = 0.01f;
    options.delta = Delta::kOBf16;
    EXPECT_EQ(support_on(hopper_machine(), valid_problem(), options).message(), "");
    for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
      options.safety = safety;
      for (const Exponential exponential :
           {Exponential::kExact, Exponential::kPolynomial, Exponential::kSchraudolph}) {
        options.exponential = exponential;
        EXPECT_EQ(support_on(hopper_machine(), valid_problem(), options).message(), "");
      }
    }
  }
}

TEST(HopperSupport, TakesExactSafetyOfEveryPath) {
  for (const Path path : {Path::kMxfp8, Path::kNvfp4, Path::kBf16}) {
    Options options;
    options.path = path;
    options.safety = Safety::kExact;
    EXPECT_EQ(support_on(hopper_machine(), valid_problem(), options).message(), "");
  }
}

TEST(HopperSupport, RefusesEveryOtherChoiceByName) {
  struct Refused {
    std::function<void(Options*)> change;
    const char* message;
  };
  const Refused all[] = {
      {[](Options* o) { o->path = Path::kAll4Bit; },
       "path must be mxfp8, nvfp4 or bf16 for backend hopper; got all4bit"},
      {[](Options* o) {
         o->path = Path::kNvfp4;
         o->exponential = Exponential::kPolynomial;
       },
       "exponential must be exact with path nvfp4 for backend hopper; got polynomial"},
      {[](Options* o) { o->accumulate = Accumulate::kExact; },
       "accumulate must be auto or hw for backend hopper; got exact"},
      {[](Options* o) { o->promote = Promote::kNone; },
       "promote must be tile for backend hopper; got none"},
      {[](Options* o) {
         o->score_accumulator = ScoreAccumulator::kF16;
         o->safety = Safety::kExact;
       },
       "score_accumulator must be f32 with safety exact or another exponential than exact for "
       "backend hopper; got f16"},
      {[](Options* o) { o->softmax_scale = 0.0f; },
       "softmax_scale must be > 0 for backend hopper; got 0"},
      {[](Options* o) { o->softmax_scale = -2.0f; },
       "softmax_scale must be > 0 for backend hopper; got -2"},
      {[](Options* o) {
         o->emulate = Family::kBlackwell;
         o->promote = Promote::kNone;
       },
       "emulate must be hopper for backend hopper; got blackwell; promote must be tile for backend "
       "hopper; got none"},
  };
  for (const Refused& one : all) {
    Options options;
    one.change(&options);
    // Alone by device: what the GPU cannot do does not move to the CPU.
    const Status status = support_on(hopper_machine(), valid_problem(), options);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(), std::string("is_supported: ") + one.message);
    // The same choices are the CPU's to take, unless they contradict each other.
    options.backend = BackendKind::kCpu;
    EXPECT_EQ(support_on(hopper_machine(), valid_problem(), options).message().find("hopper"),
              std::string::npos);
  }
}

TEST(HopperSupport, CountsTokensAndTilesIn32Bits) {
  Problem problem = valid_problem();
  problem.query_tokens = int64_t{1} << 31;
  EXPECT_EQ(support_on(hopper_machine(), problem, {}).message(),
            "is_supported: query_tokens must be less than 2^31 for backend hopper; got 2147483648");
  --problem.query_tokens;
  EXPECT_EQ(support_on(hopper_machine(), problem, {}).message(), "");
  problem.key_tokens = int64_t{1} << 32;
  EXPECT_EQ(support_on(hopper_machine(), problem, {}).message(),
            "is_supported: key_tokens must be less than 2^31 for backend hopper; got 4294967296");
  problem.key_tokens = problem.query_tokens;
  problem.heads = problem.kv_heads = 128;  // 2^24 tiles and a few of documents' ends
  EXPECT_EQ(
      support_on(hopper_machine(), problem, {}).message(),
      "is_supported: tokens * heads must make fewer than 2^31 query tiles for backend hopper; "
      "got 16777219 * 128");
}

TEST(HopperSupport, NeedsAHopper) {
  Machine machine;
  machine.no_hopper = "no GPU: no CUDA-capable device is detected";
  Options options;
  EXPECT_EQ(support_on(machine, valid_problem(), options).message(), "");
  options.backend = BackendKind::kHopper;
  EXPECT_EQ(support_on(machine, valid_problem(), options).message(),
            "is_supported: backend must be cpu or auto on this machine; got hopper (no GPU: no "
            "CUDA-capable device is detected; cpu with emulate=hopper gives its numbers)");
}

TEST(CheckBackwardSupport, RefusesGpus) {
  Refusals refusals;
  check_backward_support({}, BackendKind::kHopper, &refusals);
  EXPECT_EQ(
      refusals.status("attention_backward").message(),
      "attention_backward: backend must be cpu for a backward pass; got hopper (gradients are "
      "not there yet on a GPU)");
}

TEST(CheckBackwardSupport, RefusesExponentialsForInference) {
  for (const Exponential exponential : {Exponential::kSchraudolph, Exponential::kMitchell}) {
    Options options;
    options.exponential = exponential;
    Refusals refusals;
    check_backward_support(options, BackendKind::kCpu, &refusals);
    EXPECT_EQ(refusals.status("attention_backward").message(),
              std::string("attention_backward: exponential must be exact or polynomial for a "
                          "backward pass; got ") +
                  name(exponential) + " (it is for inference only)");
  }
}

}  // namespace
}  // namespace flamia
