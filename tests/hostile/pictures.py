"""PNGs to a daemon that classifies grey pictures of 4 by 6 pixels: a 200, or a 400 that names `input`. A case is a list of
chunks (type, its data in hexadecimal, what is wrong with it) behind the signature; `scanlines` are deflated into IDAT."""
import base64
import json
import os
import shutil
import struct
import tempfile
import zlib

from folders import edited, joined, read, split, write
from hostile import Report, TREE, cases, daemon, post

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, data, wrong=None):
    crc = zlib.crc32(kind + data) ^ (1 if wrong == "crc" else 0)
    size = {"longer": len(data) + 1, "shorter": max(len(data) - 1, 0), "huge": 2**31 - 1, "negative": 2**32 - 1}
    return struct.pack(">I", size.get(wrong, len(data))) + kind + data + struct.pack(">I", crc)


def header(width, height, depth, colour, compression=0, filtering=0, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, compression, filtering, interlace))


def picture(case):
    data = SIGNATURE if "signature" not in case else bytes.fromhex(case["signature"])
    for part in case["chunks"]:
        if part[0] == "IHDR" and isinstance(part[1], list):
            data += header(*part[1])
        elif part[0] == "scanlines":  # bytes that are deflated; repeated so many times
            data += chunk(b"IDAT", zlib.compress(bytes.fromhex(part[1]) * part[2]))
        elif part[0] == "zeros":  # a chunk of nothing but these, deflated behind a prefix
            data += chunk(part[1].encode(), bytes.fromhex(part[2]) + zlib.compress(bytes(part[3]), 9))
        elif part[0] == "raw":
            data += bytes.fromhex(part[1])
        else:
            data += chunk(part[0].encode("latin-1"), bytes.fromhex(part[1]), *part[2:])
    return data[: case["cut"]] if "cut" in case else data


def url(case):
    if "url" in case:
        return case["url"]
    return "data:image/png;base64," + base64.b64encode(picture(case)).decode()


def grey_model():
    """The golden network of two channels, with one."""
    folder, source = tempfile.mkdtemp(), os.path.join(TREE, "tests/golden/task_vit")
    write(os.path.join(folder, "config.json"), edited(read(os.path.join(source, "config.json")), {"input.channels": 1}))
    tensors, body = split(read(os.path.join(source, "model.safetensors")))
    metadata, made, data = tensors.pop("__metadata__", None), {}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = tensor["data_offsets"]
        if tensor["shape"] == [12, 8]:  # of a patch: hidden, channels * 2 * 2
            tensor, end = {**tensor, "shape": [12, 4]}, start + (end - start) // 2
        made[name] = {**tensor, "data_offsets": [len(data), len(data) + end - start]}
        data += body[start:end]
    del metadata
    write(os.path.join(folder, "model.safetensors"), joined(made, data))
    return folder


def run(quick):
    del quick
    report, folder = Report("pictures"), grey_model()
    with daemon(folder) as port:
        for case in cases("pictures"):
            status, text = post(port, json.dumps({"input": {"image": url(case)}}).encode(), "/v1/classify")
            shown = text.decode(errors="replace")
            right = status == case["status"] and (status == 200 or '"param":"input' in shown)
            report.check(case["name"], right and all(word in shown for word in case.get("says", [])),
                         f"{status}, not {case['status']} {case.get('says', '')}: {shown[:300]}")
    shutil.rmtree(folder)
    return report.end()
