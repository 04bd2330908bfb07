"""Other servers' own tests, unmodified, against noised in the place of theirs.

LLAMA_CPP and VLLM name checkouts, STORIES a folder with llama2.c's stories260K.bin and tok512.bin, PYTHON an interpreter
with pytest, pytest-asyncio, openai, requests, numpy, jsonschema and regex. A case's name is FILE/FUNCTION, with #1, #2, ... for the values that it is asked with; one that is skipped does
not pass.
"""
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", sys.executable)
SECONDS = 1800
# All that is there but test_tool_call, whose models are downloads.
LLAMA_FILES = ["basic", "chat_completion", "completion", "ctx_shift", "embedding", "infill", "lora", "rerank", "security",
               "slot_save", "speculative", "tokenize"]
VLLM_FILES = ["basic", "chat", "chat_echo", "chat_logit_bias_validation", "chunked_prompt", "completion", "embedding", "models",
              "prompt_validation", "rerank", "return_tokens_as_ids", "tokenization"]


def missing(variables):
    """Why the suite cannot run; None where it can."""
    for variable in variables:
        if not os.environ.get(variable):
            return f"needs {variable}, a folder of theirs"
    try:
        if subprocess.run([PYTHON, "-c", "import openai, pytest, requests"], stderr=subprocess.DEVNULL).returncode:
            return f"{PYTHON} lacks pytest, openai or requests: PYTHON names another"
    except OSError as e:
        return f"PYTHON: {e}"
    return None


def lines_of(folder, environment, *arguments):
    """`ok NAME` or `not ok NAME # why` for every case that pytest collects in the folder."""
    report = os.path.join(folder, "report.xml")
    command = [PYTHON, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdout=log, stderr=log, timeout=SECONDS)
    cases, seen = [], {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        function, bracket, _ = case.get("name").partition("[")
        name = f"{case.get('classname').rpartition('test_')[2]}/{function}"
        seen[name] = seen.get(name, 0) + 1
        wrong = [child for child in case if child.tag in ("failure", "error", "skipped")]
        why = (wrong[0].get("message") or wrong[0].tag).split("\n")[0][:200] if wrong else ""
        cases.append((f"{name}#{seen[name]}" if bracket else name, why if wrong else None))
    return [f"ok {name}" if why is None else f"not ok {name} # {why}" for name, why in cases]


def llama_cpp_written():
    tests = [folder for part in ("tools", "examples")
             for folder in glob.glob(os.path.join(os.environ["LLAMA_CPP"], part, "server", "tests"))][0]
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        shutil.copytree(tests, folder, dirs_exist_ok=True)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = os.path.join(folder, "server.sh")
        with open(server, "w", encoding="utf-8") as f:  # with none of what the other interpreter is told
            f.write(f'#!/bin/sh\nunset PYTHONHOME PYTHONPATH\nexec {sys.executable} {HERE}/llama_server.py "$@"\n')
        os.chmod(server, 0o755)
        with open(os.path.join(folder, "wget.py"), "w", encoding="utf-8") as f:  # which they import; nothing is downloaded
            f.write("def download(url, out):\n    open(out, 'wb').close()\n")
        environment = {"LLAMA_SERVER_BIN_PATH": server, "PORT": str(port), "PYTHONPATH": folder}
        return lines_of(folder, environment, *[f"unit/test_{name}.py" for name in LLAMA_FILES])


def vllm_written():
    theirs = os.path.join(os.environ["VLLM"], "tests", "entrypoints", "openai")
    with tempfile.TemporaryDirectory() as folder:
        ours = os.path.join(folder, "tests", "entrypoints", "openai")
        os.makedirs(ours)
        for package in ("tests", "tests/entrypoints", "tests/entrypoints/openai"):
            with open(os.path.join(folder, package, "__init__.py"), "w", encoding="utf-8"):
                pass
        shutil.copy(os.path.join(theirs, "..", "conftest.py"), os.path.join(folder, "tests", "entrypoints"))
        for name in VLLM_FILES:
            shutil.copy(os.path.join(theirs, f"test_{name}.py"), ours)
        return lines_of(folder, {"PYTHONPATH": f"{folder}:{HERE}"}, "-p", "stand_ins", "tests")


SUITES = {"llama_cpp_written": (["LLAMA_CPP", "STORIES"], llama_cpp_written), "vllm_written": (["VLLM"], vllm_written)}
