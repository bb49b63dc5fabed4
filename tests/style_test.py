#!/usr/bin/env python3
"""House rules that a compiler does not know, as a test over tracked files.

usage: style_test.py ROOT        reports file:line: rule: what is wrong
       style_test.py --self-test shows that each rule can fail

A rule is a generator that takes a tree and yields findings; RULES lists them
and BAD holds, for each, small trees that break it. To add a rule, add both:
the self-test fails for a rule without a bad tree.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

# A layer may include itself and what stands before it; tests see all.
LAYERS = ['allocator', 'attention', 'scheduler', 'tools', 'tests']
MAX_COLUMNS = 80
MAX_README_LINES = 40
# Lines of a file: what the house aims at, and what fails.
AIM_LINES = {'.h': 150, '.cc': 400}
MAX_LINES = {'.h': 250, '.cc': 600}
EMPTY_WORDS = 'Manager|Helper|Util|Utils|Impl|Info|Data'
EXECUTABLES = [
    'tools/dev', 'tools/lint', '.ci/run', 'tests/install_test/run',
    'tests/tools/report/trace_processor_bridge.js'
]
# Inputs of tests may be ugly on purpose: CRLF, tabs, no final newline.
RAW_FOLDERS = ('tests/data/',)
# Put together here so that this file does not break the rules it holds.
UNFINISHED = re.compile(r'\b(?:TO' r'DO|FIX' r'ME|XX' r'X)\b')
MACHINE_PATH = re.compile(
    r'(?<![\w.$}/-])/(?:work|root|tmp|home|Users)(?=[/\s"\'`);:,]|$)')


class Tree:
  """The text files below a root, by relative path."""

  def __init__(self, root):
    self.root = pathlib.Path(root).resolve()
    self.files = {}
    for path in self._paths():
      try:
        self.files[path] = (self.root / path).read_bytes().decode('utf-8')
      except (UnicodeDecodeError, FileNotFoundError):
        pass  # binary, or deleted and not yet committed
    self.lines = {path: text.split('\n')[:-1] if text.endswith('\n')
                  else text.split('\n') for path, text in self.files.items()}

  def _paths(self):
    listed = ''
    try:
      listed = subprocess.run(
          ['git', '-c', f'safe.directory={self.root}', '-C', str(self.root),
           'ls-files', '-z', '--cached'],
          capture_output=True, text=True, check=False).stdout
    except OSError:
      pass  # no git here
    if listed:
      return sorted(listed.rstrip('\0').split('\0'))
    # Not a checkout: an unpacked archive.
    return sorted(
        str(path.relative_to(self.root)) for path in self.root.rglob('*')
        if path.is_file() and path.relative_to(self.root).parts[0] not in
        ('.git', '.cache', 'build') and '__pycache__' not in path.parts)

  def cpp(self, *suffixes):
    for path, lines in self.lines.items():
      if path.endswith(suffixes or ('.h', '.cc')):
        yield path, lines

  def text(self):
    for path, lines in self.lines.items():
      if not path.startswith(RAW_FOLDERS):
        yield path, lines


def line_length(tree):
  for path, lines in tree.cpp():
    for number, line in enumerate(lines, 1):
      if len(line) > MAX_COLUMNS and not line.startswith('#include'):
        yield path, number, f'{len(line)} columns, at most {MAX_COLUMNS}'


def blanks(tree):
  for path, lines in tree.text():
    for number, line in enumerate(lines, 1):
      if '\t' in line:
        yield path, number, 'a tab; indent with spaces'
      if line.endswith('\r'):
        yield path, number, 'ends with a carriage return'
      elif line != line.rstrip():
        yield path, number, 'trailing space'
    if not tree.files[path].endswith('\n') and tree.files[path]:
      yield path, len(lines), 'no newline at the end of the file'


def include_guard(tree):
  for path, lines in tree.cpp('.h'):
    guard = 'TIDEWHEEL_' + re.sub(r'\W', '_', path).upper() + '_'
    code = [(number, line) for number, line in enumerate(lines, 1)
            if line and not line.startswith('//')]
    wanted = [f'#ifndef {guard}', f'#define {guard}', f'#endif  // {guard}']
    found = code[:2] + code[-1:] if len(code) > 2 else [(1, '')] * 3
    for (number, line), want in zip(found, wanted):
      if line != want:
        yield path, number, f'the include guard needs "{want}"'
        break


def header_comment(tree):
  for path, lines in tree.cpp('.h'):
    if not lines or not lines[0].startswith('// '):
      yield path, 1, 'a header begins with a comment that teaches it'


def includes(tree):
  for path, lines in tree.cpp():
    layer = path.split('/')[0]
    for number, line in enumerate(lines, 1):
      match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
      if not match or layer not in LAYERS:
        continue
      target = match.group(1).split('/')[0]
      beside = str(pathlib.PurePath(path).parent / match.group(1))
      if target in ('.', '..') or beside in tree.files:
        yield path, number, f'"{match.group(1)}" is not relative to the root'
      elif target in LAYERS and LAYERS.index(target) > LAYERS.index(layer):
        yield path, number, (
            f'{layer} includes {match.group(1)}; includes point left only: '
            + ' <- '.join(LAYERS))


def machine_path(tree):
  for path, lines in tree.text():
    for number, line in enumerate(lines, 1):
      match = MACHINE_PATH.search(line)
      if match:
        yield path, number, f'{match.group(0)} is a path of one machine'


def unfinished(tree):
  for path, lines in tree.text():
    for number, line in enumerate(lines, 1):
      match = UNFINISHED.search(line)
      if match:
        yield path, number, f'{match.group(0)}: finish it or file an issue'


def readmes(tree):
  folders = {str(parent) for path in tree.files
             for parent in pathlib.PurePath(path).parents}
  for folder in sorted(folders):
    if folder.startswith('.') and folder != '.':
      continue
    if (folder + '/').startswith(RAW_FOLDERS):
      continue
    path = 'README.md' if folder == '.' else f'{folder}/README.md'
    if path not in tree.files:
      yield path, 1, 'missing; every folder says what it owns'
      continue
    # The root's opens the project; a table of cases is as long as it is.
    prose = [line for line in tree.lines[path] if not line.startswith('|')]
    if folder != '.' and len(prose) > MAX_README_LINES:
      yield path, MAX_README_LINES + 1, (
          f'{len(prose)} lines besides tables, at most {MAX_README_LINES}')


def file_size(tree):
  for path, lines in tree.cpp():
    limit = MAX_LINES[pathlib.PurePath(path).suffix]
    if len(lines) > limit:
      yield path, limit + 1, f'{len(lines)} lines, at most {limit}; split it'


def empty_names(tree):
  words = re.compile(
      r'\b(?:class|struct|enum(?: class)?)\s+(?:\[\[.*?\]\]\s*)?'
      rf'(\w*?(?:{EMPTY_WORDS})(?![a-z])\w*)')
  for path, lines in tree.cpp():
    for number, line in enumerate(lines, 1):
      match = words.search(line.split('//')[0])
      if match:
        yield path, number, f'{match.group(1)}: name it after what it does'
    stem = pathlib.PurePath(path).stem
    if set(stem.split('_')) & {w.lower() for w in EMPTY_WORDS.split('|')}:
      yield path, 1, f'file {stem}: name it after what it does'


def executables(tree):
  for path in EXECUTABLES:
    if not os.access(tree.root / path, os.X_OK):
      yield path, 1, 'missing or not executable'


RULES = [line_length, blanks, include_guard, header_comment, includes,
         machine_path, unfinished, readmes, file_size, empty_names, executables]


def check(tree):
  """All findings, as (path, line, rule's name, text)."""
  return [(path, line, rule.__name__, text) for rule in RULES
          for path, line, text in rule(tree)]


def warn_of_sizes(tree):
  for path, lines in tree.cpp():
    aim = AIM_LINES[pathlib.PurePath(path).suffix]
    if len(lines) > aim:
      print(f'{path}:1: warning: {len(lines)} lines; the house aims at {aim}')


# ---- Self-test --------------------------------------------------------------

HEADER = textwrap.dedent('''\
    // Page: a page.

    #ifndef TIDEWHEEL_ATTENTION_PAGE_H_
    #define TIDEWHEEL_ATTENTION_PAGE_H_

    #include "absl/status/status.h"
    #include "allocator/check.h"

    struct Page {};

    #endif  // TIDEWHEEL_ATTENTION_PAGE_H_
    ''')
GOOD = {
    'README.md': 'Root\n' * 50,
    'attention/README.md': 'Attention\n' * 40 + '| case | test |\n' * 50,
    'attention/page.h': HEADER,
    'attention/page.cc': '#include "attention/page.h"\n#include "xxhash.h"\n',
    'tests/README.md': 'Tests\n',
    'tests/page_test.cc': '#include "tools/report.h"\n// see a/root/b\n',
    'tests/data/ugly.csv': 'a\tb \r\nend',
    'tests/install_test/README.md': 'A consumer.\n',
    'tests/tools/README.md': 'Tools\n',
    'tests/tools/report/README.md': 'Reports\n',
    'tools/README.md': 'Tools\n',
    **dict.fromkeys(EXECUTABLES, ''),
}
LONG = '//' + ' x' * 40
# Rule, the file that breaks it, its text (None: the file is absent), the line.
BAD = [
    (line_length, 'attention/page.cc', f'\n{LONG}\n', 2),
    (blanks, 'attention/page.cc', 'int a;\n\tint b;\n', 2),
    (blanks, 'README.md', 'Root \n', 1),
    (blanks, 'README.md', 'Root\r\n', 1),
    (blanks, 'README.md', 'Root\nend', 2),
    (include_guard, 'attention/page.h', HEADER.replace('ATTENTION', 'X'), 3),
    (include_guard, 'attention/page.h',
     HEADER.replace('#endif  // TIDEWHEEL_ATTENTION_PAGE_H_', '#endif'), 11),
    (include_guard, 'attention/page.h', '// Page.\n#pragma once\n', 1),
    (header_comment, 'attention/page.h', HEADER[HEADER.index('#'):], 1),
    (includes, 'attention/page.cc', '#include "scheduler/plan.h"\n', 1),
    (includes, 'attention/page.cc', '#include "tests/page_fake.h"\n', 1),
    (includes, 'attention/page.cc', '#include <span>\n#include "page.h"\n', 2),
    (includes, 'attention/page.cc', '#include "../attention/page.h"\n', 1),
    (machine_path, 'README.md', 'see /' 'work/shared\n', 1),
    (machine_path, 'tools/dev', 'echo > /' 'tmp/log\n', 1),
    (machine_path, 'tests/page_test.cc', 'open("/' 'home/me/trace");\n', 1),
    (unfinished, 'attention/page.cc', '\n// TO' 'DO(me): later\n', 2),
    (unfinished, 'tools/dev', '# FIX' 'ME\n', 1),
    (readmes, 'attention/README.md', None, 1),
    (readmes, 'README.md', None, 1),
    (readmes, 'attention/README.md', 'Attention\n' * 41, 41),
    (file_size, 'attention/page.h',
     HEADER.replace('struct Page {};\n', 'struct Page {};\n' * 242), 251),
    (file_size, 'attention/page.cc', 'int a;\n' * 601, 601),
    (empty_names, 'attention/page.cc', 'class PageManager {};\n', 1),
    (empty_names, 'attention/page.cc', 'struct PageInfoCache {};\n', 1),
    (empty_names, 'attention/page_util.cc', 'int a;\n', 1),
    (executables, 'tools/dev', None, 1),
]


def make_tree(folder, files):
  for path, text in files.items():
    if text is None:
      continue
    target = pathlib.Path(folder) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding='utf-8', newline='')
    target.chmod(0o755 if path in EXECUTABLES else 0o644)
  return Tree(folder)


class SelfTest(unittest.TestCase):

  def test_good_tree_has_no_finding(self):
    with tempfile.TemporaryDirectory() as folder:
      self.assertEqual(check(make_tree(folder, GOOD)), [])

  def test_each_bad_tree_breaks_its_rule_alone(self):
    for rule, path, text, line in BAD:
      with self.subTest(rule=rule.__name__, path=path, line=line):
        with tempfile.TemporaryDirectory() as folder:
          found = check(make_tree(folder, {**GOOD, path: text}))
        self.assertEqual([f[:3] for f in found], [(path, line, rule.__name__)])

  def test_a_lost_execute_bit_is_found(self):
    with tempfile.TemporaryDirectory() as folder:
      tree = make_tree(folder, GOOD)
      (tree.root / 'tools/dev').chmod(0o644)
      self.assertEqual([f[:3] for f in check(tree)],
                       [('tools/dev', 1, 'executables')])

  def test_every_rule_has_a_bad_tree(self):
    self.assertEqual({rule for rule, *_ in BAD}, set(RULES))

  def test_names_that_only_begin_alike_are_fine(self):
    with tempfile.TemporaryDirectory() as folder:
      text = 'class Utilization {};\nstruct Database {};\n'
      self.assertEqual(
          check(make_tree(folder, {**GOOD, 'attention/page.cc': text})), [])


def main():
  if sys.argv[1:] == ['--self-test']:
    unittest.main(argv=sys.argv[:1])
  if len(sys.argv) != 2:
    sys.exit(__doc__)
  tree = Tree(sys.argv[1])
  warn_of_sizes(tree)
  findings = check(tree)
  for path, line, rule, text in findings:
    print(f'{path}:{line}: {rule}: {text}')
  print(f'{len(findings)} findings in {len(tree.files)} files')
  sys.exit(1 if findings else 0)


if __name__ == '__main__':
  main()
