#include "tools/byte_size.h"

#include <cstdint>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ByteSizeTest, PowersOf1000And1024AreNotTheSame) {
  for (const auto& [text, bytes] :
       {std::pair{"80GB", int64_t{80'000'000'000}},
        {"80GiB", int64_t{85'899'345'920}},
        {"0B", int64_t{0}},
        {"1 kB", int64_t{1000}},
        {"1KiB", int64_t{1024}},
        {" 512 MiB ", int64_t{536'870'912}},
        {"34.4gb", int64_t{34'400'000'000}},
        {"31.25GiB", int64_t{33'554'432'000}},
        {".5KiB", int64_t{512}},
        {"2.TB", int64_t{2'000'000'000'000}},
        {"4194304TiB", int64_t{1} << 62},
        {"4611686018427387903B", (int64_t{1} << 62) - 1}}) {
    const auto parsed = ParseByteSize(text);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ByteSizeTest, ANumberWithoutAUnitIsRefusedWithTheRemedy) {
  for (const char* text : {"80", "0", "34400000000", "1.5"}) {
    EXPECT_THAT(ParseByteSize(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(text), HasSubstr("no unit"),
                               HasSubstr("32GiB"))));
  }
}

TEST(ByteSizeTest, AnythingElseIsRefused) {
  for (const char* text : {"", " ", "GB", "-1GB", "+1GB", "1e9B", "nanGB",
                           "infGB", "0x10B", "1.2.3GB", ".", ".GB", "1GB2",
                           "1 G B", "8Gb it", "80Gbit", "80G", "1,000B"}) {
    EXPECT_THAT(
        ParseByteSize(text),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("34.4GB")))
        << text;
  }
}

TEST(ByteSizeTest, AnAmountThatCanNotBeIsRefused) {
  for (const char* text :
       {"4194305TiB", "9223372036854775807GB",
        "99999999999999999999999999999999TB", "4194304.5TiB"}) {
    EXPECT_THAT(ParseByteSize(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^62")))
        << text;
  }
}

TEST(ByteSizeTest, AmountsForPeopleHaveThePowerOf1000ThatFits) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(999), "999 B");
  EXPECT_EQ(FormatByteSize(1000), "1.00 kB");
  EXPECT_EQ(FormatByteSize(30'960'000'000), "30.96 GB");
  EXPECT_EQ(FormatByteSize(-1500), "-1.50 kB");
}

}  // namespace
}  // namespace tidewheel
