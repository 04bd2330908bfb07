"""The data of docs/uncertainty.md: what networks learn, are scaled on and asked, and what is foreign to them."""
import base64
import json
import os
import struct
import zlib

import fetch_mnist
import papers

TREC = "trec", "TREC.train.txt", "TREC.test.txt"
SENTENCES = "glue", "stsa.binary.train", "stsa.binary.dev", "stsa.binary.test"


class Set:
    """train, dev: files that the trainer reads; asked: {split: [(input of /v1/classify, its label)]}, of the split
    `foreign` with None for labels; config: what its networks have beside those of the others."""

    def __init__(self, name, labels, train, dev, asked, epochs, rate, config):
        self.name, self.labels, self.train, self.dev, self.asked = name, labels, train, dev, asked
        self.epochs, self.rate, self.config = epochs, rate, config


def folder_of(name):
    path = os.path.join(papers.RUNS, "uncertainty", name, "data")
    os.makedirs(path, exist_ok=True)
    return path


# ---- texts ----


def read(files, page):
    """[[(label, text)] of each file]: of TREC's labels the first half, of the Stanford sentences 0 and 1."""
    folder, *names = files
    root = papers.data(folder, *names, page=page)
    for name in names:
        with open(os.path.join(root, name), encoding="latin-1" if folder == "trec" else "utf-8") as f:
            rows = [line.strip().split(" ", 1) for line in f]
        yield [(label.split(":")[0], text) for label, text in rows]


def questions():
    return read(TREC, "https://cogcomp.seas.upenn.edu/Data/QA/QC/")


def reviews():
    return read(SENTENCES, "https://nlp.stanford.edu/sentiment/")


def of_texts(name, train, dev, test, foreign, epochs):
    paths = []
    for part, rows in (("train", train), ("dev", dev)):
        paths.append(os.path.join(folder_of(name), f"{part}.jsonl"))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": text, "label": label}) + "\n" for label, text in rows)
    asked = {part: [(text, label) for label, text in rows] for part, rows in (("dev", dev), ("test", test))}
    asked["foreign"] = [(text, None) for _, text in foreign]
    return Set(name, sorted({label for label, _ in train}), *paths, asked, epochs, "1e-3",
               {"task": "text-classification", "max_position_embeddings": 128, "pool": "mean"})


def trec():
    (train, test), (_, foreign, _) = questions(), reviews()
    return of_texts("TREC", train[:-500], train[-500:], test, foreign[:500], 10)


def sst2():
    (train, dev, test), (_, foreign) = reviews(), questions()
    return of_texts("SST-2", train[:3000], dev[:500], test[:500], foreign[:250], 5)


# ---- images ----


def png(pixels):
    """28 x 28 grey pixels as a data URL."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[28 * y:28 * y + 28] for y in range(28))
    data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return {"image": "data:image/png;base64," + base64.b64encode(data).decode()}


def images(path):
    """(label, pixels) of each."""
    with open(path, "rb") as f, open(path.replace("images-idx3", "labels-idx1"), "rb") as g:
        pixels, labels = f.read()[16:], g.read()[8:]
    return [(str(label), pixels[784 * i:784 * i + 784]) for i, label in enumerate(labels)]


def turned(pixels):
    """By a quarter, clockwise."""
    return bytes(pixels[28 * (27 - x) + y] for y in range(28) for x in range(28))


def mnist():
    folder = fetch_mnist.mnist()
    cut = {}
    for name, part, skip, n in (("train", "train", 0, 4000), ("dev", "train", 4000, 500), ("test", "t10k", 0, 1000)):
        out = os.path.join(folder_of("MNIST"), name)
        os.makedirs(out, exist_ok=True)
        cut[name] = fetch_mnist.some_images(folder, part, n, out, skip)
    asked = {part: [(png(pixels), label) for label, pixels in images(cut[part])] for part in ("dev", "test")}
    # of 0, 1 and 8 some stay what they are, and some become strokes that no digit is
    asked["foreign"] = [(png(turned(pixels)), None) for label, pixels in images(cut["test"])[:400] if label not in "018"]
    return Set("MNIST", list("0123456789"), cut["train"], cut["dev"], asked, 12, "3e-3",
               {"task": "image-classification", "max_position_embeddings": 17, "pool": "first",
                "input": {"kind": "patches", "image_size": [28, 28], "channels": 1, "patch_size": 7}})


ALL = {"trec": trec, "sst2": sst2, "mnist": mnist}
