"""Runs a Python test with the interpreter that has JAX.

usage: run_with_jax.py TEST.py [arguments]

Ends with 77, which ctest takes for "skipped", where TIDEWHEEL_JAX_PYTHON is
not set; with 1 if TIDEWHEEL_REQUIRE_PJRT=1 forbids that.
"""

import os
import sys

SKIPPED = 77


def main():
  python = os.environ.get("TIDEWHEEL_JAX_PYTHON")
  if not python:
    print("TIDEWHEEL_JAX_PYTHON is not set; it names a Python with jax 0.10.2 "
          "and xxhash (tools/dev pjrt-env makes one)", file=sys.stderr)
    is_required = os.environ.get("TIDEWHEEL_REQUIRE_PJRT") == "1"
    return 1 if is_required else SKIPPED
  # -B: the tests import from the source tree, which stays as it is.
  os.execv(python, [python, "-B", *sys.argv[1:]])


if __name__ == "__main__":
  sys.exit(main())
