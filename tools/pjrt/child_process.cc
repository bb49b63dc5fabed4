#include "tools/pjrt/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tidewheel {
namespace {

// How long a child that has closed its channel may take to end.
constexpr int kGraceMs = 2000;
// Of what a child wrote last.
constexpr off_t kTailBytes = 4096;
constexpr size_t kTailLines = 6;

// A descriptor that is closed unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

absl::Status NoResources(const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a child process needs ", what, ": ",
                   std::generic_category().message(errno),
                   "; end other processes or raise the limit (ulimit -a)"));
}

// Spawns with `socket` as input and `output` as output and error.
int Spawn(const ChildProcess::Options& options, int socket, int output,
          pid_t* pid) {
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(options.executable.c_str()));
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  const int error = posix_spawn(pid, options.executable.c_str(), &actions,
                                nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const Options& options) {
  int sockets[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return NoResources("a socket pair");
  }
  Descriptor ours(sockets[0]);
  const Descriptor theirs(sockets[1]);
  Descriptor output(memfd_create("output", MFD_CLOEXEC));
  // Two writers share the place in the file only if both append.
  if (output.get() < 0 || fcntl(output.get(), F_SETFL, O_APPEND) != 0) {
    return NoResources("a file in memory");
  }
  pid_t pid = 0;
  const int error = Spawn(options, theirs.get(), output.get(), &pid);
  if (error == EAGAIN || error == ENOMEM) {
    errno = error;
    return NoResources("a process");
  }
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(
        "'", options.executable, "' can not be run: ",
        std::generic_category().message(error), "; install tidewheel again"));
  }
  return std::unique_ptr<ChildProcess>(
      new ChildProcess(pid, ours.Release(), output.Release()));
}

ChildProcess::~ChildProcess() {
  End();
  close(output_);
}

bool ChildProcess::HasEnded(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (!reaped_) {
    const pid_t found = waitpid(pid_, &status_, WNOHANG);
    reaped_ = found == pid_ || (found < 0 && errno != EINTR);
    if (reaped_ || Clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return reaped_;
}

std::string ChildProcess::End() {
  bool killed = false;
  // A child that hangs has not closed its end, and is given no more time.
  const bool is_open =
      absl::IsDeadlineExceeded(channel_.ReadBytes(1, {}).status());
  if (!HasEnded(is_open ? 0 : kGraceMs)) {
    killed = true;
    kill(pid_, SIGKILL);
    while (!HasEnded(kGraceMs)) {
    }
  }
  std::string how;
  if (killed) {
    how = "was stopped";
  } else if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    how = absl::StrCat("was ended by signal ", signal, " (", strsignal(signal),
                       signal == SIGKILL ? "; is memory short?)" : ")");
  } else {
    how = absl::StrCat("ended with exit code ", WEXITSTATUS(status_));
  }
  const std::string words = LastWords();
  return words.empty() ? how : absl::StrCat(how, ": ", words);
}

std::string ChildProcess::LastWords() const {
  const off_t size = lseek(output_, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::clamp<off_t>(size, 0, kTailBytes)),
                   '\0');
  const ssize_t read =
      pread(output_, text.data(), text.size(),
            std::max<off_t>(0, size - static_cast<off_t>(text.size())));
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read)));
  const std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipWhitespace());
  const size_t first = lines.size() - std::min(lines.size(), kTailLines);
  return absl::StrJoin(lines.begin() + static_cast<std::ptrdiff_t>(first),
                       lines.end(), " | ");
}

std::string ThisExecutable() {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error);
  // The link itself still runs where the file has been replaced.
  return error || !std::filesystem::exists(path, error) ? "/proc/self/exe"
                                                        : path.string();
}

}  // namespace tidewheel
