#!/usr/bin/env python3
"""Opens pages in headless Chromium and checks what a reader would see.

usage: browser_check.py CHROMIUM PAGE.html [--shots FOLDER]

Each page is opened wide, as on a phone, in the dark and for print. It fails,
and says why, where the console has an error, the page asks for anything but
itself, a figure has no point of data or one that is not drawn, something is
wider than the window, text of a chart is too small to read or lies outside of
its drawing, or a hover shows nothing. With --shots a PNG of each view and the
PDF are left in FOLDER.

It speaks the DevTools protocol over the pipe that --remote-debugging-pipe
opens (messages of JSON, each ended by a zero byte), so that it needs nothing
but Python.
"""

import argparse
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

# name, width, height, device pixels a CSS pixel, medium, colour scheme
VIEWS = [
    ('wide', 1280, 900, 1, 'screen', 'light'),
    ('phone', 390, 844, 2, 'screen', 'light'),
    ('dark', 1280, 900, 1, 'screen', 'dark'),
    ('phone-dark', 390, 844, 2, 'screen', 'dark'),
    # What is on paper is light, also where the screen is dark. A4 without its
    # margins.
    ('paper', 688, 1017, 1, 'print', 'dark'),
]
# Of a chart's text, in CSS pixels.
SMALLEST_TEXT = 9.0
TIMEOUT_SECONDS = 300

# What a page looks like from inside. Boxes are compared with a pixel's room.
PROBE = r'''
(function () {
  const figures = [...document.querySelectorAll('figure')].map(figure => {
    const svg = figure.querySelector('svg[role=img]');
    const frame = svg ? svg.getBoundingClientRect() : null;
    const outside = [];
    let smallest = 1e9;
    for (const text of svg ? svg.querySelectorAll('text') : []) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        outside.push(text.textContent);
      }
      const scale = svg.getScreenCTM().a;
      smallest = Math.min(smallest,
          parseFloat(getComputedStyle(text).fontSize) * scale);
    }
    const ticks = svg ? [...svg.querySelectorAll('text.tick')] : [];
    const overlaps = [];
    for (let i = 1; i < ticks.length; ++i) {
      const a = ticks[i - 1].getBoundingClientRect();
      const b = ticks[i].getBoundingClientRect();
      if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom &&
          b.top + 2 < a.bottom) {
        overlaps.push(ticks[i - 1].textContent + ' and ' +
            ticks[i].textContent);
      }
    }
    return {id: figure.id, points: figure.querySelectorAll('.hit').length,
            labelled: [...figure.querySelectorAll('.hit')].every(
                hit => hit.getAttribute('aria-label')),
            empty: figure.querySelector('.empty') !== null,
            height: frame ? frame.height : 0, outside, overlaps,
            smallest};
  });
  const root = document.documentElement;
  return {figures, width: root.scrollWidth, window: root.clientWidth,
          height: root.scrollHeight,
          back: getComputedStyle(document.body).backgroundColor,
          text: getComputedStyle(document.body).color};
})()
'''

# The middle of a figure's widest point, in view. Two frames later, since a
# scroll, which hides what is shown, is told to the page in the next one.
HOVER = r'''
(async function (id) {
  const figure = document.getElementById(id);
  figure.scrollIntoView({block: 'center', behavior: 'instant'});
  for (let i = 0; i < 2; ++i) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
  const boxes = [...figure.querySelectorAll('.hit')].map(
      hit => hit.getBoundingClientRect());
  const box = boxes.reduce((a, b) => b.width > a.width ? b : a);
  return {x: box.left + box.width / 2, y: box.top + box.height / 2};
})
'''


class Browser:
  """A headless Chromium with one page."""

  def __init__(self, chromium, profile):
    to_browser, self._out = os.pipe()
    self._in, from_browser = os.pipe()

    def place_pipes():  # Chromium reads from 3 and writes to 4
      keep_in, keep_out = os.dup(to_browser), os.dup(from_browser)
      os.dup2(keep_in, 3)
      os.dup2(keep_out, 4)

    self._log = open(os.path.join(profile, 'stderr'), 'w+b')
    self._process = subprocess.Popen(
        [chromium, '--headless=new', '--no-sandbox', '--disable-gpu',
         '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
         '--disable-background-networking', '--disable-component-update',
         '--remote-debugging-pipe', f'--user-data-dir={profile}/profile',
         'about:blank'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log,
        preexec_fn=place_pipes, close_fds=False)
    os.close(to_browser)
    os.close(from_browser)
    self._next_id = 0
    self._buffer = b''
    self._session = None
    self.events = []
    targets = self.call('Target.getTargets')['targetInfos']
    page = next(t for t in targets if t['type'] == 'page')
    self._session = self.call('Target.attachToTarget',
                              targetId=page['targetId'],
                              flatten=True)['sessionId']
    for domain in ('Page', 'Runtime', 'Log', 'Network'):
      self.call(domain + '.enable')

  def _read(self):
    while b'\0' not in self._buffer:
      chunk = os.read(self._in, 1 << 20)
      if not chunk:
        self._log.seek(0)
        raise RuntimeError('the browser ended: ' +
                           self._log.read().decode(errors='replace')[-2000:])
      self._buffer += chunk
    message, self._buffer = self._buffer.split(b'\0', 1)
    return json.loads(message)

  def call(self, method, **params):
    self._next_id += 1
    message = {'id': self._next_id, 'method': method, 'params': params}
    if self._session:
      message['sessionId'] = self._session
    os.write(self._out, json.dumps(message).encode() + b'\0')
    while True:
      answer = self._read()
      if answer.get('id') != self._next_id:
        self.events.append(answer)
      elif 'error' in answer:
        raise RuntimeError(f'{method}: {answer["error"]}')
      else:
        return answer['result']

  def wait_for(self, method):
    while not any(e.get('method') == method for e in self.events):
      self.events.append(self._read())

  def evaluate(self, script):
    answer = self.call('Runtime.evaluate', expression=script,
                       returnByValue=True, awaitPromise=True)
    if 'exceptionDetails' in answer:
      raise RuntimeError(str(answer['exceptionDetails']))
    return answer['result'].get('value')

  def close(self):
    try:
      self.call('Browser.close')
    except (RuntimeError, OSError):
      pass
    self._process.wait(timeout=30)
    self._log.close()


def console_errors(events):
  for event in events:
    method, params = event.get('method'), event.get('params', {})
    if method == 'Runtime.exceptionThrown':
      yield 'script: ' + json.dumps(params['exceptionDetails'])[:500]
    elif method == 'Runtime.consoleAPICalled' and params['type'] in (
        'error', 'warning', 'assert'):
      yield 'console: ' + json.dumps(params['args'])[:500]
    elif method == 'Log.entryAdded' and params['entry']['level'] in (
        'error', 'warning'):
      yield 'log: ' + json.dumps(params['entry'])[:500]


def foreign_requests(events, own):
  for event in events:
    if event.get('method') == 'Network.requestWillBeSent':
      url = event['params']['request']['url']
      if url != own and not url.startswith('data:'):
        yield f'asks for {url}'


def figure_faults(figure):
  if figure['empty']:
    return
  if figure['points'] == 0:
    yield 'has no point of data'
  if not figure['labelled']:
    yield 'has a point that says nothing'
  if figure['height'] < 20:
    yield f'is {figure["height"]} px high'
  if figure['outside']:
    yield f'has text outside of its drawing: {figure["outside"]}'
  if figure['overlaps']:
    yield f'has labels that lie on each other: {figure["overlaps"]}'
  if figure['smallest'] < SMALLEST_TEXT:
    yield f'has text of {figure["smallest"]:.1f} px'


def luminance(colour):
  parts = [float(p) for p in colour[colour.index('(') + 1:-1].split(',')[:3]]
  return sum(parts) / 3


def check_view(browser, url, view, shots):
  name, width, height, ratio, medium, scheme = view
  browser.events.clear()
  browser.call('Emulation.setDeviceMetricsOverride', width=width,
               height=height, deviceScaleFactor=ratio, mobile=width < 600)
  browser.call('Emulation.setEmulatedMedia', media=medium, features=[
      {'name': 'prefers-color-scheme', 'value': scheme}])
  browser.call('Page.navigate', url=url)
  browser.wait_for('Page.loadEventFired')
  probe = browser.evaluate(PROBE)
  faults = list(foreign_requests(browser.events, url))
  if not probe['figures']:
    faults.append('has no figure')
  if probe['width'] > probe['window']:
    faults.append(f'is {probe["width"]} px wide in a window of '
                  f'{probe["window"]} px')
  is_dark = luminance(probe['back']) < luminance(probe['text'])
  if is_dark != (scheme == 'dark' and medium == 'screen'):
    faults.append(f'has {probe["text"]} on {probe["back"]}')
  for figure in probe['figures']:
    faults += [f'figure {figure["id"]} {fault}'
               for fault in figure_faults(figure)]
  if shots:
    shot = browser.call('Page.captureScreenshot', format='png',
                        captureBeyondViewport=True, clip={
                            'x': 0, 'y': 0, 'width': width,
                            'height': probe['height'], 'scale': 1})
    shots.joinpath(f'{name}.png').write_bytes(base64.b64decode(shot['data']))
  for figure in probe['figures'] if medium == 'screen' else []:
    if figure['points'] == 0:
      continue
    at = browser.evaluate(f'{HOVER}("{figure["id"]}")')
    browser.call('Input.dispatchMouseEvent', type='mouseMoved', **at)
    shown = browser.evaluate(
        '(function () { const tip = document.getElementById("tip");'
        ' return tip.style.display === "block" ? tip.textContent : ""; })()')
    if not shown:
      faults.append(f'figure {figure["id"]} shows nothing on a hover')
  faults += console_errors(browser.events)
  points = sum(figure['points'] for figure in probe['figures'])
  print(f'{name}: {len(probe["figures"])} figures, {points} points, '
        f'{len(faults)} faults')
  return [f'{name}: {fault}' for fault in faults]


def check_print(browser, shots):
  # Paper again as it is by itself: the page's own size, a dark screen.
  browser.call('Emulation.clearDeviceMetricsOverride')
  browser.call('Emulation.setEmulatedMedia', media='', features=[
      {'name': 'prefers-color-scheme', 'value': 'dark'}])
  pdf = base64.b64decode(browser.call(
      'Page.printToPDF', printBackground=True, paperWidth=8.27,
      paperHeight=11.69, preferCSSPageSize=True)['data'])
  if shots:
    shots.joinpath('print.pdf').write_bytes(pdf)
  pages = pdf.count(b'/Type /Page\n') + pdf.count(b'/Type /Page ')
  print(f'print: {len(pdf)} bytes, {pages} pages')
  return [] if pdf.startswith(b'%PDF') and len(pdf) > 20000 else [
      f'print: a PDF of {len(pdf)} bytes']


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument('chromium')
  parser.add_argument('page', type=pathlib.Path)
  parser.add_argument('--shots', type=pathlib.Path)
  args = parser.parse_args()
  if args.shots:
    args.shots.mkdir(parents=True, exist_ok=True)
  signal.alarm(TIMEOUT_SECONDS)  # a browser that hangs is a failure
  faults = []
  with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    browser = Browser(args.chromium, profile)
    url = args.page.resolve().as_uri()
    for view in VIEWS:
      faults += check_view(browser, url, view, args.shots)
    faults += check_print(browser, args.shots)
    browser.close()
  for fault in faults:
    print(fault, file=sys.stderr)
  return 1 if faults else 0


if __name__ == '__main__':
  sys.exit(main())
