// The workloads that results name: their sizes, and lists of them.
#include "bench/named_workloads.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tools/document_list.h"

namespace flamia::bench {
namespace {

std::vector<WorkloadChoice> choices_of(const std::string& text) {
  std::vector<WorkloadChoice> choices;
  EXPECT_EQ(parse_workloads(text, &choices).message(), "");
  return choices;
}

int64_t tokens_of(const WorkloadChoice& choice) {
  std::vector<int64_t> lengths;
  EXPECT_EQ(tools::parse_documents("--docs", choice.documents, &lengths).message(), "");
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

TEST(NamedWorkloads, AllHaveTheirTokens) {
  const std::map<std::string, int64_t> wanted = {
      {"W1", 16384}, {"W2", 65536}, {"W3", 16384}, {"W4", 65536}, {"W5", 16384}, {"W6", 65536},
      {"W7", 16384}, {"W8", 16384}, {"W9", 65536}, {"D1", 32768}, {"D2", 32768}, {"D3", 32768}};
  std::map<std::string, int64_t> got;
  for (const WorkloadChoice& choice : choices_of("all")) {
    got[choice.name] = tokens_of(choice);
    EXPECT_EQ(choice.causal_only, choice.name[0] == 'D');
    EXPECT_EQ(choice.kv_heads, choice.name == "W8" ? 4 : 16);
  }
  EXPECT_EQ(got, wanted);
}

TEST(NamedWorkloads, ListsMixNamesAndDocuments) {
  const std::vector<WorkloadChoice> choices = choices_of("W5,8x2048+100,D1");
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1].name, "8x2048+100");
  EXPECT_EQ(tokens_of(choices[1]), 8 * 2048 + 100);
  tools::InputArguments input;
  choices[0].apply(&input);
  EXPECT_EQ(input.documents, "8192+32x256");
  EXPECT_EQ(input.heads, 16);
  EXPECT_EQ(input.kv_heads, 16);
}

TEST(NamedWorkloads, WhatIsNeitherIsRefused) {
  std::vector<WorkloadChoice> choices;
  EXPECT_FALSE(parse_workloads("W1,", &choices).ok());
  EXPECT_FALSE(parse_workloads("W10", &choices).ok());
}

}  // namespace
}  // namespace flamia::bench
