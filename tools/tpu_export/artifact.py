"""Exports one configuration with JAX, and reads the bytes back to check them.

What is recorded about an artifact (versions, donation, argument types) is read
from its bytes, not from what was asked for.
"""

import base64
import functools
import getpass
import json
import os
import pathlib
import re
import sys
import tempfile

import jax
import jax.numpy as jnp
from jax import export
from jax._src.interpreters import mlir
from jax._src.lib import tpu
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (
    ragged_paged_attention)
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from jaxlib import _jax
from jaxlib.mlir import ir

from tpu_export import kernel_config
from tpu_export import program

# Device kinds as a TPU reports them; the kernel asks which it is lowered for.
DEVICE_KINDS = {"v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5",
                "v6e": "TPU v6 lite", "v7x": "TPU7x"}
# Tracebacks in the locations hold absolute paths of this machine.
jax.config.update("jax_traceback_in_locations_limit", 0)


class ExportError(RuntimeError):
  """JAX refused the configuration, or its result is not what it must be."""


def export_kernel(config):
  """The StableHLO artifact (portable bytecode) of a configuration."""
  attend = functools.partial(
      ragged_paged_attention, sm_scale=config.sm_scale,
      sliding_window=config.sliding_window, soft_cap=config.soft_cap,
      mask_value=config.mask_value, k_scale=config.k_scale,
      v_scale=config.v_scale,
      num_kv_pages_per_block=config.num_kv_pages_per_block,
      num_queries_per_block=config.num_queries_per_block,
      vmem_limit_bytes=config.vmem_limit_bytes)
  function = jax.jit(
      program.build(attend, k_scale=config.k_scale, v_scale=config.v_scale),
      donate_argnums=(kernel_config.DONATED_ARGUMENT,), keep_unused=True)
  shapes = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
            for _, dtype, shape in config.arguments()]
  device = AbstractDevice(DEVICE_KINDS[config.generation], 1, "tpu")
  try:
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=device)):
      exported = export.export(function, platforms=["tpu"])(*shapes)
  except Exception as error:  # JAX raises what it likes, also assertions
    reason = str(error).strip() or "an assertion without a text"
    raise ExportError(f"{config.name}: JAX refuses to export it "
                      f"({type(error).__name__}): {reason}") from error
  return exported.mlir_module_serialized


def _custom_calls(operation):
  if operation.name == "stablehlo.custom_call":
    yield operation
  for region in operation.regions:
    for block in region.blocks:
      for child in block.operations:
        yield from _custom_calls(child.operation)


def _mosaic_version(body):
  context = ir.Context()
  tpu.register_dialect(context)
  context.allow_unregistered_dialects = True
  with context:
    module = ir.Module.parse(body)
    return module.operation.attributes["stable_mosaic.version"].value


def read_artifact(data):
  """What the bytes of an artifact say: a dict with stablehlo_version,
  mosaic_version, types, aliases (argument: result), kernel_body."""
  version = re.match(rb"ML\xefR.StableHLO_v([0-9.]+)\0", data, re.DOTALL)
  if version is None:
    raise ExportError("the artifact is no portable StableHLO bytecode")
  with mlir.make_ir_context():
    module = _jax.mlir.deserialize_portable_artifact(data)
    kernels = [operation for operation in _custom_calls(module.operation)
               if ir.StringAttr(operation.attributes["call_target_name"]).value
               == "tpu_custom_call"]
    if len(kernels) != 1:
      raise ExportError(f"the artifact has {len(kernels)} kernels, not 1")
    settings = json.loads(
        ir.StringAttr(kernels[0].attributes["backend_config"]).value)
    body = base64.b64decode(settings["custom_call_config"]["body"])
    main = next(function for function in module.body.operations
                if ir.StringAttr(function.attributes["sym_name"]).value
                == "main")
    aliases = {
        index: ir.IntegerAttr(attributes["tf.aliasing_output"]).value
        for index, attributes in enumerate(
            ir.DictAttr(entry) for entry in main.attributes["arg_attrs"])
        if "tf.aliasing_output" in attributes}
    signature = ir.FunctionType(
        ir.TypeAttr(main.attributes["function_type"]).value)
    types = ([str(t) for t in signature.inputs],
             [str(t) for t in signature.results])
  return {"stablehlo_version": version[1].decode(),
          "mosaic_version": _mosaic_version(body), "types": types,
          "aliases": aliases, "kernel_body": body}


ELEMENT_TYPES = {"bfloat16": "bf16", "float32": "f32", "int32": "i32",
                 "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
                 "int8": "i8"}


def _type_of(dtype, shape):
  return f"tensor<{'x'.join(map(str, shape))}x{ELEMENT_TYPES[dtype]}>"


def private_strings():
  """What must not be in an artifact: paths of this machine and its user."""
  package = pathlib.Path(jax.__file__).parent
  paths = {pathlib.Path(__file__).resolve().parent.parent.parent, package,
           pathlib.Path(sys.prefix), pathlib.Path.cwd(), pathlib.Path.home(),
           pathlib.Path(tempfile.gettempdir())}
  strings = {str(path) for path in paths if len(path.parts) > 1}
  try:
    strings.add(os.sep + getpass.getuser())
  except (KeyError, OSError):
    pass  # the process has no user name
  # Any name of a source file is a path that the list above does not know.
  return sorted(strings) + [".py"]


def check_artifact(config, data):
  """What read_artifact says, checked: types, donation, nothing private."""
  found = read_artifact(data)
  wanted = ([_type_of(*entry[1:]) for entry in config.arguments()],
            [_type_of(*entry[1:]) for entry in config.results()])
  if found["types"] != wanted:
    raise ExportError(f"{config.name}: main has the types {found['types']}, "
                      f"not {wanted}")
  wanted = {kernel_config.DONATED_ARGUMENT: kernel_config.DONATED_RESULT}
  if found["aliases"] != wanted:
    raise ExportError(f"{config.name}: argument -> result aliases are "
                      f"{found['aliases']}, not {wanted}: the pool would be "
                      "copied in every launch")
  for text in private_strings():
    if text.encode() in data or text.encode() in found["kernel_body"]:
      raise ExportError(
          f"{config.name}: the artifact holds {text!r} of this machine; "
          "it is not written (report this: jax_traceback_in_locations_limit "
          "no longer removes paths)")
  return found
