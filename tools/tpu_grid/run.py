#!/usr/bin/env python3
"""Compiles a fresh grid of shapes and compares verdicts with predictions.

Draws shapes for five TPU generations, exports JAX's kernel for them, has libtpu
compile them without a TPU through `tidewheel check --tpu-compile`, and prints a
line a shape and a summary. With --edges the shapes lie near a limit of vector
memory; with --programs they are of tidewheel's own StableHLO programs, which
need no JAX.

  TIDEWHEEL_JAX_PYTHON=PYTHON tools/tpu_grid/run.py --libtpu libtpu.so

Ends with 0 if every verdict agrees with its prediction or the prediction left
it open, that is, the limit lies between two bounds of the need; else with 1.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import draw  # noqa: E402

BATCH = 25  # shapes that are exported and compiled before the next are


def parse_arguments():
  parser = argparse.ArgumentParser(
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  add = parser.add_argument
  add("--libtpu", default=os.environ.get("TIDEWHEEL_LIBTPU"),
      help="libtpu.so (default: TIDEWHEEL_LIBTPU)")
  add("--tidewheel", help="the built command (default: of build/release, "
      "build/dev or the PATH)")
  add("--seed", type=int, default=20261130, help="of the draw (20261130)")
  add("--count", type=int, default=200, help="shapes (200)")
  add("--jobs", type=int, default=2, help="compilers at a time (2)")
  add("--timeout", type=int, default=300, help="seconds of a compile (300)")
  add("--edges", action="store_true",
      help="blocks that need about as much vector memory as a limit allows")
  add("--programs", action="store_true",
      help="tidewheel's own programs in place of JAX's kernel")
  add("--draw-only", action="store_true", help="print the shapes as JSON")
  return parser.parse_args()


def find_tidewheel(flags):
  paths = [ROOT / "build" / preset / "tidewheel"
           for preset in ("release", "dev")]
  found = flags.tidewheel or next(
      (str(path) for path in paths if path.is_file()), None)
  found = found or shutil.which("tidewheel")
  if not found:
    sys.exit("tpu_grid: the tidewheel command is not found; build it or name "
             "it with --tidewheel")
  return found


def measured_files():
  shared = pathlib.Path(os.environ.get("TIDEWHEEL_SHARED",
                                       ROOT.parent / "shared"))
  paths = (shared / "measurements" / "tpu_compile_limits.csv",
           ROOT / "tests" / "data" / "tpu_vmem.csv")
  return [path for path in paths if path.is_file()]


def compile_all(flags, what):
  """The report of `tidewheel check --tpu-compile` on `what`, its flags."""
  done = subprocess.run(
      [flags.tidewheel, "check", "--tpu-compile", "--libtpu", flags.libtpu,
       "--jobs", str(flags.jobs), "--timeout", str(flags.timeout), "--json",
       *what], capture_output=True, text=True, check=False)
  if not done.stdout:
    sys.exit(f"tpu_grid: {done.stderr.strip()}")
  return json.loads(done.stdout)["shapes"]


def export(shapes, folder):
  """The error text of the exporter, or None."""
  with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    json.dump(shapes, file)
    file.flush()
    done = subprocess.run(
        [os.environ["TIDEWHEEL_JAX_PYTHON"], "-B",
         str(ROOT / "tools" / "export_tpu_kernel.py"), "--force", "--out",
         str(folder), "--buckets", file.name], capture_output=True, text=True,
        check=False)
  return None if done.returncode == 0 else done.stderr.strip()


def refused_by_jax(shape, prediction, error):
  predicted, reason, need = prediction
  return {"chip": shape["generations"][0], "program": "kernel", **shape,
          "predicted": {"compiles": predicted is None,
                        "failure": predicted or "", "may_compile": False,
                        "text": reason,
                        "needed_bytes": need, "limit_bytes": None},
          "verdict": "refused", "error_class": "export",
          "agreement": "agrees" if predicted else "wrong",
          "disagreement": "it was predicted to compile",
          "error": error, "seconds": 0.0}


def measure_kernels(flags, shapes, predictions, folder):
  """A row for each shape; those that JAX refuses are found by halving."""
  if not shapes:
    return []
  error = export(shapes, folder)
  if error is None:
    rows = compile_all(flags, ["--kernels", str(folder)])
    shutil.rmtree(folder)
    return rows
  shutil.rmtree(folder, ignore_errors=True)
  if len(shapes) == 1:
    return [refused_by_jax(shapes[0], predictions[0], error)]
  half = len(shapes) // 2
  return (measure_kernels(flags, shapes[:half], predictions[:half], folder)
          + measure_kernels(flags, shapes[half:], predictions[half:], folder))


def batches(flags, shapes, folder):
  """Lists of rows, in the order of the shapes but for refusals of JAX."""
  if flags.programs:
    path = folder / "shapes.json"
    for begin in range(0, len(shapes), BATCH):
      path.write_text(json.dumps(shapes[begin:begin + BATCH]),
                      encoding="utf-8")
      yield compile_all(flags, ["--shapes", str(path)])
    return
  predictions = draw.predict(flags.tidewheel, shapes)
  for begin in range(0, len(shapes), BATCH):
    part = list(zip(shapes[begin:begin + BATCH],
                    predictions[begin:begin + BATCH]))
    # Predicted refusals of JAX go one by one, so that they stop no others.
    alone = [(s, p) for s, p in part if (p[0] or "").startswith("export")]
    together = [(s, p) for s, p in part
                if not (p[0] or "").startswith("export")]
    yield measure_kernels(flags, [s for s, _ in together],
                          [p for _, p in together], folder / "kernels")
    for shape, prediction in alone:
      yield measure_kernels(flags, [shape], [prediction], folder / "kernels")


def mib(value):
  return "-" if value is None else f"{value / draw.MIB:.1f}"


def line_of(row):
  predicted = row["predicted"]
  need, limit = predicted.get("needed_bytes"), predicted.get("limit_bytes")
  blocks = (f"{row['num_kv_pages_per_block']}x{row['num_queries_per_block']}"
            if "num_kv_pages_per_block" in row else row["program"])
  types = "/".join(draw.DTYPE_NAMES[row[name]] for name in ("q_dtype", "kv_dtype"))
  if "temp_bound_bytes" in predicted and predicted["temp_bound_bytes"]:
    need, limit = row.get("temp_bytes"), predicted["temp_bound_bytes"]
  verdict = row.get("error_class") or row["verdict"]
  expected = (("perhaps " if predicted["may_compile"] else "")
              + (predicted["failure"] or "compiles"))
  mark = {"agrees": "", "open": " <- open", "wrong": " <- WRONG",
          "unknown": " <- no verdict"}[row["agreement"]]
  return (f"{row['chip']:4} {row['num_q_heads']:>3}/{row['num_kv_heads']:<3}"
          f"{types:10} {row['page_size']:>4} "
          f"{row['max_num_seqs']:>6}x{row['pages_per_seq']:<5}"
          f"{row['num_tokens']:>5} {blocks:>8} {mib(need):>6} {mib(limit):>6} "
          f"{expected:24} {verdict:16} "
          f"{row['seconds']:5.1f}{mark}")


def summarize(rows):
  counts = collections.Counter((row["chip"], row["agreement"]) for row in rows)
  names = ("agrees", "open", "wrong", "unknown")
  print("\n" + f"{'':6}" + "".join(f"{name:>9}" for name in names))
  for chip in draw.GENERATIONS:
    print(f"{chip:6}" + "".join(f"{counts[chip, name]:9}" for name in names))
  totals = {name: sum(row["agreement"] == name for row in rows)
            for name in names}
  print(f"{'all':6}" + "".join(f"{totals[name]:9}" for name in names))
  compiled = [row for row in rows if row["verdict"] == "compiled"]
  in_place = sum(row["pool_in_place"] for row in compiled)
  exact = sum(row["alias_bytes"] == row["pool_bytes"] for row in compiled)
  print(f"{len(compiled)} of {len(rows)} compile; pool in place in {in_place}, "
        f"aliased bytes = pool in {exact}; "
        f"{sum(row['seconds'] for row in rows):.0f} s of compiling")
  left_open = [row for row in rows if row["agreement"] == "open"]
  if left_open:
    opened = sum(row["verdict"] == "compiled" for row in left_open)
    print(f"left open: {opened} compile, {len(left_open) - opened} do not")
  for row in rows:
    if row["agreement"] in ("wrong", "unknown"):
      print(f"\n{line_of(row)}\n  {row.get('disagreement', '')}\n  "
            f"{row['predicted']['text']}\n  {row.get('error', '')[:500]}")
  return 0 if totals["wrong"] == 0 else 1


def main():
  flags = parse_arguments()
  flags.tidewheel = find_tidewheel(flags)
  shapes = (draw.draw_programs(flags.seed, flags.count) if flags.programs else
            draw.draw(flags.tidewheel, flags.seed, flags.count,
                      draw.measured_keys(measured_files()), flags.edges))
  if flags.draw_only:
    json.dump(shapes, sys.stdout, indent=1)
    return 0
  if not flags.libtpu:
    sys.exit("tpu_grid: name libtpu.so with --libtpu or TIDEWHEEL_LIBTPU")
  if not flags.programs and not os.environ.get("TIDEWHEEL_JAX_PYTHON"):
    sys.exit("tpu_grid: TIDEWHEEL_JAX_PYTHON must name a Python with jax "
             "0.10.2 and xxhash")
  print("chip  heads types      page  table        tokens   blocks   need  "
        "limit predicted                verdict             s")
  rows = []
  with tempfile.TemporaryDirectory() as folder:
    for more in batches(flags, shapes, pathlib.Path(folder)):
      for row in more:
        print(line_of(row), flush=True)
      rows += more
  return summarize(rows)


if __name__ == "__main__":
  sys.exit(main())
