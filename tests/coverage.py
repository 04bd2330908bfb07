"""Lines and branches that were taken, by room and file, of what a build with SAN=coverage has counted."""
import json
import subprocess
import sys

ROOMS = 'server', 'weights', 'tokenizer', 'base', 'trainer'
# A bug's branch is taken by no program that has none; what aborts does not write its counts.
ASSERTIONS = r'.*\bBUG_ON\('


def counted(build, *options):
    """[{file, lines, lines taken, branches, branches taken}]."""
    filters = [word for room in ROOMS for word in ('--filter', f'{room}/')]
    said = subprocess.run(['gcovr', '--root', '.', '--object-directory', build, *filters, '--json-summary',
                           '--gcov-ignore-parse-errors', *options, build], capture_output=True, text=True)
    if said.returncode:
        sys.exit(said.stderr)
    return [{'name': f['filename'], **{k: f[k] for k in KINDS}} for f in json.loads(said.stdout)['files']]


KINDS = 'line_covered', 'line_total', 'branch_covered', 'branch_total'


def total(name, rows):
    return {'name': name, **{k: sum(r[k] for r in rows) for k in KINDS}}


def show(row):
    shares = [100 * row[f'{kind}_covered'] / row[f'{kind}_total'] if row[f'{kind}_total'] else 100
              for kind in ('line', 'branch')]
    left = row['branch_total'] - row['branch_covered']
    print(f'| {row["name"]} | {row["line_total"]} | {shares[0]:.1f} % | {row["branch_total"]} | {shares[1]:.1f} % | {left} |')


def main(build):
    files, bare = counted(build, '--exclude-branches-by-pattern', ASSERTIONS), counted(build)
    print('| | lines | taken | branches | taken | never |\n|---|---:|---:|---:|---:|---:|')
    for room in ROOMS:
        within = [f for f in files if f['name'].startswith(room + '/')]
        if not within:
            continue
        show(total(room, within))
        show(total(f'{room}, assertions too', [f for f in bare if f['name'].startswith(room + '/')]))
        for f in sorted(within, key=lambda f: f['name']):
            show(f)


if __name__ == '__main__':
    main(sys.argv[1])
