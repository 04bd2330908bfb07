#!/usr/bin/env python3
"""What the inner loops of the ARM64 levels cost by llvm-mca's model of some processors, beside that of OpenBLAS's sgemm:
instructions and cycles a vector multiplication. A model, not a machine: every load hits, and nothing waits for memory."""
import glob
import os
import re
import subprocess
import sys

CPUS = ["neoverse-n1", "neoverse-v1", "neoverse-n2"]
MULTIPLICATION = r"(fmla|sdot|smmla|bfmlal[tb]|smull2?)\b"
LOOPS = [  # of ours: the products of the table, and who has them
    ("neon", "gemm_f32", "f32, rows of serving"),
    ("neon", "scores_f32", "f32, scores of attention"),
    ("neon", "mix_f32", "f32, mix of attention"),
    ("neon", "gemm_bf16", "bf16, widened"),
    ("neonbf16", "gemm_bf16", "bf16, BFMLALT and BFMLALB"),
    ("neon", "int8_panel", "int8, SMULL"),
    ("neondot", "int8_panel", "int8, SDOT"),
    ("neonbf16", "int8_panel", "int8, SMMLA"),
]


def loops(path, function):
    """The loops that multiply, as lists of instructions."""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    code, at, name = [], {}, ""
    for line in text.splitlines():
        label = re.match(r"[0-9a-f]+ <(.+)>:", line)
        name = label.group(1) if label else name
        instruction = re.match(r"\s+([0-9a-f]+):\s+([^/]*)", line)
        if not instruction or function not in ("", name):
            continue
        at[instruction.group(1)] = len(code)
        code.append(instruction.group(2).strip())
        back = re.match(r"(?:b\.\w+|cbn?z\s+\S+)\s+([0-9a-f]+) <", code[-1])
        if back and back.group(1) in at:
            loop = code[at[back.group(1)]:]
            if multiplications(loop) >= 8:
                yield loop


def multiplications(loop):
    return sum(bool(re.match(MULTIPLICATION, i)) for i in loop)


def cycles(loop, cpu):
    rounds = 200
    source = "\n".join(re.sub(r"\s[0-9a-f]+ <.*>", " .", i) for i in loop)
    out = subprocess.run([os.environ["MCA"], "-mtriple=aarch64", "-mcpu=" + cpu, "-mattr=+dotprod,+bf16,+i8mm",
                          f"-iterations={rounds}"], input=source, check=True, capture_output=True, text=True).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", out).group(1)) / rounds / multiplications(loop)


def show(name, path, function):
    loop = max(loops(path, function), key=lambda l: multiplications(l) / len(l))
    print(f"| {name} | {multiplications(loop)} of {len(loop)} | "
          + " | ".join(f"{cycles(loop, cpu):.2f}" for cpu in CPUS) + " |")


def main():
    build, root = sys.argv[1:]
    archive = glob.glob(root + "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblasp-r*.a")[0]
    member = "sgemm_kernel_NEOVERSEN1.o"
    subprocess.run(["aarch64-linux-gnu-ar", "x", "--output", build, archive, member], check=True)
    print("| inner loop | multiplications of instructions | " + " | ".join(CPUS) + " |")
    print("|---|--:|" + "--:|" * len(CPUS))
    show("OpenBLAS, sgemm", f"{build}/{member}", "")
    for level, function, what in LOOPS:
        show(f"`{level}`, {what}", f"{build}/model/kernels/{level}.o", function)


main()
