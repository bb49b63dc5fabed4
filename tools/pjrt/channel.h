// Channel: lines and bytes over one end of a socket pair, with deadlines.
//
// It is what a process and its child talk through. It knows nothing of what is
// said. Writing to an end that is gone is an error and no signal.
//
// Lifecycle: made with a socket, which it closes.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_TOOLS_PJRT_CHANNEL_H_
#define TIDEWHEEL_TOOLS_PJRT_CHANNEL_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class Channel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  static constexpr Deadline kForever = Deadline::max();

  explicit Channel(int socket) : socket_(socket) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Errors of all: DeadlineExceeded; Unavailable if the other end is closed or
  // this is no socket.
  absl::Status Send(absl::string_view bytes, Deadline deadline);
  // Without its line feed.
  absl::StatusOr<std::string> ReadLine(Deadline deadline);
  absl::StatusOr<std::string> ReadBytes(size_t size, Deadline deadline);

 private:
  // Waits for `events` of poll.
  absl::Status Wait(short events, Deadline deadline) const;
  // Appends what there is to buffer_.
  absl::Status Receive(Deadline deadline);

  const int socket_;
  std::string buffer_;  // received and not yet asked for
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_CHANNEL_H_
