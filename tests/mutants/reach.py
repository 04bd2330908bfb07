"""Which test takes which functions, by the counters of a build with SAN=coverage: each test runs alone, and what it and
the programs that it starts have counted is read from the files that gcov leaves."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FUNCTION, ARCS, HEADER = 0x01000000, 0x01a10000, 16
LONGEST = 15  # seconds: what takes longer judges no mutant
FOLDERS = 'base', 'tokenizer', 'weights', 'model', 'server', 'trainer', 'fuzz'


def records(data):
    """(tag, bytes) of a file of gcov; a negative length stands for counters that are all 0."""
    at = HEADER
    while at + 8 <= len(data):
        tag, length = struct.unpack_from('<Ii', data, at)
        yield tag, data[at + 8:at + 8 + max(length, 0)]
        at += 8 + max(length, 0)


def names(notes):
    """{ident: function} of a .gcno."""
    data = notes.read_bytes()
    at = HEADER + 4 + struct.unpack_from('<i', data, HEADER)[0] + 4  # behind the folder it was compiled in
    found = {}
    while at + 8 <= len(data):
        tag, length = struct.unpack_from('<Ii', data, at)
        if tag == FUNCTION:
            ident, _, _, n = struct.unpack_from('<IIIi', data, at + 8)
            found[ident] = data[at + 24:at + 24 + n].split(b'\0')[0].decode().split('.')[0]
        at += 8 + max(length, 0)
    return found


def taken(counters, build, known):
    """{'file function': which of its counted branches, as bits}, of all that was entered, by the files below."""
    found = {}
    for path in counters.rglob('*.gcda'):
        file = str(path).split(f'/{build}/')[-1][:-5]
        if file not in known:
            known[file] = names(Path(build, file + '.gcno'))
        ident = None
        for tag, body in records(path.read_bytes()):
            if tag == FUNCTION:
                ident = struct.unpack_from('<I', body)[0] if body else None
            elif tag == ARCS and any(body) and ident in known[file]:
                n = len(body) // 8
                bits = sum(1 << i for i, count in enumerate(struct.unpack(f'<{n}Q', body)) if count)
                name = f'{file}.c {known[file][ident]}'
                found[name] = found.get(name, 0) | bits
    return found


def tests():
    """{name: file} of all there are."""
    return {name: str(path) for folder in FOLDERS for path in sorted(Path('tests', folder).rglob('*.c'))
            for name in re.findall(r'^TEST\((\w+)\)', path.read_text(), re.M)}


def run_test(name, build, known):
    folder = Path(tempfile.mkdtemp(prefix='reach-', dir=build))
    environment = dict(os.environ, BUILD=build, GCOV_PREFIX=str(folder.resolve()), TMPDIR=str(folder.resolve()))
    begin = time.monotonic()
    process = subprocess.Popen([f'{build}/run-tests', name], env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        ok = f'ok   {name} ' in process.communicate(timeout=LONGEST)[0].decode(errors='replace')
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ok = False
    seconds = time.monotonic() - begin
    functions = taken(folder, build, known) if ok else {}
    shutil.rmtree(folder, ignore_errors=True)
    return {'seconds': round(seconds, 2), 'ok': ok, 'made': time.time(), 'functions': functions}


def reach(build, at_once):
    """{test: what run_test found}, kept in the build folder; only tests that changed since run again."""
    kept = Path(build, 'reached.json')
    known, found = {}, json.loads(kept.read_text()) if kept.exists() else {}
    there = tests()
    found = {name: entry for name, entry in found.items() if name in there}
    wanted = [name for name, file in there.items()
              if name not in found or os.path.getmtime(file) > found[name]['made']]
    with ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda name: run_test(name, build, known), wanted)
        for i, (name, entry) in enumerate(zip(wanted, results)):
            found[name] = entry
            if i % 20 == 19 or i + 1 == len(wanted):
                kept.with_suffix('.new').write_text(json.dumps(found))
                kept.with_suffix('.new').rename(kept)
                print(f'{i + 1} of {len(wanted)} tests looked at', flush=True)
    return found
