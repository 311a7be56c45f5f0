// The file of a benchmark: where, when and how it was measured, and its rows.
#include "bench/result_file.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "tools/atomic_file.h"

namespace flamia::bench {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Id of a ref such as refs/heads/main, loose or packed.
std::string resolve_ref(const fs::path& git_folder, const std::string& ref) {
  const std::string loose = first_line(git_folder / ref);
  if (!loose.empty()) return loose;
  std::ifstream packed(git_folder / "packed-refs");
  std::string line;
  while (std::getline(packed, line)) {
    const size_t space = line.find(' ');
    if (space != std::string::npos && line.substr(space + 1) == ref) return line.substr(0, space);
  }
  return "";
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

}  // namespace

std::string checkout_commit() {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error && !folder.empty();
       folder = folder.parent_path()) {
    const fs::path git_folder = folder / ".git";
    const std::string head = first_line(git_folder / "HEAD");
    const std::string prefix = "ref: ";
    if (head.rfind(prefix, 0) == 0) return resolve_ref(git_folder, head.substr(prefix.size()));
    if (!head.empty()) return head;
    if (folder == folder.root_path()) break;
  }
  return "";
}

Status write_results(const std::string& path, const ResultOrigin& origin,
                     nlohmann::ordered_json rows) {
  nlohmann::ordered_json result;
  result["chip"] = origin.chip;
  result["driver"] = text_or_null(origin.driver);
  result["cuda"] = text_or_null(origin.cuda);
  result["date"] = utc_date();
  result["commit"] = text_or_null(origin.commit.empty() ? checkout_commit() : origin.commit);
  result["command"] = origin.command;
  result["rows"] = std::move(rows);
  return tools::write_file(path, result.dump(1) + "\n");
}

}  // namespace flamia::bench
