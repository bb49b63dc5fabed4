#include <limits>
#include <set>
#include <string>

#include "attention/pjrt/pjrt_element_type.h"
#include "attention/pjrt/pjrt_named_value.h"
#include "attention/pjrt/pjrt_program.h"
#include "attention/pjrt/pjrt_shape.h"
#include "attention/pjrt/pjrt_signature.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(PjrtElementTypeTest, NamesAreUniqueAndFindTheirType) {
  std::set<std::string> names;
  for (int number = -1; number < 64; ++number) {
    const auto type = static_cast<PjrtElementType>(number);
    if (!IsKnown(type)) {
      EXPECT_EQ(PjrtElementTypeName(type), "unknown");
      continue;
    }
    const absl::string_view name = PjrtElementTypeName(type);
    EXPECT_EQ(PjrtElementTypeOfName(name), type);
    EXPECT_TRUE(names.insert(std::string(name)).second) << name;
  }
  EXPECT_EQ(names.size(), 15u);
  EXPECT_EQ(PjrtElementTypeOfName("unknown"), std::nullopt);
}

TEST(PjrtElementTypeTest, ScalarTypesKeepTheirSize) {
  int mapped = 0;
  for (int number = 0; number < 64; ++number) {
    const auto type = static_cast<PjrtElementType>(number);
    const std::optional<ScalarType> scalar = ScalarTypeOf(type);
    if (!scalar.has_value()) continue;
    ++mapped;
    EXPECT_EQ(PjrtElementTypeOf(*scalar), type);
    EXPECT_EQ(static_cast<size_t>(SizeOfElement(type)), SizeOfScalar(*scalar));
  }
  EXPECT_EQ(mapped, 5);
}

TEST(PjrtElementTypeDeathTest, SizeOfAnUnknownTypeIsACrash) {
  EXPECT_DEATH(SizeOfElement(static_cast<PjrtElementType>(99)),
               "row != nullptr");
}

TEST(PjrtShapeTest, KnowsItsSizeAndText) {
  const PjrtShape shape(PjrtElementType::kBf16, {3, 5});
  EXPECT_EQ(shape.num_elements(), 15);
  EXPECT_EQ(shape.num_bytes(), 30);
  EXPECT_EQ(shape.ToString(), "tensor<3x5xbf16>");
  EXPECT_EQ(PjrtShape(PjrtElementType::kF32, {}).num_bytes(), 4);
  EXPECT_EQ(PjrtShape(PjrtElementType::kF32, {0, 7}).num_bytes(), 0);
  EXPECT_NE(shape, PjrtShape(PjrtElementType::kF16, {3, 5}));
  EXPECT_NE(shape, PjrtShape(PjrtElementType::kBf16, {15}));
  EXPECT_NE(PjrtShape(PjrtElementType::kF32, {}), PjrtShape());
}

TEST(PjrtShapeTest, RefusesWhatHasNoSize) {
  const auto create = [](PjrtElementType type, std::vector<int64_t> dims) {
    return PjrtShape::Create(type, dims);
  };
  const auto type = PjrtElementType::kF32;
  EXPECT_THAT(create(static_cast<PjrtElementType>(29), {1}),
              StatusIs(kInvalid, HasSubstr("element type 29")));
  EXPECT_THAT(create(type, {2, -1}),
              StatusIs(kInvalid, HasSubstr("dimension 1 is -1")));
  EXPECT_THAT(create(type, std::vector<int64_t>(9, 1)),
              StatusIs(kInvalid, HasSubstr("9 dimensions, at most 8")));
  const int64_t huge = int64_t{1} << 31;
  EXPECT_THAT(create(type, {huge, huge, 4}),
              StatusIs(kInvalid, HasSubstr("more than 2^63 elements")));
  EXPECT_THAT(create(type, {huge, huge}),
              StatusIs(kInvalid, HasSubstr("more than 2^63 bytes")));
  EXPECT_DEATH(PjrtShape(type, {-1}), "shape.ok");
}

TEST(PjrtSignatureTest, RefusesArgumentsWithoutShapeAndTooMany) {
  PjrtSignature signature;
  signature.arguments.resize(
      PjrtSignature::kMaxArrays,
      {.shape = PjrtShape(PjrtElementType::kF32, {}), .donated = false});
  EXPECT_THAT(CheckSignature(signature), IsOk());
  signature.arguments[7] = {};
  EXPECT_THAT(CheckSignature(signature),
              StatusIs(kInvalid, HasSubstr("argument 7")));
  signature.arguments.emplace_back();
  EXPECT_THAT(CheckSignature(signature),
              StatusIs(kInvalid, HasSubstr("1025 arguments exceeds 1024")));
}

TEST(PjrtProgramTest, QuestionMarksInCommentsAndStringsAreFine) {
  EXPECT_THAT(CheckProgram("// what?\n\"why?\\\"?\" tensor<4xf32> // ?"),
              IsOk());
  EXPECT_THAT(CheckProgram("\"unterminated ?"), IsOk());
  EXPECT_THAT(CheckProgram("ML\xefR? any bytes ?"), IsOk());
  EXPECT_THAT(CheckProgram("\"a\"\n// b\n tensor<?xf32>"),
              StatusIs(kInvalid, HasSubstr("line 3")));
}

TEST(PjrtProgramTest, LargeDeviceIdsAreVarints) {
  // 300 = 0b10'0101100.
  EXPECT_EQ(CompileOptionsBytes(300),
            std::string("\x1A\x10\x20\x01\x28\x01\x4A\x0A\x08\x01\x10\x01\x1A"
                        "\x04\x0A\x02\xAC\x02",
                        18));
}

TEST(PjrtNamedValueTest, AllTypesSurviveTheCForm) {
  const std::vector<PjrtNamedValue> values = {
      {"text", std::string("megacore")},
      {"count", int64_t{-3}},
      {"bounds", std::vector<int64_t>{1, 2, 3}},
      {"ratio", 0.5f},
      {"flag", true}};
  const PjrtNamedValueArray array(values);
  const std::vector<PjrtNamedValue> copies =
      CopyNamedValues({array.data(), array.size()});
  ASSERT_EQ(copies.size(), values.size());
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(copies[i].name, values[i].name);
    EXPECT_EQ(copies[i].value, values[i].value);
    text += copies[i].ToString() + " ";
  }
  EXPECT_EQ(text, "text=megacore count=-3 bounds=[1,2,3] ratio=0.5 flag=true ");
}

}  // namespace
}  // namespace tidewheel
