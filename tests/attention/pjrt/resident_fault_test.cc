// ResidentAttention on a device that fails, on the fake plugin.

#include <array>
#include <vector>

#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/resident_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/fake_plugin_test_base.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ResidentFaultTest : public FakePluginTest {
 protected:
  static constexpr int64_t kPages = 8;
  static constexpr int64_t kPool[] = {kPages, 4, 2, 8};
  static constexpr int64_t kOut[] = {16, 1, 8};

  // One layer. The fake's programs return what was announced when they were
  // compiled, so each kind is compiled here once.
  void SetUp() override {
    ResidentAttentionOptions options;
    options.num_layers = 1;
    options.num_q_heads = options.num_kv_heads = 1;
    options.head_dim = 8;
    options.q_type = options.new_kv_type = options.kv_type =
        ScalarType::kFloat32;
    options.page_size = 4;
    options.total_num_pages = kPages;
    options.max_num_seqs = 4;
    options.pages_per_seq = 2;
    options.tokens.max_num_batched_tokens = 16;
    Announce({{PjrtElementType::kF32, {kPool, kPool + 4}}}, -1);
    auto attention = ResidentAttention::Create(MakeClient(), options);
    ASSERT_THAT(attention, IsOk());
    attention_ = *std::move(attention);
    Announce({{PjrtElementType::kF32, {kOut, kOut + 3}},
              {PjrtElementType::kF32, {kPool, kPool + 4}}},
             3);
    ASSERT_THAT(Begin(), IsOk());
    ASSERT_THAT(Run(), IsOk());
    ASSERT_THAT(attention_->AwaitOldest(), IsOk());
    Announce({{PjrtElementType::kI32, {4, 2}}}, 0);
    ASSERT_THAT(Begin({1}), IsOk());
    ASSERT_THAT(Run(), IsOk());
    ASSERT_THAT(attention_->AwaitOldest(), IsOk());
    EXPECT_EQ(attention_->table().counts().whole_uploads, 1);
  }
  void TearDown() override {
    attention_.reset();
    FakePluginTest::TearDown();
  }

  void Announce(std::vector<FakeArray> outputs, int donated) {
    fake().outputs = std::move(outputs);
    fake().donated_argument = donated;
  }

  absl::Status Begin(const std::vector<int32_t>& changed_rows = {}) {
    return attention_->BeginStep({.kv_lens = kv_lens_,
                                  .page_indices = page_indices_,
                                  .cu_q_lens = cu_q_lens_,
                                  .num_seqs = 2,
                                  .max_num_seqs = 4,
                                  .pages_per_seq = 2,
                                  .page_size = 4,
                                  .total_num_pages = kPages,
                                  .max_num_batched_tokens = 16},
                                 changed_rows, {});
  }
  absl::Status RunLayer() {
    const PjrtClient& client = attention_->programs().client();
    PjrtBuffer q = Upload(client, attention_->q_shape(), 1);
    PjrtBuffer k = Upload(client, attention_->kv_shape(), 2);
    PjrtBuffer out;
    return attention_->RunLayer(0, q, k, k, out);
  }
  absl::Status Run() {
    const absl::Status status = RunLayer();
    return status.ok() ? attention_->EndStep() : status;
  }
  static auto Failed() {
    return StatusIs(
        absl::StatusCode::kInternal,
        AnyOf(HasSubstr(FakePlugin::kFailureText), HasSubstr("device lost")));
  }
  static auto Lost() {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("call Reset"));
  }
  // The state after any failure is one in which steps run.
  void ExpectStepsRun() {
    for (int step = 0; step < 3; ++step) {
      ASSERT_THAT(Begin({0}), IsOk());
      ASSERT_THAT(Run(), IsOk());
      ASSERT_THAT(attention_->AwaitOldest(), IsOk());
    }
  }

  std::vector<int32_t> kv_lens_ = {1, 1, 0, 0};
  std::vector<int32_t> page_indices_ = {1, 0, 2, 0, 0, 0, 0, 0};
  std::vector<int32_t> cu_q_lens_ = {0, 1, 2, 2, 2};
  std::unique_ptr<ResidentAttention> attention_;
};

TEST_F(ResidentFaultTest, DeviceLostMidStepNeedsAReset) {
  fake().fail_after_launch = true;
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_THAT(Run(), IsOk());
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_THAT(Run(), IsOk());
  EXPECT_THAT(attention_->AwaitOldest(), Failed());
  EXPECT_THAT(attention_->device_error(), Failed());
  attention_->DropOldest();
  EXPECT_THAT(Begin(), Lost());
  std::vector<std::byte> page(attention_->page_bytes());
  EXPECT_THAT(attention_->ReadPages(std::vector<int32_t>{1}, page), Lost());
  EXPECT_THAT(attention_->WritePages(std::vector<int32_t>{1}, page), Lost());
  // The device is still lost.
  EXPECT_THAT(attention_->Reset(), Failed());
  EXPECT_THAT(Begin(), Lost());

  fake().fail_after_launch = false;
  EXPECT_THAT(attention_->Reset(), IsOk());
  ExpectStepsRun();
  // Its table is another one.
  EXPECT_EQ(attention_->table().counts().whole_uploads, 2);
}

TEST_F(ResidentFaultTest, FailureOfADroppedStepIsTheNextOnesAndIsGoneAfter) {
  for (const bool is_abandoned : {false, true}) {
    fake().fail_after_launch = true;
    ASSERT_THAT(Begin({0}), IsOk());
    if (is_abandoned) {
      ASSERT_THAT(RunLayer(), IsOk());
      attention_->AbandonStep();
    } else {
      ASSERT_THAT(Run(), IsOk());
      attention_->DropOldest();
    }
    fake().fail_after_launch = false;
    EXPECT_THAT(attention_->device_error(), IsOk());
    ASSERT_THAT(Begin({0}), IsOk());
    ASSERT_THAT(Run(), IsOk());
    EXPECT_THAT(attention_->AwaitOldest(), Failed());
    EXPECT_THAT(Begin(), Lost());
    ASSERT_THAT(attention_->Reset(), IsOk());
    ExpectStepsRun();
  }
}

TEST_F(ResidentFaultTest, PagesOfADroppedStepThatFailedAreNotRead) {
  fake().fail_after_launch = true;
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_THAT(Run(), IsOk());
  attention_->DropOldest();
  fake().fail_after_launch = false;
  Announce({{PjrtElementType::kF32, {1, 4, 2, 8}}}, -1);
  std::vector<std::byte> page(attention_->page_bytes());
  EXPECT_THAT(attention_->ReadPages(std::vector<int32_t>{1}, page), Failed());
  EXPECT_THAT(Begin(), Lost());
  ASSERT_THAT(attention_->Reset(), IsOk());
  EXPECT_THAT(attention_->ReadPages(std::vector<int32_t>{1}, page), IsOk());
  ExpectStepsRun();
}

TEST_F(ResidentFaultTest, OpenStepOfALostDeviceCanNotGoOn) {
  fake().fail_after_launch = true;
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_THAT(Run(), IsOk());
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(attention_->AwaitOldest(), Failed());
  EXPECT_THAT(attention_->EndStep(), Lost());
  fake().fail_after_launch = false;
  EXPECT_THAT(attention_->Reset(), IsOk());
  EXPECT_EQ(attention_->steps_in_flight(), 0u);
  ExpectStepsRun();
}

TEST_F(ResidentFaultTest, RefusedLaunchKeepsThePages) {
  ASSERT_THAT(Begin(), IsOk());
  fake().failing_slot = pjrt_abi::LoadedExecutableExecute::kSlot.index;
  EXPECT_THAT(Run(), Failed());
  EXPECT_THAT(attention_->device_error(), IsOk());
  fake().failing_slot = kNoSlot;
  attention_->AbandonStep();
  ExpectStepsRun();
  EXPECT_EQ(attention_->table().counts().whole_uploads, 1);
}

TEST_F(ResidentFaultTest, TableThatCouldNotBeUpdatedIsSentWhole) {
  fake().failing_slot = pjrt_abi::LoadedExecutableExecute::kSlot.index;
  EXPECT_THAT(Begin({1}), Failed());
  fake().failing_slot = kNoSlot;
  ExpectStepsRun();
  EXPECT_EQ(attention_->table().counts().whole_uploads, 2);
}

TEST_F(ResidentFaultTest, FailedUploadIsAStatusAndLosesNothing) {
  fake().failing_slot = pjrt_abi::ClientBufferFromHostBuffer::kSlot.index;
  EXPECT_THAT(Begin({1}), Failed());
  EXPECT_THAT(Begin(), Failed());
  fake().failing_slot = kNoSlot;
  EXPECT_THAT(attention_->device_error(), IsOk());
  ExpectStepsRun();
}

// The donated pool is gone, and the output that took its place is unusable.
TEST_F(ResidentFaultTest, LaunchWithWrongOutputsLosesThePages) {
  ASSERT_THAT(Begin(), IsOk());
  fake().returned_outputs = {{PjrtElementType::kF32, {kOut, kOut + 3}},
                             {PjrtElementType::kI32, {kPool, kPool + 4}}};
  EXPECT_THAT(
      Run(), StatusIs(absl::StatusCode::kInternal, HasSubstr("but announced")));
  EXPECT_THAT(Begin(), Lost());
  fake().returned_outputs.clear();
  EXPECT_THAT(attention_->Reset(), IsOk());
  ExpectStepsRun();
}

TEST_F(ResidentFaultTest, DestroyedInFlightItLeavesNothingBehind) {
  fake().fail_after_launch = true;
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_THAT(Run(), IsOk());
  ASSERT_THAT(Begin({0}), IsOk());
}

}  // namespace
}  // namespace tidewheel
