// The document grammar: lengths of the documents of a packed row.

#include "tools/document_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>

#include "tools/errors.h"
#include "tools/numbers.h"

namespace flamia::tools {

namespace {

constexpr size_t kMostDocuments = size_t{1} << 24;
constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kLargestFileBytes = int64_t{1} << 28;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Scanner {
 public:
  Scanner(std::string_view option, std::string_view text, bool from_file,
          std::vector<int64_t>* lengths)
      : option_(option), text_(text), from_file_(from_file), lengths_(lengths) {}

  Status scan() {
    skip_blanks();
    if (from_file_ && at_ == text_.size()) return unexpected();
    while (true) {
      if (peek() == '@' && !from_file_) return include_file();
      if (Status status = term(); !status.ok()) return status;
      const size_t end_of_term = at_;
      skip_blanks();
      const bool blank = at_ > end_of_term;
      if (at_ == text_.size()) return Status();
      if (peek() == '+' || peek() == ',') {
        ++at_;
        skip_blanks();
        if (from_file_ && at_ == text_.size()) return Status();
      } else if (!from_file_ || !blank) {
        return unexpected();
      }
    }
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() {
    if (!from_file_) return;
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      ++at_;
    }
  }

  Status unexpected() const {
    const std::string got =
        at_ < text_.size() ? fmt::format("'{}'", printable(text_.substr(at_, 1))) : "the end";
    return bad_input(
        "{} must be lengths such as 4096 or 4x4096, joined by + or ,; got {} at "
        "position {}{}",
        option_, got, at_ + 1, from_file_ ? "" : fmt::format(" of '{}'", printable(text_)));
  }

  Status number(int64_t* value) {
    const size_t begin = at_;
    while (is_digit(peek())) ++at_;
    if (at_ == begin) return unexpected();
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const std::optional<int64_t> parsed = parse_number<int64_t>(digits);
    if (!parsed || *parsed > kMostTokens) {
      return bad_input("{} must have numbers up to {}; got {} at position {}", option_, kMostTokens,
                       printable(digits), begin + 1);
    }
    *value = *parsed;
    return Status();
  }

  Status term() {
    const size_t begin = at_;
    int64_t count = 1;
    int64_t length = 0;
    if (Status status = number(&length); !status.ok()) return status;
    if (peek() == 'x') {
      ++at_;
      count = length;
      if (count == 0) {
        return bad_input("{} must repeat a length at least once; got 0 at position {}", option_,
                         begin + 1);
      }
      if (Status status = number(&length); !status.ok()) return status;
    }
    if (static_cast<uint64_t>(count) > kMostDocuments - lengths_->size()) {
      return bad_input("{} must have {} documents at most; got more at position {}", option_,
                       kMostDocuments, begin + 1);
    }
    int64_t added = 0;
    if (__builtin_mul_overflow(count, length, &added) || added > kMostTokens - tokens_) {
      return bad_input("{} must have {} tokens at most; got more at position {}", option_,
                       kMostTokens, begin + 1);
    }
    tokens_ += added;
    lengths_->insert(lengths_->end(), static_cast<size_t>(count), length);
    return Status();
  }

  // The path runs to the end of the text: file names may contain + and commas.
  Status include_file() {
    const std::string path(text_.substr(at_ + 1));
    struct stat facts = {};
    if (stat(path.c_str(), &facts) != 0) {
      return bad_input("{}: {}: {}", option_, printable(path), errno_text(errno));
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size > kLargestFileBytes) {
      return bad_input("{}: {} must be a regular file of {} bytes at most", option_,
                       printable(path), kLargestFileBytes);
    }
    std::ifstream stream(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(stream)),
                              std::istreambuf_iterator<char>());
    if (!stream.is_open() || stream.bad()) {
      return bad_input("{}: {} must be readable", option_, printable(path));
    }
    const std::string source = fmt::format("{}: {}", option_, printable(path));
    Scanner file(source, content, true, lengths_);
    file.tokens_ = tokens_;
    return file.scan();
  }

  std::string option_;
  std::string_view text_;
  bool from_file_;
  std::vector<int64_t>* lengths_;
  size_t at_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

Status parse_documents(std::string_view option, std::string_view text,
                       std::vector<int64_t>* lengths) {
  lengths->clear();
  return Scanner(option, text, false, lengths).scan();
}

std::string documents_text(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return "no documents";
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const char* plural = lengths.size() == 1 ? "" : "s";
  if (*shortest == *longest) {
    return fmt::format("{} document{} of {} tokens", lengths.size(), plural, *longest);
  }
  return fmt::format("{} documents of {} to {} tokens", lengths.size(), *shortest, *longest);
}

}  // namespace flamia::tools
