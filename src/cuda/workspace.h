// Where the buffers of a Hopper call lie in the caller's workspace.
// Paper: 3.6.1 (capacities). Used by: the CUDA backend, tests.
// Sizes follow from shapes alone, so that any document lengths fit and a captured graph stays
// valid.
#pragma once

#include <cstddef>

#include "flamia/conventions.h"
#include "flamia/problem.h"

namespace flamia::cuda {

struct Extent {
  size_t offset = 0;
  size_t bytes = 0;
};

struct ForwardWorkspace {
  Extent counts;        ///< ScheduleCounts
  Extent next_work;     ///< the counter that CTAs take work from
  Extent query_blocks;  ///< TokenBlockRange of every block, slack included
  Extent key_blocks;    ///< unused where keys have the lengths of the queries
  Extent items;         ///< ForwardItem
  Extent schedule_scratch;
  /// E4M3 or BF16 [heads][blocks][32 x head_dim]; I8 [heads][blocks] or, with exact safety,
  /// [heads][blocks][32], nothing beside BF16.
  Extent q_codes, q_exponents;
  Extent k_codes, k_exponents;
  Extent v_codes, v_exponents;  ///< E4M3 codes transposed
  size_t bytes = 0;             ///< of all
};

/// Every extent begins at a multiple of kExtentAlignment from the start of the workspace, which
/// itself is a multiple of kWorkspaceAlignment (problem/validate.h).
constexpr size_t kExtentAlignment = 256;

ForwardWorkspace forward_workspace(const Problem& problem, const Conventions& conventions);

/// Where the buffers of a quantize() call lie. The tensor counts as the queries of problem.
struct QuantizeWorkspace {
  Extent counts;  ///< ScheduleCounts
  Extent blocks;  ///< TokenBlockRange
  Extent items;   ///< ForwardItem: the layout comes with a list
  Extent schedule_scratch;
  Extent codes;      ///< E4M3 [heads][blocks][32 x head_dim]
  Extent exponents;  ///< I8, room for one a token
  size_t bytes = 0;  ///< of all
};
QuantizeWorkspace quantize_workspace(const Problem& problem);

/// The typed start of an extent.
template <typename T>
T* at(Workspace workspace, const Extent& extent) {
  return reinterpret_cast<T*>(static_cast<unsigned char*>(workspace.data) + extent.offset);
}

}  // namespace flamia::cuda
