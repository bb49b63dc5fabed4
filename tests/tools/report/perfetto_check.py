#!/usr/bin/env python3
"""Loads a timeline into Perfetto's trace_processor and asks it questions.

usage: perfetto_check.py TIMELINE.json REQUESTS.csv STEPS.csv

The files are those of one `tidewheel simulate --timeline --per-request
--per-step`. It fails, and says why, where a request's slices do not add up to
its end-to-end latency, the time in slices of the category queued is not its
queue time, or a counter has another value at a step than the step's line.

Needs the PyPI package perfetto. That package fetches the trace_processor_shell
program when it is first used; TIDEWHEEL_TRACE_PROCESSOR names one that is
already there. Exit code 77: there is none to be had.
"""

import bisect
import collections
import csv
import os
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
REQUEST_PROCESS = 2


def nanoseconds(seconds):
  """Of a text with six digits after the point, exactly."""
  whole, part = seconds.split('.')
  return int(whole) * 10**9 + int(part) * 1000


def open_trace(path):
  # pylint: disable=import-outside-toplevel
  from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
  shell = os.environ.get('TIDEWHEEL_TRACE_PROCESSOR')
  try:
    return TraceProcessor(trace=path,
                          config=TraceProcessorConfig(bin_path=shell))
  except Exception as error:  # whatever its download may raise
    if shell:
      raise
    print(f'no trace_processor_shell: {error}', file=sys.stderr)
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
  errors = processor.query('''
      select name, value from stats
      where severity = 'error' and value > 0''')
  for row in errors:
    yield f'trace_processor counts {row.value} of {row.name}'
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
