// The table of workloads. W7 to W9 are lengths drawn log-uniformly between 128 and 8192.
#include "bench/named_workloads.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tools/document_list.h"
#include "tools/errors.h"

namespace flamia::bench {
namespace {

constexpr std::string_view kMixed = "344,198,668,245,170,684,5856,3593,3102,324,1200";
constexpr NamedWorkload kWorkloads[] = {
    {"W1", "4x4096"},
    {"W2", "16x4096"},
    {"W3", "16x1024"},
    {"W4", "64x1024"},
    {"W5", "8192+32x256"},
    {"W6", "8192+224x256"},
    {"W7", kMixed},
    {"W8", kMixed, 4},
    {"W9",
     "1386,766,1425,303,3790,3955,1949,251,1122,503,364,6769,8120,155,4605,1581,629,419,2132,860,"
     "2230,2018,224,3136,7656,7252,1650,155,131"},
    {"D1", "1x32768", 16, true},
    {"D2", "2x16384", 16, true},
    {"D3", "4x8192", 16, true},
};

}  // namespace

void WorkloadChoice::apply(tools::InputArguments* input) const {
  input->documents = documents;
  input->heads = kWorkloadHeads;
  input->kv_heads = kv_heads;
}

Status parse_workloads(std::string_view text, std::vector<WorkloadChoice>* choices) {
  const auto add = [choices](const NamedWorkload& one) {
    choices->push_back(
        {std::string(one.name), std::string(one.documents), one.kv_heads, one.causal_only});
  };
  choices->clear();
  if (text == "all") {
    std::for_each(std::begin(kWorkloads), std::end(kWorkloads), add);
    return Status();
  }
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto* known = std::find_if(std::begin(kWorkloads), std::end(kWorkloads),
                                     [&](const NamedWorkload& one) { return one.name == word; });
    if (known != std::end(kWorkloads)) {
      add(*known);
    } else {
      std::vector<int64_t> lengths;
      if (Status status = tools::parse_documents("--workload", word, &lengths); !status.ok()) {
        return status;
      }
      choices->push_back({std::string(word), std::string(word), kWorkloadHeads, false});
    }
    begin = end + 1;
  }
  return Status();
}

}  // namespace flamia::bench
