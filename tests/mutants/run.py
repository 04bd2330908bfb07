#!/usr/bin/env python3
"""make mutants: plants one small fault at a time (faults.py) and asks whether the suite notices.

    tests/mutants/run.py [ONLY [COUNT]]    of the COUNT (420) mutants those whose file's path begins with ONLY

A copy of the tree is built in build-mutants/. Each mutant is compiled and linked there, and the tests that enter its
function (reach.py) run, quickest first, until one fails; what hangs, crashes or does not start has failed too. A mutant
that lives through the ordinary build meets the same tests in the build with SAN=address, and one without its lock those
in SAN=thread. What was found is kept in build-mutants/results.json, so that a run that was cut off goes on: a verdict
stands until the function changes, that of a mutant that lived until a test does. equivalent.txt lists those that no test
can tell from the program, each with its reason."""
import hashlib
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import faults
import reach

ROOMS = ('server/gate', 'server/api', 'server/engine', 'weights', 'tokenizer', 'trainer/optimizer', 'base/atomic_file')
WORK = Path('build-mutants')
TREE = WORK / 'tree'
BUILDS = {'': 'build', 'address': 'build-address', 'thread': 'build-thread'}
SLOWER = {'': 1, 'address': 4, 'thread': 8}
STAGES = ['', 'address']  # the builds that a mutant meets, one without a lock aside
SECONDS, FEW = 60, 5  # of tests for one mutant, by their times in the build that counts; so many more in any case
PATIENCE = 15  # a hang is a test that takes five times as long as it should, and these seconds
KNOWN = 'killed', 'lived', 'equivalent', 'does not compile'


def sh(command, **options):
    return subprocess.run(command, shell=True, text=True, capture_output=True, **options)


def digest(*texts):
    return hashlib.sha256('\0'.join(texts).encode()).hexdigest()[:16]


def make_tree(sanitizer):
    """The files that git knows, those changed since the last time, and what is built of them."""
    names = sh('git ls-files -co --exclude-standard').stdout.split('\n')
    for gone in {str(p.relative_to(TREE)) for p in TREE.rglob('*.[ch]')} - set(names):
        if not gone.startswith('build'):
            (TREE / gone).unlink()
    for name in names:
        source, target = Path(name), TREE / name
        if not source.is_file():
            continue
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copy if target.exists() else shutil.copy2)(source, target)
    made = sh(f'make -s -j2 {"SAN=" + sanitizer if sanitizer else ""} all {BUILDS[sanitizer]}/run-tests', cwd=TREE)
    if made.returncode:
        sys.exit(f'the tree does not build:\n{made.stdout}{made.stderr}')


def commands(file, sanitizer):
    """What make would compile and link if the file were another one."""
    says = sh(f'make -n -s V=1 -W {file} {"SAN=" + sanitizer if sanitizer else ""} all {BUILDS[sanitizer]}/run-tests',
              cwd=TREE).stdout
    lines = [line for line in says.split('\n') if re.search(r'-o build\S*/\S+', line)]
    linker = ' -Wl,--strip-debug' + (' -fuse-ld=mold' if shutil.which('mold') else '')
    if len(lines) > 6:
        sys.exit(f'{TREE} is not built: {lines[0][-200:]}')
    return 'set -e\n' + '\n'.join(line + (' -w -O1' if f'-c {file}' in line else linker) for line in lines)


class Tests:
    """The suite, as the build that counts has seen it."""

    def __init__(self, found):
        self.found = found
        self.home = {name: str(Path(file).parent.relative_to('tests')) for name, file in reach.tests().items()}

    def cover(self, left, functions):
        """Takes from `left` the tests that together take every branch of the functions that any of them takes, one by
        one by what is new for the time."""
        taken, seen = [], dict.fromkeys(functions, 0)
        while left:
            new = {t: sum(bin(self.found[t]['functions'].get(f, 0) & ~seen[f]).count('1') for f in functions) /
                   (self.found[t]['seconds'] + 0.1) for t in left}
            best = max(left, key=new.get)
            if not new[best]:
                break
            taken.append(best)
            left.remove(best)
            for f in functions:
                seen[f] |= self.found[best]['functions'].get(f, 0)
        return taken

    def of(self, mutant):
        """Names in batches that run in one process each, of the tests that enter the function: those first that take all
        its branches, then those that take all of its file's, whose business it may be, then all others, those of its
        room and the quickest first."""
        entered = f'{mutant.file} {mutant.function}'
        some = [t for t, e in self.found.items() if entered in e['functions']]
        near = {f for t in some for f in self.found[t]['functions'] if f.startswith(mutant.file + ' ')}
        first = self.cover(some, [entered]) + self.cover(some, near)
        batches, seconds, limit = [[name] for name in first] + [[]], 0, 1
        rest = sorted(some, key=lambda t: (not mutant.file.startswith(self.home[t] + '/'), self.found[t]['seconds']))
        for i, name in enumerate(rest):
            seconds += self.found[name]['seconds']
            if seconds > SECONDS and i >= FEW:
                break
            if seconds > limit:
                batches.append([])
                limit *= 4
            batches[-1].append(name)
        return [b for b in batches if b]

    def slowest(self, batch):
        return max(self.found[name]['seconds'] for name in batch)


def limits():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end(process, mark):
    """And all that it has started, in whatever session: they have the mark in their environment."""
    for path in Path('/proc').glob('[0-9]*/environ'):
        try:
            if mark in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            pass
    process.wait()


def failing(batch, sanitizer, slowest):
    """The first test of the batch that fails, or what else happened; None: all pass."""
    scratch = (WORK / 'tmp').resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    build = BUILDS[sanitizer]
    environment = dict(os.environ, BUILD=build, TMPDIR=str(scratch))
    if sanitizer == 'thread':
        environment['OMP_NUM_THREADS'] = '1'
    process = subprocess.Popen([f'{build}/run-tests', *batch], cwd=TREE, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, preexec_fn=limits)
    told, verdict = b'', None
    while verdict is None:
        if not select.select([process.stdout], [], [], PATIENCE + 5 * SLOWER[sanitizer] * slowest)[0]:
            verdict = 'hangs'
            break
        piece = os.read(process.stdout.fileno(), 1 << 16)
        told += piece
        failed = [n for n in re.findall(rb'^FAIL (\w+)', told, re.M) if n.decode() in batch]
        if failed:
            verdict = failed[0].decode()
        elif not piece:
            process.wait()
            whole = re.search(rb'^\d+ passed, (\d+) failed', told, re.M)
            verdict = '' if whole else 'crashes'
    end(process, f'TMPDIR={scratch}'.encode())
    return verdict or None


def kill(mutant, tests, sanitizer):
    """By which test, or None. A test that fails once and then passes is not believed."""
    for batch in tests.of(mutant):
        left = batch
        while left:
            by = failing(left, sanitizer, tests.slowest(left))
            if by is None:
                break
            if by in left and failing([by], sanitizer, tests.slowest([by])) is None:
                left = [name for name in left if name != by]
                continue
            return by
    return None


class Built:
    """A file of the copied tree in one build: written, compiled and linked as a mutant, and put back in the end."""

    def __init__(self, file, sanitizer):
        self.file, self.sanitizer = TREE / file, sanitizer
        self.text = self.file.read_text()
        self.command = commands(file, sanitizer)

    def write(self, text):
        self.file.write_text(text)
        return sh('sh', input=self.command, cwd=TREE)

    def put_back(self):
        back = self.write(self.text)
        if back.returncode:
            sys.exit(f'{self.file} does not compile any more:\n{back.stderr}')


def judge(mutant, tests, builds):
    """(verdict, by which test)."""
    for sanitizer in ['thread'] if mutant.fault == 'no lock' else STAGES:
        built = builds.setdefault(sanitizer, None) or Built(mutant.file, sanitizer)
        builds[sanitizer] = built
        if built.write(faults.apply(mutant, built.text)).returncode:
            return 'does not compile', ''
        by = kill(mutant, tests, sanitizer)
        if by:
            return 'killed', f'{by} ({sanitizer})' if sanitizer else by
    return 'lived', ''


def equivalents():
    """{key: reason}: a mutant's line, and the reason behind it, indented."""
    found, key = {}, None
    for line in Path(__file__).with_name('equivalent.txt').read_text().split('\n'):
        if line.startswith('    '):
            found[key] = (found.get(key, '') + ' ' + line.strip()).strip()
        elif line and not line.startswith('#'):
            key = line
    return found


def stands(entry, mutant, suite):
    """Whether what was found the last time still holds."""
    return entry and entry['within'] == mutant.within and entry['verdict'] in KNOWN and \
        (entry['verdict'] != 'lived' or entry['suite'] == suite)


def main(only, count):
    for sanitizer in BUILDS:
        make_tree(sanitizer)
    files = [file for file in sh('git ls-files "*.c"').stdout.split() if file.startswith(ROOMS)]
    all_of_file = {file: faults.mutants(file, (TREE / file).read_text()) for file in files}
    chosen = [m for m in faults.choose(all_of_file, count) if m.file.startswith(only)]
    tests = Tests(reach.reach('build-coverage', 2))
    suite = digest(*(Path(f).read_text() for f in sorted(set(reach.tests().values()))))
    kept = WORK / 'results.json'
    results = json.loads(kept.read_text()) if kept.exists() else {}
    same = equivalents()
    for file in files:
        builds = {}
        for m in [m for m in chosen if m.file == file]:
            if m.key in same or stands(results.get(m.key), m, suite):
                continue
            verdict, by = judge(m, tests, builds)
            results[m.key] = {'verdict': verdict, 'by': by, 'fault': m.fault, 'within': m.within, 'suite': suite}
            kept.with_suffix('.new').write_text(json.dumps(results, indent=1))
            kept.with_suffix('.new').rename(kept)
            print(f'{verdict:8} {m.key}{" by " + by if by else ""}', flush=True)
        for built in builds.values():
            built.put_back()
    table(chosen, results, same)


def table(chosen, results, same):
    """What docs/reliability.md shows."""
    rows = {}
    for m in chosen:
        verdict = 'equivalent' if m.key in same else results[m.key]['verdict']
        room = next((r for r in ROOMS if m.file.startswith(r)), m.file)
        rows.setdefault(room, dict.fromkeys(KNOWN, 0))[verdict] += 1
    rows['all'] = {v: sum(r[v] for r in rows.values()) for v in KNOWN}
    print('| room | mutants | killed | equivalent | lived |\n|---|---:|---:|---:|---:|')
    for room, r in rows.items():
        n = r['killed'] + r['equivalent'] + r['lived']
        print(f'| {room} | {n} | {r["killed"]} | {r["equivalent"]} | {r["lived"]} |')


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else '', int(sys.argv[2]) if len(sys.argv) > 2 else 420)
