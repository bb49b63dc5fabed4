#include "tools/report/progress_bar.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ProgressBarTest : public testing::Test {
 protected:
  ~ProgressBarTest() override { std::fclose(file_); }

  std::string Written() {
    std::rewind(file_);
    std::string text;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      text.push_back(static_cast<char>(c));
    }
    return text;
  }

  std::FILE* file_ = std::tmpfile();
};

TEST_F(ProgressBarTest, RunsBelowASecondShowNothing) {
  ProgressBar bar(file_);
  bar.Update({50, 100, 0}, 0.99);
  bar.Clear();
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(ProgressBarTest, DrawsAtMostTenTimesASecondAndRemovesItself) {
  ProgressBar bar(file_);
  for (int ms = 0; ms < 2000; ++ms) bar.Update({50, 100, 0}, ms / 1000.0);
  bar.Clear();
  const std::string text = Written();
  int draws = 0;
  for (size_t at = text.find('['); at != std::string::npos;
       at = text.find("\r\x1b[K[", at + 1)) {
    ++draws;
  }
  EXPECT_GE(draws, 5);
  EXPECT_LE(draws, 11);
  EXPECT_THAT(text, EndsWith("\r\x1b[K"));
}

TEST(ProgressLineTest, SaysHowFarAndHowLong) {
  const std::string line = ProgressLine({9683, 19366, 0}, 4);
  EXPECT_THAT(line, HasSubstr("[##########----------]  50 %"));
  EXPECT_THAT(line, HasSubstr("9,683 of 19,366 requests"));
  EXPECT_THAT(line, EndsWith("4 s left"));
  EXPECT_THAT(line, SizeIs(testing::Lt(80u)));
}

TEST(ProgressLineTest, BeginAndEndPromiseNothing) {
  EXPECT_THAT(ProgressLine({0, 100, 0}, 4), Not(HasSubstr("left")));
  EXPECT_THAT(ProgressLine({100, 100, 0}, 4), Not(HasSubstr("left")));
  EXPECT_THAT(ProgressLine({0, 0, 0}, 4), HasSubstr("  0 %"));
}

}  // namespace
}  // namespace tidewheel
