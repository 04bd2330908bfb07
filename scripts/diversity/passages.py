"""passages.py TRAIN DEV BOOK...: labelled passages as jsonl, from which a classifier learns to tell the books apart.
DEV has passages of the last 5% of each book, which nothing is trained on."""
import json
import os
import sys

PER_BOOK, WORDS = 2000, (12, 16, 24, 32)


def passages(words, n):
    """n of them, evenly spaced, as long as half a text of the study or a whole one."""
    for i in range(n):
        length = WORDS[i % len(WORDS)]
        at = i * max(0, len(words) - length) // n
        yield " ".join(words[at : at + length])


def write(path, books, low, high, n):
    with open(path, "w", encoding="utf-8") as f:
        for book in books:
            with open(book, encoding="utf-8", errors="replace") as b:
                text = b.read()
            words = text[int(low * len(text)) : int(high * len(text))].split()
            for passage in passages(words, n):
                f.write(json.dumps({"text": passage, "label": os.path.basename(book).removesuffix(".txt")}) + "\n")


def main():
    train, dev, *books = sys.argv[1:]
    write(train, books, 0, 0.95, PER_BOOK)
    write(dev, books, 0.95, 1, PER_BOOK // 10)


if __name__ == "__main__":
    main()
