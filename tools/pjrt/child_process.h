// ChildProcess: another program that may hang or die without taking this one
// with it, and what it said last.
//
// The child has one end of a channel as its standard input; what it writes to
// standard output and error is kept in memory, for the report of its death.
//
// Lifecycle:
//   1. Start.
//   2. Talk through channel(). An error there means that the child is of no
//      more use: it hangs, or it is gone.
//   3. End, or the destructor: the child is killed if it still runs.
//
// Thread-safety: one call at a time. Start may be called concurrently: a child
// inherits nothing of another.

#ifndef TIDEWHEEL_TOOLS_PJRT_CHILD_PROCESS_H_
#define TIDEWHEEL_TOOLS_PJRT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/pjrt/channel.h"

namespace tidewheel {

class ChildProcess {
 public:
  struct Options {
    std::string executable;              // a path
    std::vector<std::string> arguments;  // without the program's name
  };

  // Errors: ResourceExhausted if there is no process or memory for it; NotFound
  // for an executable that can not be run.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const Options& options);

  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Channel& channel() { return channel_; }

  // Kills the child unless it has ended or ends at once, and says how it ended,
  // with the last lines that it wrote: "was ended by signal 6 (Aborted): ...".
  std::string End();

 private:
  ChildProcess(pid_t pid, int socket, int output)
      : pid_(pid), output_(output), channel_(socket) {}

  // Whether it has ended, within `milliseconds`; keeps its status.
  bool HasEnded(int milliseconds);
  std::string LastWords() const;

  const pid_t pid_;
  const int output_;  // a file in memory
  Channel channel_;
  bool reaped_ = false;
  int status_ = 0;  // of waitpid
};

// The program that runs now, for children that are the same.
std::string ThisExecutable();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_CHILD_PROCESS_H_
