#include "tools/pjrt/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

absl::Status Closed(absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("the channel is closed: ", why));
}

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

// Milliseconds for poll, rounded up so that it does not spin at the end.
int PollTimeout(Channel::Deadline deadline) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  if (deadline == Channel::kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp(left, std::chrono::milliseconds(0), kLongest).count());
}

bool IsOver(Channel::Deadline deadline) {
  return deadline != Channel::kForever &&
         std::chrono::steady_clock::now() >= deadline;
}

}  // namespace

Channel::~Channel() { close(socket_); }

absl::Status Channel::Wait(short events, Deadline deadline) const {
  while (true) {
    pollfd entry = {.fd = socket_, .events = events, .revents = 0};
    const int count = poll(&entry, 1, PollTimeout(deadline));
    // Hang-ups and errors show in the call that follows.
    if (count > 0) return absl::OkStatus();
    if (count < 0 && errno != EINTR) return Closed(ErrorText(errno));
    if (IsOver(deadline)) {
      return absl::DeadlineExceededError("the other process does not answer");
    }
  }
}

absl::Status Channel::Send(absl::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    TIDEWHEEL_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    const ssize_t size =
        send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<size_t>(size));
    } else if (errno != EAGAIN && errno != EINTR) {
      return Closed(ErrorText(errno));
    }
  }
  return absl::OkStatus();
}

absl::Status Channel::Receive(Deadline deadline) {
  TIDEWHEEL_RETURN_IF_ERROR(Wait(POLLIN, deadline));
  std::array<char, 1 << 16> part;
  const ssize_t size = recv(socket_, part.data(), part.size(), MSG_DONTWAIT);
  if (size > 0) {
    buffer_.append(part.data(), static_cast<size_t>(size));
  } else if (size == 0) {
    return Closed("the other process has ended");
  } else if (errno != EAGAIN && errno != EINTR) {
    return Closed(ErrorText(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Channel::ReadLine(Deadline deadline) {
  size_t searched = 0;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();
    TIDEWHEEL_RETURN_IF_ERROR(Receive(deadline));
  }
}

absl::StatusOr<std::string> Channel::ReadBytes(size_t size, Deadline deadline) {
  while (buffer_.size() < size) {
    TIDEWHEEL_RETURN_IF_ERROR(Receive(deadline));
  }
  std::string bytes = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return bytes;
}

}  // namespace tidewheel
