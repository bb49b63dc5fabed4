// The environment in which libtpu compiles on a host without a TPU.
//
// Thread-safety: setenv is not thread-safe; call it before other threads
// exist, or at least before any of them reads the environment.

#ifndef TIDEWHEEL_ATTENTION_PJRT_LIBTPU_ENVIRONMENT_H_
#define TIDEWHEEL_ATTENTION_PJRT_LIBTPU_ENVIRONMENT_H_

namespace tidewheel {

// Sets what is not set yet. Only for compiling, and before PjrtPlugin::Load;
// on a TPU VM it would hide the chips' place in their slice.
//
//   TPU_SKIP_MDS_QUERY=1            else the initialisation asks a cloud's
//                                   metadata server, for ever elsewhere
//   ALLOW_MULTIPLE_LIBTPU_LOAD=1    else a lock file admits one process
//   TPU_MIN_LOG_LEVEL=3             else three log files a process are left in
//                                   the temporary folder; not set where
//                                   TPU_LOG_DIR asks for them
//   TPU_ACCELERATOR_TYPE=v5litepod-1, TPU_WORKER_HOSTNAMES=localhost,
//   TPU_WORKER_ID=0                 else warnings on stderr; no effect on
//                                   what a topology compiles for
void SetLibtpuCompileEnvironment();

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_LIBTPU_ENVIRONMENT_H_
