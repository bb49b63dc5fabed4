#include <unistd.h>

#include <fstream>

#include "tests/attention/pjrt/cpu_plugin_test_base.h"

namespace tidewheel {
namespace {

using testing::Each;
using testing::HasSubstr;

// A pool of 1 MiB whose first row is replaced in each launch.
class DonationTest : public CpuPluginTest {
 protected:
  static constexpr char kStep[] = R"(
    func.func public @main(
        %pool: tensor<1024x256xf32> {tf.aliasing_output = 0 : i32},
        %row: tensor<1x256xf32>) -> (tensor<1024x256xf32>, tensor<1x256xf32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %old = stablehlo.slice %pool [0:1, 0:256]
          : (tensor<1024x256xf32>) -> tensor<1x256xf32>
      %new = stablehlo.add %old, %row : tensor<1x256xf32>
      %0 = stablehlo.dynamic_update_slice %pool, %new, %zero, %zero
          : (tensor<1024x256xf32>, tensor<1x256xf32>, tensor<i32>, tensor<i32>)
          -> tensor<1024x256xf32>
      return %0, %new : tensor<1024x256xf32>, tensor<1x256xf32>
    })";

  static PjrtSignature StepSignature() {
    return {
        .arguments = {{.shape = kPool, .donated = true}, {.shape = kPoolRow}},
        .outputs = {kPool, kPoolRow}};
  }
  PjrtBuffer ZeroPool() {
    return std::move(client_->CreateZeroed(kPool, 1)->front());
  }
  PjrtBuffer OneRow() { return Upload(std::vector<float>(256, 1), kPoolRow); }

  inline static const PjrtShape kPool{PjrtElementType::kF32, {1024, 256}};
  inline static const PjrtShape kPoolRow{PjrtElementType::kF32, {1, 256}};
};

INSTANTIATE_TEST_SUITE_P(Plugins, DonationTest,
                         testing::Range(0, kNumCpuPlugins));

// The address sanitizer keeps what was freed for a while.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kFreedMemoryIsKept = true;
#elif defined(__has_feature)
constexpr bool kFreedMemoryIsKept = __has_feature(address_sanitizer);
#else
constexpr bool kFreedMemoryIsKept = false;
#endif

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_P(DonationTest, OutputTakesTheMemoryOfTheArgument) {
  const auto executable = client_->Compile(kStep, StepSignature());
  ASSERT_THAT(executable, IsOk());
  EXPECT_EQ((*executable)->MemoryStats()->alias_bytes, kPool.num_bytes());
  PjrtBuffer pool = ZeroPool();
  PjrtBuffer row = OneRow();
  const uintptr_t address = *pool.UnsafePointer();
  PjrtBuffer out[2];
  PjrtBuffer* const arguments[] = {&pool, &row};
  ASSERT_THAT((*executable)->Launch(arguments, out), IsOk());
  EXPECT_TRUE(pool.IsDeleted());
  EXPECT_FALSE(row.IsDeleted());
  EXPECT_EQ(*out[0].UnsafePointer(), address);
  EXPECT_THAT((*executable)->Launch(arguments, out),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("argument 0 (tensor<1024x256xf32>) was "
                                 "deleted, or donated")));
}

TEST_P(DonationTest, ArgumentThatTheSignatureKeepsIsCopied) {
  PjrtSignature signature = StepSignature();
  signature.arguments[0].donated = false;
  const auto executable = *client_->Compile(kStep, signature);
  PjrtBuffer pool = ZeroPool();
  PjrtBuffer row = OneRow();
  const uintptr_t address = *pool.UnsafePointer();
  PjrtBuffer out[2];
  ASSERT_THAT(executable->Launch(std::vector<PjrtBuffer*>{&pool, &row}, out),
              IsOk());
  EXPECT_FALSE(pool.IsDeleted());
  EXPECT_NE(*out[0].UnsafePointer(), address);
  EXPECT_THAT(Read<float>(pool), Each(0));
}

TEST_P(DonationTest, DonationThatTheProgramDoesNotOfferIsRefused) {
  PjrtSignature signature = AddSignature();
  signature.arguments[1].donated = true;
  EXPECT_THAT(client_->Compile(kAdd, signature),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("argument 1 of the signature is donated")));
}

TEST_P(DonationTest, LoadedProgramDonatesToo) {
  const std::string blob =
      *(*client_->Compile(kStep, StepSignature()))->Serialize();
  const auto executable = client_->Load(blob, StepSignature());
  ASSERT_THAT(executable, IsOk());
  PjrtBuffer pool = ZeroPool();
  PjrtBuffer row = OneRow();
  PjrtBuffer out[2];
  ASSERT_THAT((*executable)->Launch(std::vector<PjrtBuffer*>{&pool, &row}, out),
              IsOk());
  EXPECT_TRUE(pool.IsDeleted());
}

TEST_P(DonationTest, TenThousandStepsLeakNothing) {
  const auto executable = *client_->Compile(kStep, StepSignature());
  PjrtBuffer state[2];
  state[0] = ZeroPool();
  const uintptr_t address = *state[0].UnsafePointer();
  const auto step = [&] {
    PjrtBuffer row = OneRow();
    PjrtBuffer* const arguments[] = {&state[0], &row};
    const auto done = executable->Launch(arguments, state);
    ASSERT_THAT(done, IsOk());
    ASSERT_THAT(done->Await(), IsOk());
  };
  for (int i = 0; i < 1000; ++i) step();
  const int64_t before = ResidentBytes();
  for (int i = 0; i < 10'000; ++i) step();
  const int64_t growth = ResidentBytes() - before;
  // A leaked pool a step would be 10 GiB, a leaked 32-byte object 320 KB.
  if (!kFreedMemoryIsKept) {
    EXPECT_LT(growth, 256 * 1024);
  }
  EXPECT_EQ(*state[0].UnsafePointer(), address);
  EXPECT_THAT(Read<float>(state[1]), Each(11'000));
}

}  // namespace
}  // namespace tidewheel
