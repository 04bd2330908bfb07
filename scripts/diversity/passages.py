"""passages.py TRAIN DEV BOOK...: labelled passages as jsonl, from which a classifier learns to tell the books apart, or
where their names are AUTHOR--WORK.txt the authors. DEV has passages of the last 5% of each book, which nothing is trained
on."""
import collections
import json
import os
import sys

PER_LABEL, WORDS = 2000, (12, 16, 24, 32)


def passages(words, n):
    """n of them, evenly spaced, as long as half a text of the study or a whole one."""
    for i in range(n):
        length = WORDS[i % len(WORDS)]
        at = i * max(0, len(words) - length) // n
        yield " ".join(words[at : at + length])


def label(book):
    return os.path.basename(book).removesuffix(".txt").split("--")[0]


def write(path, books, low, high, n):
    works = collections.Counter(map(label, books))
    with open(path, "w", encoding="utf-8") as f:
        for book in books:
            with open(book, encoding="utf-8", errors="replace") as b:
                text = b.read()
            words = text[int(low * len(text)) : int(high * len(text))].split()
            for passage in passages(words, n // works[label(book)]):
                f.write(json.dumps({"text": passage, "label": label(book)}) + "\n")


def main():
    train, dev, *books = sys.argv[1:]
    write(train, books, 0, 0.95, PER_LABEL)
    write(dev, books, 0.95, 1, PER_LABEL // 10)


if __name__ == "__main__":
    main()
