#include <atomic>
#include <thread>
#include <utility>

#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_executable.h"
#include "tests/allocation_counter.h"
#include "tests/attention/pjrt/fake_plugin_test_base.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class LaunchTest : public FakePluginTest {
 protected:
  void SetUp() override {
    fake().num_devices = 2;
    client_ = MakeClient();
    executable_ = *client_->Compile(kProgram, PoolSignature());
    pool_ = Upload(*client_, kPool, 1);
    row_ = Upload(*client_, kRow, 2);
  }
  void TearDown() override {
    pool_ = PjrtBuffer();
    row_ = PjrtBuffer();
    for (PjrtBuffer& output : outputs_) output = PjrtBuffer();
    executable_.reset();
    client_.reset();
    FakePluginTest::TearDown();
  }

  absl::StatusOr<PjrtEvent> Launch(std::vector<PjrtBuffer*> arguments) {
    return executable_->Launch(arguments, outputs_);
  }
  // The plugin must not have seen the launch, and nothing has changed.
  void ExpectRefused(std::vector<PjrtBuffer*> arguments,
                     const std::string& text) {
    EXPECT_THAT(Launch(std::move(arguments)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
    EXPECT_EQ(fake().num_launches, 0);
    EXPECT_FALSE(pool_.IsDeleted());
    EXPECT_TRUE(outputs_[0].empty());
  }

  std::shared_ptr<PjrtClient> client_;
  std::unique_ptr<PjrtExecutable> executable_;
  PjrtBuffer pool_;
  PjrtBuffer row_;
  PjrtBuffer outputs_[2];
};

TEST_F(LaunchTest, WrongArgumentsNeverReachThePlugin) {
  ExpectRefused({&pool_}, "has 1 arguments, 2 are expected");
  ExpectRefused({&pool_, &row_, &row_}, "has 3 arguments, 2 are expected");
  ExpectRefused({&pool_, nullptr}, "argument 1 is null, tensor<4xf32>");
  PjrtBuffer empty;
  ExpectRefused({&empty, &row_}, "argument 0 is empty, tensor<8xf32>");
  // The same 16 bytes, in other types and dimensions.
  for (const PjrtShape& shape : {PjrtShape(PjrtElementType::kI32, {4}),
                                 PjrtShape(PjrtElementType::kBf16, {8}),
                                 PjrtShape(PjrtElementType::kF32, {2, 2})}) {
    PjrtBuffer other = *client_->CreateUninitialized(shape);
    ExpectRefused({&pool_, &other}, "argument 1 is " + shape.ToString() +
                                        ", tensor<4xf32> is expected");
  }
  ExpectRefused({&pool_, &pool_}, "argument 1 is tensor<8xf32>");
}

TEST_F(LaunchTest, DeletedArgumentNeverReachesThePlugin) {
  ASSERT_THAT(row_.Delete(), IsOk());
  ExpectRefused({&pool_, &row_}, "argument 1 (tensor<4xf32>) was deleted");
}

TEST_F(LaunchTest, ArgumentOfAnotherClientOrDeviceNeverReachesThePlugin) {
  const std::shared_ptr<PjrtClient> other_client = MakeClient();
  PjrtBuffer foreign = Upload(*other_client, kRow, 0);
  ExpectRefused({&pool_, &foreign}, "belongs to another client");
  PjrtBuffer distant =
      *client_->CreateUninitialized(kRow, &client_->devices()[1]);
  ExpectRefused({&pool_, &distant},
                "argument 1 is on device 1, the program runs on device 0");
}

TEST_F(LaunchTest, DonatedArgumentUsedTwiceNeverReachesThePlugin) {
  PjrtSignature signature = PoolSignature();
  signature.arguments[1].shape = kPool;
  executable_ = *client_->Compile(kProgram, signature);
  ExpectRefused({&pool_, &pool_},
                "argument 0 (tensor<8xf32>) is donated, and is argument 1 too");
}

TEST_F(LaunchTest, WrongRoomForOutputsIsRefused) {
  PjrtBuffer* const arguments[] = {&pool_, &row_};
  EXPECT_THAT(executable_->Launch(arguments, std::span(outputs_, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("room for 1 outputs, 2 are expected")));
  EXPECT_EQ(fake().num_launches, 0);
}

TEST_F(LaunchTest, OutputMayBeTheObjectThatWasDonated) {
  const uintptr_t address = *pool_.UnsafePointer();
  PjrtBuffer state[2] = {std::move(pool_), PjrtBuffer()};
  for (int step = 0; step < 3; ++step) {
    PjrtBuffer* const arguments[] = {&state[0], &row_};
    ASSERT_THAT(executable_->Launch(arguments, state), IsOk());
    EXPECT_EQ(*state[0].UnsafePointer(), address);
  }
  EXPECT_THAT(Read(state[0]), Each(1));
  EXPECT_EQ(fake().live_buffers, 3);  // pool, row and its copy
}

TEST_F(LaunchTest, DonatedArgumentIsDeletedAndSaysSo) {
  ASSERT_THAT(Launch({&pool_, &row_}), IsOk());
  EXPECT_TRUE(pool_.IsDeleted());
  EXPECT_FALSE(row_.IsDeleted());
  const auto deleted = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("was deleted or donated"));
  std::byte bytes[32];
  EXPECT_THAT(pool_.ToHost(bytes), deleted);
  EXPECT_THAT(pool_.UnsafePointer(), deleted);
  EXPECT_THAT(pool_.OnDeviceSizeInBytes(), deleted);
  EXPECT_THAT(pool_.ReadyEvent(), deleted);
  EXPECT_THAT(pool_.Delete(), IsOk());
  EXPECT_THAT(Launch({&pool_, &row_}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("argument 0 (tensor<8xf32>) was deleted, or "
                                 "donated to an earlier launch")));
}

TEST_F(LaunchTest, ArgumentThatTheSignatureDoesNotDonateStays) {
  PjrtSignature signature = PoolSignature();
  signature.arguments[0].donated = false;
  executable_ = *client_->Compile(kProgram, signature);
  ASSERT_THAT(Launch({&pool_, &row_}), IsOk());
  EXPECT_FALSE(pool_.IsDeleted());
}

TEST_F(LaunchTest, LaunchThatThePluginRefusesChangesNothing) {
  fake().failing_slot = pjrt_abi::LoadedExecutableExecute::kSlot.index;
  fake().failure_code = 8;
  EXPECT_THAT(Launch({&pool_, &row_}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "PJRT_LoadedExecutable_Execute: failed on demand"));
  EXPECT_FALSE(pool_.IsDeleted());
  EXPECT_TRUE(outputs_[0].empty());
}

TEST_F(LaunchTest, DeviceLostAfterTheLaunchIsInEventAndOutputs) {
  fake().fail_after_launch = true;
  fake().failure_code = 14;
  const auto event = Launch({&pool_, &row_});
  ASSERT_THAT(event, IsOk());
  const auto lost =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("device lost"));
  EXPECT_THAT(event->Await(), lost);
  EXPECT_THAT(event->Await(), lost);
  EXPECT_THAT(*event->Poll(), lost);
  EXPECT_THAT(outputs_[1].ReadyEvent()->Await(), lost);
  std::byte bytes[16];
  EXPECT_THAT(outputs_[1].ToHost(bytes), lost);
}

TEST_F(LaunchTest, OutputsOfOtherTypesAreAnErrorAndDoNotLeak) {
  const std::vector<std::vector<FakeArray>> returned = {
      {{PjrtElementType::kF32, {8}}, {PjrtElementType::kI32, {4}}},
      {{PjrtElementType::kF32, {8}}, {PjrtElementType::kF32, {2, 2}}}};
  for (const std::vector<FakeArray>& arrays : returned) {
    fake().returned_outputs = arrays;
    PjrtBuffer pool = Upload(*client_, kPool, 1);
    EXPECT_THAT(Launch({&pool, &row_}),
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(HasSubstr("as output 1"),
                               HasSubstr("but announced tensor<4xf32>"))));
    EXPECT_TRUE(outputs_[0].empty());
    EXPECT_EQ(fake().live_events, 0);
    EXPECT_EQ(fake().live_buffers, 3);  // both pools and the row
  }
}

TEST_F(LaunchTest, OutputsAndEventsThatAreMissingAreErrors) {
  const auto missing = StatusIs(absl::StatusCode::kInternal,
                                HasSubstr("no buffer for output 0"));
  fake().lose_outputs = true;
  PjrtSignature signature = PoolSignature();
  signature.arguments[0].donated = false;
  const auto copying = *client_->Compile(kProgram, signature);
  EXPECT_THAT(
      copying->Launch(std::vector<PjrtBuffer*>{&pool_, &row_}, outputs_),
      missing);
  EXPECT_FALSE(pool_.IsDeleted());
  // What was donated went with the output that did not come.
  EXPECT_THAT(Launch({&pool_, &row_}), missing);
  EXPECT_TRUE(pool_.IsDeleted());
  EXPECT_TRUE(outputs_[0].empty());
  EXPECT_EQ(fake().live_events, 0);
  pool_ = Upload(*client_, kPool, 1);
  fake().lose_outputs = false;
  fake().lose_event = true;
  EXPECT_THAT(
      Launch({&pool_, &row_}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("no completion event")));
}

TEST_F(LaunchTest, PendingEventIsPolledWithoutAskingForItsError) {
  fake().hold_events = true;
  const PjrtEvent event = *Launch({&pool_, &row_});
  EXPECT_EQ(event.Poll(), std::nullopt);
  EXPECT_FALSE(*event.IsReady());
  std::thread release([this] { fake().hold_events = false; });
  EXPECT_THAT(event.Await(), IsOk());
  release.join();
  EXPECT_THAT(*event.Poll(), IsOk());
}

TEST_F(LaunchTest, MovedFromObjectsAreEmptyAndSafe) {
  PjrtEvent event = *Launch({&pool_, &row_});
  PjrtEvent other = std::move(event);
  EXPECT_TRUE(event.empty());  // NOLINT(bugprone-use-after-move)
  const auto empty =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is empty"));
  EXPECT_THAT(event.Await(), empty);  // NOLINT(clang-analyzer-cplusplus.Move)
  EXPECT_THAT(event.IsReady(), empty);
  EXPECT_THAT(*event.Poll(), empty);
  EXPECT_THAT(other.Await(), IsOk());
  PjrtBuffer taken = std::move(row_);
  EXPECT_TRUE(row_.IsDeleted());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(row_.shape(), PjrtShape());
  EXPECT_THAT(row_.UnsafePointer(), empty);
  EXPECT_THAT(row_.Delete(), IsOk());
  PjrtBuffer* const self = &taken;
  taken = std::move(*self);
  EXPECT_THAT(Read(taken), ElementsAre(2, 2, 2, 2));
  row_ = std::move(taken);
  EXPECT_FALSE(row_.IsDeleted());
}

TEST_F(LaunchTest, TargetOfAnotherSizeIsRefused) {
  std::byte bytes[15];
  EXPECT_THAT(row_.ToHost(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the target has 15 bytes, the buffer "
                                 "tensor<4xf32> has 16")));
}

TEST_F(LaunchTest, ThreadsLaunchOneExecutable) {
  PjrtSignature signature = PoolSignature();
  signature.arguments[0].donated = false;
  executable_ = *client_->Compile(kProgram, signature);
  std::atomic<int> num_wrong = 0;
  const auto launch = [this, &num_wrong] {
    PjrtBuffer outputs[2];
    PjrtBuffer* const arguments[] = {&pool_, &row_};
    for (int i = 0; i < 200; ++i) {
      const auto done = executable_->Launch(arguments, outputs);
      if (!done.ok() || !done->Await().ok()) ++num_wrong;
    }
  };
  std::thread first(launch);
  std::thread second(launch);
  first.join();
  second.join();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(fake().num_launches, 400);
}

TEST_F(LaunchTest, LaunchAllocatesNothing) {
  fake().prepare_launch();
  PjrtBuffer* const arguments[] = {&pool_, &row_};
  PjrtEvent done;
  {
    ExpectNoAllocation scope("Launch");
    done = *executable_->Launch(arguments, outputs_);
  }
  EXPECT_THAT(done.Await(), IsOk());
}

}  // namespace
}  // namespace tidewheel
