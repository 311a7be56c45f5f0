// The document grammar: what it takes, and where it says that a mistake is.
#include "tools/document_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/temporary_folder.h"

namespace flamia::tools {
namespace {

using Lengths = std::vector<int64_t>;

const std::string kAt = "@";

Lengths lengths(const std::string& text) {
  Lengths result;
  EXPECT_EQ(parse_documents("--docs", text, &result).message(), "");
  return result;
}

std::string message(const std::string& text) {
  Lengths result;
  const Status status = parse_documents("--docs", text, &result);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  return status.message();
}

TEST(DocumentList, ReadsTermsInOrder) {
  EXPECT_EQ(lengths("4096"), Lengths{4096});
  EXPECT_EQ(lengths("3x7"), (Lengths{7, 7, 7}));
  EXPECT_EQ(lengths("344,198,668"), (Lengths{344, 198, 668}));
  EXPECT_EQ(lengths("8+2x3,1"), (Lengths{8, 3, 3, 1}));
}

TEST(DocumentList, TakesDocumentsWithoutTokens) {
  EXPECT_EQ(lengths("0"), Lengths{0});
  EXPECT_EQ(lengths("0,1,2x0,1"), (Lengths{0, 1, 0, 0, 1}));
}

TEST(DocumentList, ReadsFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a+b,c.txt", "# comment\n 3 4\n2x5, 6 # more\n\n+7\n");
  EXPECT_EQ(lengths(kAt + path), (Lengths{3, 4, 5, 5, 6, 7}));
  EXPECT_EQ(lengths("1+" + kAt + path), (Lengths{1, 3, 4, 5, 5, 6, 7}));
  EXPECT_EQ(lengths(kAt + folder.write("no_newline", "8")), Lengths{8});
  EXPECT_EQ(lengths(kAt + folder.write("end_comment", "8#x")), Lengths{8});
}

TEST(DocumentList, SaysWhereTheMistakeIs) {
  const std::string rule = "--docs must be lengths such as 4096 or 4x4096, joined by + or ,; got ";
  EXPECT_EQ(message(""), rule + "the end at position 1 of ''");
  EXPECT_EQ(message("4x"), rule + "the end at position 3 of '4x'");
  EXPECT_EQ(message("4x5y"), rule + "'y' at position 4 of '4x5y'");
  EXPECT_EQ(message("1,,2"), rule + "',' at position 3 of '1,,2'");
  EXPECT_EQ(message("1+"), rule + "the end at position 3 of '1+'");
  EXPECT_EQ(message("-5"), rule + "'-' at position 1 of '-5'");
  EXPECT_EQ(message("2x3x4"), rule + "'x' at position 4 of '2x3x4'");
  EXPECT_EQ(message("1 2"), rule + "' ' at position 2 of '1 2'");
  EXPECT_EQ(message("\n"), rule + "'\\x0a' at position 1 of '\\x0a'");
}

TEST(DocumentList, RefusesNumbersThatAreTooLarge) {
  EXPECT_EQ(message("99999999999999999999"),
            "--docs must have numbers up to 1099511627776; got 99999999999999999999 at position 1");
  EXPECT_EQ(message("5,16777217x0"),
            "--docs must have 16777216 documents at most; got more at position 3");
  EXPECT_EQ(message("16777216x1099511627776"),
            "--docs must have 1099511627776 tokens at most; got more at position 1");
  EXPECT_EQ(message("1099511627776,1"),
            "--docs must have 1099511627776 tokens at most; got more at position 15");
  EXPECT_EQ(message("0x4"), "--docs must repeat a length at least once; got 0 at position 1");
}

TEST(DocumentList, NamesTheFileOfAMistake) {
  const TemporaryFolder folder;
  EXPECT_EQ(message(kAt + folder.path("none")),
            "--docs: " + folder.path("none") + ": No such file or directory");
  EXPECT_EQ(message(kAt + folder.path(".")),
            "--docs: " + folder.path(".") + " must be a regular file of 268435456 bytes at most");
  const std::string bad = folder.write("bad", "1 2 x");
  EXPECT_EQ(message(kAt + bad), "--docs: " + bad +
                                    " must be lengths such as 4096 or 4x4096, joined by + or ,; "
                                    "got 'x' at position 5");
  const std::string empty = folder.write("empty", "# nothing\n");
  EXPECT_EQ(message(kAt + empty), "--docs: " + empty +
                                      " must be lengths such as 4096 or 4x4096, joined by + or ,; "
                                      "got the end at position 11");
  const std::string nested = folder.write("nested", kAt + bad);
  EXPECT_NE(message(kAt + nested).find("got '@' at position 1"), std::string::npos);
}

TEST(DocumentList, IsDescribedInWords) {
  EXPECT_EQ(documents_text({}), "no documents");
  EXPECT_EQ(documents_text({5}), "1 document of 5 tokens");
  EXPECT_EQ(documents_text({5, 5}), "2 documents of 5 tokens");
  EXPECT_EQ(documents_text({5, 0, 9}), "3 documents of 0 to 9 tokens");
}

}  // namespace
}  // namespace flamia::tools
