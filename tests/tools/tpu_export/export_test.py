"""The export script as a user calls it, and the folder that it writes.

usage: export_test.py TIDEWHEEL [unittest arguments]
"""

import dataclasses
import getpass
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tools" / "export_tpu_kernel.py"
sys.path.insert(0, str(ROOT / "tools"))
os.environ["JAX_PLATFORMS"] = "cpu"

from tpu_export import block_limits  # noqa: E402
from tpu_export import kernel_config  # noqa: E402

TIDEWHEEL = sys.argv.pop(1) if len(sys.argv) > 1 else "tidewheel"
SIZES = ["--num-q-heads", "8", "--num-kv-heads", "2", "--page-size", "16",
         "--total-num-pages", "32"]
BUCKETS = [
    {"num_tokens": 16, "max_num_seqs": 4, "pages_per_seq": 8},
    {"num_tokens": 32, "max_num_seqs": 4, "pages_per_seq": 8,
     "generations": ["v7x"], "head_dim": 64, "kv_dtype": "float8_e5m2",
     "k_scale": 0.3, "v_scale": 1, "sliding_window": 24, "soft_cap": 30.0,
     "num_kv_pages_per_block": 4, "num_queries_per_block": 8,
     "vmem_limit_bytes": 16777216},
]


def run(*arguments, environment=None, cwd=None):
  return subprocess.run(
      [sys.executable, "-B", str(SCRIPT), *arguments], capture_output=True,
      text=True, check=False, cwd=cwd,
      env={**os.environ, **(environment or {})})


class FolderTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls._temporary = tempfile.TemporaryDirectory()
    cls.root = pathlib.Path(cls._temporary.name)
    buckets = cls.root / "buckets.json"
    buckets.write_text(json.dumps(BUCKETS))
    arguments = ["--tidewheel", TIDEWHEEL, *SIZES, "--buckets", str(buckets),
                 "--generation", "v5e", "--generation", "v6e"]
    cls.done = run("--out", str(cls.root / "first"), *arguments)
    # Elsewhere, with other hashes and settings that JAX would obey.
    cls.again = run(
        "--out", "second", *arguments, cwd=cls.root,
        environment={"PYTHONHASHSEED": "7", "JAX_ENABLE_X64": "1",
                     "JAX_DEFAULT_MATMUL_PRECISION": "highest",
                     "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "10"})

  @classmethod
  def tearDownClass(cls):
    cls._temporary.cleanup()

  def setUp(self):
    self.assertEqual(self.done.returncode, 0, self.done.stderr)
    self.assertEqual(self.again.returncode, 0, self.again.stderr)
    self.folder = self.root / "first"
    self.manifest = json.loads((self.folder / "manifest.json").read_text())

  def test_manifest_says_what_was_asked_for(self):
    self.assertEqual(
        {key: self.manifest[key] for key in
         ("format", "format_version", "jax_version", "jaxlib_version")},
        {"format": "tidewheel-tpu-kernels", "format_version": 1,
         "jax_version": "0.10.2", "jaxlib_version": "0.10.2"})
    entries = self.manifest["artifacts"]
    self.assertEqual([(e["generation"], e["num_tokens"]) for e in entries],
                     [("v5e", 16), ("v6e", 16), ("v7x", 32)])
    plain, fancy = entries[0], entries[2]
    self.assertEqual(plain["options"]["sm_scale"],
                     kernel_config.round_to_f32(128**-0.5))
    self.assertEqual(
        (plain["num_kv_pages_per_block"], plain["num_queries_per_block"],
         plain["vmem_limit_bytes"], plain["new_kv_dtype"]),
        (8, 16, None, "bfloat16"))
    self.assertEqual(fancy["options"], {
        "sm_scale": 0.125, "sliding_window": 24, "soft_cap": 30.0,
        "mask_value": plain["options"]["mask_value"],
        "k_scale": kernel_config.round_to_f32(0.3), "v_scale": 1.0})
    self.assertEqual(
        (fancy["num_kv_pages_per_block"], fancy["num_queries_per_block"],
         fancy["vmem_limit_bytes"]), (4, 8, 16777216))
    self.assertEqual(
        [(a["name"], a["dtype"], a["shape"]) for a in fancy["arguments"]],
        [("q", "bfloat16", [32, 8, 64]), ("k", "bfloat16", [32, 2, 64]),
         ("v", "bfloat16", [32, 2, 64]),
         ("kv_pages", "float8_e5m2", [32, 16, 4, 128]),
         ("kv_lens", "int32", [4]), ("page_indices", "int32", [4, 8]),
         ("cu_q_lens", "int32", [5]), ("num_seqs", "int32", [1])])
    self.assertEqual([(r["name"], r["shape"]) for r in fancy["results"]],
                     [("out", [32, 8, 64]), ("kv_pages", [32, 16, 4, 128])])

  def test_files_have_the_size_and_hash_of_the_manifest(self):
    import xxhash
    for entry in self.manifest["artifacts"]:
      data = (self.folder / entry["file"]).read_bytes()
      self.assertEqual(len(data), entry["bytes"])
      self.assertEqual(xxhash.xxh3_128_hexdigest(data), entry["xxh3_128"])
    self.assertEqual(
        {path.name for path in self.folder.iterdir()},
        {"manifest.json"} | {e["file"] for e in self.manifest["artifacts"]})

  def test_the_pool_is_donated_and_versions_are_those_of_the_bytes(self):
    from tpu_export import artifact
    for entry in self.manifest["artifacts"]:
      found = artifact.read_artifact((self.folder / entry["file"]).read_bytes())
      self.assertEqual(found["aliases"], {3: 1})
      self.assertEqual(
          (entry["donated_argument"], entry["donated_result"]), (3, 1))
      self.assertEqual(entry["stablehlo_version"], "1.15.0")
      self.assertEqual(entry["mosaic_version"], 11)
      self.assertEqual(found["mosaic_version"], 11)

  def test_two_runs_give_equal_bytes(self):
    second = self.root / "second"
    self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                     sorted(p.name for p in second.iterdir()))
    for path in self.folder.iterdir():
      self.assertEqual(path.read_bytes(), (second / path.name).read_bytes(),
                       path.name)

  def test_nothing_of_this_machine_is_inside(self):
    from tpu_export import artifact
    private = [str(ROOT), sys.prefix, str(self.root), str(pathlib.Path.home()),
               os.sep + getpass.getuser(), ".py"]
    manifest = (self.folder / "manifest.json").read_bytes()
    for text in private:
      self.assertNotIn(text.encode(), manifest)
    for path in self.folder.glob("*.mlirbc"):
      data = path.read_bytes()
      for part in (data, artifact.read_artifact(data)["kernel_body"]):
        for text in private:
          self.assertNotIn(text.encode(), part)

  def test_a_folder_that_is_in_use_is_left_alone(self):
    before = (self.folder / "manifest.json").read_bytes()
    done = run("--out", str(self.folder), "--tidewheel", TIDEWHEEL, *SIZES,
               "--bucket", "16,4,8")
    self.assertEqual(done.returncode, 1)
    self.assertIn("is not empty; name a new folder", done.stderr)
    self.assertEqual((self.folder / "manifest.json").read_bytes(), before)


class ArtifactTest(unittest.TestCase):

  def test_a_path_in_an_artifact_is_found(self):
    import jax
    from tpu_export import artifact
    config = kernel_config.make_config(dict(
        generation="v5e", num_tokens=8, max_num_seqs=2, pages_per_seq=4,
        num_q_heads=4, num_kv_heads=1, page_size=16, total_num_pages=8,
        num_kv_pages_per_block=4, num_queries_per_block=8))
    with jax._src.config.traceback_in_locations_limit(10):
      data = artifact.export_kernel(config)
    with self.assertRaisesRegex(artifact.ExportError, "of this machine"):
      artifact.check_artifact(config, data)
    # And what the program is for is compared with what it is.
    other = dataclasses.replace(config, total_num_pages=9)
    with self.assertRaisesRegex(artifact.ExportError, "main has the types"):
      artifact.check_artifact(other, data)


class RefusalTest(unittest.TestCase):

  def test_bad_input_is_told_and_leaves_no_folder(self):
    good = [*SIZES, "--generation", "v5e"]
    bucket = ["--bucket", "16,4,8"]
    for arguments, text in (
        (good, "no bucket is given"),
        ([*good, "--bucket", "16,4"], "is not TOKENS,SEQS,PAGES"),
        ([*good, "--bucket", "0,4,8"], "num_tokens 0 is not a whole number"),
        ([*good, "--bucket", "16,4,8,9,8"], "is above pages_per_seq 8"),
        ([*good, *bucket, *bucket], "are the same for v5e; drop one"),
        ([*good, *bucket, "--head-dim", "256"],
         "head_dim 256 is above 128: the kernel reads"),
        ([*good, *bucket, "--num-q-heads", "9"], "no multiple of num_kv_heads"),
        ([*good, *bucket, "--num-kv-heads", "3", "--num-q-heads", "9"],
         "num_kv_heads 3 with bf16 KV makes 6 combined heads"),
        ([*good, *bucket, "--k-scale", "0.5", "--kv-dtype", "int8"],
         "only one of k_scale 0.5 and v_scale None"),
        ([*good, *bucket, "--k-scale", "0"], "k_scale 0 divides by zero"),
        ([*good, *bucket, "--soft-cap", "1e39"], "beyond float32"),
        ([*good, *bucket, "--total-num-pages", "134217728"],
         "which int32 can not count"),
        ([*SIZES, "--generation", "v4", "--bucket", "512,4,64,64,512"],
         "1 of 1 configurations do not fit"),
        ([*good, "--bucket", "512,4,64,64,512", "--vmem-limit-bytes",
          "16777216"], "above the limit of 16777216 on v5e"),
        ([*good, "--bucket", "16,3000,8"], "scalar memory"),
        ([*bucket, *SIZES[2:]], "num_q_heads is missing; give --num-q-heads"),
    ):
      with self.subTest(text), tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        done = run("--out", str(out), "--tidewheel", TIDEWHEEL, *arguments)
        self.assertEqual(done.returncode, 1)
        self.assertIn(text, done.stderr)
        self.assertFalse(out.exists())

  def test_bad_bucket_files_are_told_with_their_place(self):
    sizes = {"num_tokens": 16, "max_num_seqs": 4, "pages_per_seq": 8}
    for content, text in (
        ("[", "is no JSON"), ("{}", "must be a list of objects"),
        (json.dumps([sizes, {"num_tokens": 8}]),
         "[1]: max_num_seqs is missing"),
        (json.dumps([{**sizes, "num_token": 8}]),
         "[0]: unknown field 'num_token'"),
        (json.dumps([{**sizes, "generations": "v5e"}]),
         "[0]: generations must be a list"),
        (json.dumps([{**sizes, "generations": ["v3"]}]),
         "[0]: generation 'v3' is unknown"),
        (json.dumps([{**sizes, "sm_scale": "x"}]),
         "[0]: sm_scale 'x' is not a finite number")):
      with self.subTest(text), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "buckets.json"
        path.write_text(content)
        done = run("--out", str(pathlib.Path(folder) / "out"), "--tidewheel",
                   TIDEWHEEL, *SIZES, "--buckets", str(path))
        self.assertEqual(done.returncode, 1)
        self.assertIn(text, done.stderr)

  def test_limits_are_asked_unless_forced(self):
    arguments = [*SIZES, "--generation", "v5e", "--bucket"]
    with tempfile.TemporaryDirectory() as folder:
      out = pathlib.Path(folder) / "out"
      done = run("--out", str(out), "--tidewheel", str(out), *arguments,
                 "16,4,8")
      self.assertEqual(done.returncode, 1)
      self.assertIn("--tidewheel must name the built command", done.stderr)
      done = run("--out", str(out), "--force", "--tidewheel", str(out),
                 *arguments, "512,4,64,64,512")
      self.assertEqual(done.returncode, 0, done.stderr)

  def test_a_python_without_jax_is_told_what_to_install(self):
    with tempfile.TemporaryDirectory() as folder:
      (pathlib.Path(folder) / "jax.py").write_text("__version__ = '0.4.1'\n")
      arguments = ["--out", folder + "/out", "--force", *SIZES, "--bucket",
                   "16,4,8,8,8"]
      done = run(*arguments, environment={"PYTHONPATH": folder})
      self.assertEqual(done.returncode, 1)
      self.assertIn("jax is 0.4.1, but", done.stderr)
      self.assertIn("pip install jax==0.10.2 xxhash", done.stderr)
      (pathlib.Path(folder) / "jax.py").write_text(
          "raise ModuleNotFoundError('No jax', name='jax')\n")
      done = run(*arguments, environment={"PYTHONPATH": folder})
      self.assertIn("jax is not installed; pip install", done.stderr)


class BlockLimitsTest(unittest.TestCase):

  def test_blocks_are_those_of_the_cpp_rule(self):
    """The ladder is written twice; the rules that it asks are not."""
    cases = []
    for chip in ("v4", "v6e"):
      for page_size, tokens, limit in (
          (16, 2048, None), (1, 64, None), (256, 8, None),
          (16, 2048, 6 << 20), (32, 2048, 3 << 20), (16, 2048, 1600000)):
        cases.append((chip, page_size, tokens, limit))
    for chip, page_size, tokens, limit in cases:
      with self.subTest(chip=chip, page_size=page_size, limit=limit):
        flags = [] if limit is None else ["--vmem-limit-bytes", str(limit)]
        report = json.loads(subprocess.run(
            [TIDEWHEEL, "check", "--json", "--model", "llama-3.1-8b", "--chip",
             chip, "--max-num-seqs", "8", "--page-size", str(page_size),
             "--max-model-len", str(64 * page_size),
             "--max-num-batched-tokens", str(tokens), *flags],
            capture_output=True, text=True, check=False).stdout)
        config = kernel_config.make_config(dict(
            generation=chip, num_tokens=tokens, max_num_seqs=8,
            pages_per_seq=64, num_q_heads=32, num_kv_heads=8,
            page_size=page_size, total_num_pages=99, vmem_limit_bytes=limit))
        chosen, = block_limits.BlockLimits(TIDEWHEEL).with_blocks([config])
        self.assertEqual(
            (chosen.num_kv_pages_per_block, chosen.num_queries_per_block),
            (report["needs"]["num_kv_pages_per_block"],
             report["needs"]["num_queries_per_block"]))

  def test_given_blocks_raise_the_limit_where_the_chip_has_it(self):
    def limit(chip, queries, given=None):
      config = kernel_config.make_config(dict(
          generation=chip, num_tokens=512, max_num_seqs=4, pages_per_seq=64,
          num_q_heads=8, num_kv_heads=2, page_size=16, total_num_pages=99,
          num_kv_pages_per_block=64, num_queries_per_block=queries,
          vmem_limit_bytes=given))
      limits = block_limits.BlockLimits(TIDEWHEEL)
      raised, = limits.with_limits([config])
      fits = limits.refusals([raised]) == [None]
      return raised.vmem_limit_bytes, fits

    self.assertEqual(limit("v5e", 8), (None, True))  # the default does
    raised, fits = limit("v5e", 512)
    self.assertTrue(fits)
    self.assertGreater(raised, 16 << 20)
    # One byte less, and it is not certain any more.
    self.assertEqual(limit("v5e", 512, raised - 1), (raised - 1, False))
    self.assertEqual(limit("v4", 512), (None, False))  # has no more


if __name__ == "__main__":
  unittest.main()
