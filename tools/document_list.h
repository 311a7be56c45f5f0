// The document grammar: lengths of the documents of a packed row.
// Used by: attend, explain, bench.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flamia/status.h"

namespace flamia::tools {

/// Reads a list of document lengths:
///   4x4096          four documents of 4096 tokens
///   8192+32x256     terms are joined by + or ,
///   344,198,668     zero lengths are documents without tokens
///   @lengths.txt    a file, as the last term; white space separates terms there, # begins a
///                   comment
/// option names the list in messages, which give the position of a mistake, counted from 1.
Status parse_documents(std::string_view option, std::string_view text,
                       std::vector<int64_t>* lengths);

/// "4 documents of 4096 tokens" or "33 documents of 256 to 8192 tokens".
std::string documents_text(const std::vector<int64_t>& lengths);

}  // namespace flamia::tools
