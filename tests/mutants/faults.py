"""The small faults that a person might write into a C source: each a Mutant, found by the form of the text.

What clang-format has written is read line by line: a function begins at the margin and ends with a brace there.
Not touched are assertions (BUG_ON: a stricter one shows only where it is reached), what is only said (log lines), and
what is given back (free: leaks are what SAN=address looks for)."""
import hashlib
import re
from typing import NamedTuple

OPAQUE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
FUNCTION = re.compile(r'^(?!typedef|struct|enum|union)[a-zA-Z_][\w *]*?\b(\w+)\([^;{}]*\)\s*\{', re.M)
OTHER = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '&&': '||', '||': '&&',
         '+': '-', '-': '+', '+=': '-=', '-=': '+='}
SWAPPED = re.compile(r'(?<=[\w\])\'" \n]) ?(?<= )(<=|>=|<|>|==|!=|&&|\|\||\+=|-=|\+|-)(?=[ \n])')
NEGATION = re.compile(r'!(?=[\w(*])')
TRUTH = re.compile(r'\bif \((?=[\w*>.\[\]-]+(?:\([^()]*\))?\) )')
LEAVING = re.compile(r'\b(?:return\b[^;{}]*|goto \w+|break|continue);')
CALL = re.compile(r'(?<=[;{})])\s+((?!return\b|if\b|for\b|while\b|switch\b|else\b|BUG_ON\b|va_\w+\b|log_|free\b|\w+_free\b|'
                  r'fclose\b|munmap\b|\w+_destroy\b)[a-z]\w*\([^;{}]*\);)')
LOCK = re.compile(r'\b(pthread_mutex_lock|\w+_lock|lock)\(([^;()]*)\);')


class Mutant(NamedTuple):
    file: str
    function: str
    fault: str
    before: str  # the lines it is in, as one line
    after: str
    start: int
    end: int
    text: str  # what stands there instead
    within: str  # which text of the function this is a mutant of

    @property
    def key(self):
        """Stays when lines move, and says all: file, function, what was written instead."""
        return f'{self.file} {self.function}: {self.before} => {self.after}'

    @property
    def rank(self):
        return hashlib.sha256(self.key.encode()).hexdigest()


def blank(text):
    """The same text without comments, strings and directives; every position stays."""
    return OPAQUE.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)


def closing(code, at, opening='{', end='}'):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == opening) - (code[i] == end)
        if not depth:
            return i
    raise ValueError('no end')


def functions(code):
    for m in FUNCTION.finditer(code):
        yield m[1], m.end(), closing(code, m.end() - 1)


def assertions(code):
    return [(m.start(), closing(code, m.end() - 1, '(', ')')) for m in re.finditer(r'\bBUG_ON\(', code)]


def edits(code):
    """(fault, start, end, text) for a function's body."""
    for m in SWAPPED.finditer(code):
        fault = 'bound' if m[1][0] in '<>' else 'condition' if m[1] in ('==', '!=') else \
            'logic' if m[1][0] in '&|' else 'sign'
        yield fault, m.start(1), m.end(1), OTHER[m[1]]
    for m in NEGATION.finditer(code):
        yield 'negation', m.start(), m.end(), ''
    for m in TRUTH.finditer(code):
        yield 'negation', m.end(), m.end(), '!'
    for m in re.finditer(r'\bif \(', code):
        end = closing(code, m.end() - 1, '(', ')') + 1
        left = LEAVING.match(code, end + len(code[end:]) - len(code[end:].lstrip()))
        if left:
            yield 'no return', left.start(), left.end(), ';'
    for m in CALL.finditer(code):
        if not LOCK.match(m[1]) and 'unlock' not in m[1]:
            yield 'no call', m.start(1), m.end(1), ';'


def one_line(text):
    return re.sub(r'\s+', ' ', text).strip()


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mutant(file, function, text, edit, within):
    fault, start, end, new = edit
    first, last = text.rfind('\n', 0, start) + 1, text.find('\n', end)
    return Mutant(file, function, fault, one_line(text[first:last]),
                  one_line(text[first:start] + new + text[end:last]), start, end, new, within)


def unlocked(file, function, text, code, begin, end):
    """A mutant for each thing that the function locks: the same without."""
    for what in sorted(set(m[2] for m in LOCK.finditer(code, begin, end))):
        pair = re.compile(r'\b\w*lock\(' + re.escape(what) + r'\);')
        yield Mutant(file, function, 'no lock', f'lock({what})', '', begin, end, pair.sub(';', text[begin:end]),
                     digest(text[begin:end]))


def mutants(file, text):
    """All of a file's."""
    code = blank(text)
    asserted = assertions(code)
    found = {}
    for function, begin, end in functions(code):
        body = ' ' * begin + code[begin:end]
        some = [mutant(file, function, text, e, digest(text[begin:end])) for e in edits(body)
                if not any(a <= e[1] < b for a, b in asserted)]
        for m in some + list(unlocked(file, function, text, code, begin, end)):
            found.setdefault(m.key, m)
    return list(found.values())


def apply(m, text):
    return text[:m.start] + m.text + text[m.end:]


def choose(all_of_file, count):
    """`count` of the mutants of many files: of each file its share, and of a file those whose hashes are least."""
    total = sum(len(v) for v in all_of_file.values())
    chosen = []
    for file, found in sorted(all_of_file.items()):
        share = min(len(found), max(2, round(count * len(found) / total)))
        chosen += sorted(found, key=lambda m: m.rank)[:share]
    return chosen
