"""Files of labelled examples that are wrong in one place: noised-train refuses each with one line that names the file, where
there are lines the line, and has these words; nothing is written."""
import os
import shutil
import subprocess
import tempfile

from hostile import BUILD, Report, TREE, cases

NAMES = {"jsonl": "data.jsonl", "tsv": "data.tsv", "cola": "data.txt", "trec": "data.txt", "conll": "data.txt",
         "idx": "train-images-idx3-ubyte"}
INIT = {"idx": "tests/golden/task_vit"}


def finetune(folder, case):
    path = os.path.join(folder, NAMES[case["format"]])
    with open(path, "wb") as f:
        f.write(case["bytes"].encode("latin-1") if "bytes" in case else case["text"].encode())
    if case.get("labels") is not None:
        with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as f:
            f.write(case["labels"].encode("latin-1"))
    init, out = os.path.join(TREE, INIT.get(case["format"], "weights/demo")), os.path.join(folder, "out")
    done = subprocess.run([os.path.join(BUILD, "noised-train"), "finetune", "--train", path, "--format", case["format"],
                           "--init", init, "--out", out, "--threads", "1"], capture_output=True, timeout=120)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace"), os.path.exists(out)


def run(quick):
    report = Report("labelled")
    for case in cases("labelled", quick):
        folder = tempfile.mkdtemp()
        status, text, written = finetune(folder, case)
        name = folder if case["format"] == "idx" else NAMES[case["format"]]  # of two files one is to blame
        right = status == 1 and not written and name in text and all(word in text for word in case["says"])
        report.check(case["name"], right, f"{status}, not 1 {case['says']}{', written' if written else ''}: {text[:300]!r}")
        shutil.rmtree(folder)
    return report.end()
