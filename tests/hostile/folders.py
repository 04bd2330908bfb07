"""Checkpoints that are wrong in one place: noised-weights verify refuses each with a message that has these words. `small`
is a golden checkpoint of one layer, `demo` that of weights/, which has a tokenizer."""
import json
import os
import shutil
import struct
import subprocess
import tempfile

from hostile import BUILD, Report, TREE, cases

BASES = {"small": ("tests/golden/gqa_all", ["config.json", "model.safetensors"]),
         "demo": ("weights/demo", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"])}
ABSENT = "(absent)"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    if os.path.islink(path):
        os.unlink(path)
    with open(path, "wb") as f:
        f.write(data)


# ---- changes of a file of JSON ----


def set_key(root, path, value):
    *parents, last = path.split(".")
    for key in parents:
        root = root[int(key)] if isinstance(root, list) else root.setdefault(key, {})
    if isinstance(root, list):
        root[int(last)] = value
    elif value == ABSENT:
        root.pop(last, None)
    else:
        root[last] = value


def edited(data, edits):
    root = json.loads(data)
    for path, value in edits.items():
        set_key(root, path, value)
    return json.dumps(root).encode()


# ---- changes of a safetensors file ----


def split(data):
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + n]), data[8 + n :]


def joined(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # or every tensor is misaligned, and that is what is told
    return struct.pack("<Q", len(text)) + text + body


def safetensors(data, change):
    header, body = split(data)
    if "length" in change:
        return struct.pack("<Q", change["length"]) + data[8:]
    if "longer" in change:
        return struct.pack("<Q", struct.unpack("<Q", data[:8])[0] + change["longer"]) + data[8:]
    if "header_text" in change:
        return joined(change["header_text"].encode(), body)
    if "tensor" in change:
        name, edit = change["tensor"]
        if edit is None:
            del header[name]
        else:
            header[name].update(edit)
            header[name] = {k: v for k, v in header[name].items() if v is not None}
    if "rename" in change:
        header[change["rename"][1]] = header.pop(change["rename"][0])
    if "add" in change:
        name, shape = change["add"]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 16]}
        body += bytes(16)
    if "float" in change:
        name, value = change["float"]
        at = header[name]["data_offsets"][0]
        body = body[:at] + struct.pack("<f", float(value)) + body[at + 4 :]
    if "metadata" in change:
        header["__metadata__"] = change["metadata"]
    if "flip" in change:
        at = change["flip"] % len(body)
        return data[: len(data) - len(body)] + body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
    return joined(header, body)


# ---- a folder ----


def changed(path, change):
    """The new bytes of a file."""
    if "text" in change:
        return change["text"].encode()
    data = read(path)
    if "cut" in change:
        return data[: change["cut"]]
    if "append" in change:
        return data + change["append"].encode()
    if "bytes" in change:
        for at, value in change["bytes"].items():
            data = data[: int(at)] + bytes([value]) + data[int(at) + 1 :]
        return data
    if "replace" in change:
        return data.replace(*(w.encode() for w in change["replace"]), 1)
    if "set" in change:
        return edited(data, change["set"])
    return safetensors(data, change)


def apply(folder, change):
    if "shards" in change:
        os.rename(os.path.join(folder, "model.safetensors"), os.path.join(folder, "part.safetensors"))
        return write(os.path.join(folder, "model.safetensors.index.json"), change["shards"].encode())
    path = os.path.join(folder, change["file"])
    if not {"remove", "folder", "link"} & set(change):
        return write(path, changed(path, change))
    os.unlink(path)
    if "folder" in change:
        os.mkdir(path)
    if "link" in change:
        os.symlink(change["link"], path)


def verify(folder):
    done = subprocess.run([os.path.join(BUILD, "noised-weights"), "verify", folder], capture_output=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def run(quick):
    report, top = Report("folders"), tempfile.mkdtemp()
    for name, (source, _) in BASES.items():
        report.check(f"{name} as it is", verify(os.path.join(TREE, source))[0] == 0, "refused")
    for i, case in enumerate(cases("folders", quick)):
        source, files = BASES[case["base"]]
        folder = os.path.join(top, str(i))
        os.mkdir(folder)
        for name in files:
            os.symlink(os.path.join(TREE, source, name), os.path.join(folder, name))
        apply(folder, case["change"])
        status, text = verify(folder)
        right = status == 1 and all(word in text for word in case["says"]) and text.count("\n") == 1
        report.check(case["name"], right, f"{status}, not 1 {case['says']}: {text[:300]!r}")
        shutil.rmtree(folder)
    os.rmdir(top)
    return report.end()
