"""What the families share: a daemon to talk to, the cases of a file, and what was not as it should be."""
import contextlib
import http.client
import json
import os
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TREE, os.environ.get("BUILD", "build"))
PATIENCE = 240  # seconds for anything to start or to end, a build with a sanitizer too


def cases(family, quick=False):
    """All of a family, or every eighth: for those that start a program each."""
    with open(os.path.join(HERE, family + ".jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f][:: 8 if quick else 1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, is_there):
    until = time.monotonic() + PATIENCE
    while not is_there():
        if time.monotonic() > until:
            raise SystemExit(f"hostile: {what} does not get ready")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def started(arguments, port, what, **more):
    """A program of somebody's that listens."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        wait_for(what, lambda: listens(port) or process.poll() is not None)
        if process.poll() is not None:
            raise SystemExit(f"hostile: {what} ended with {process.returncode}: {' '.join(arguments)}")
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextlib.contextmanager
def daemon(folder, *options):
    """noised over a folder; its port. That it is alive and as it was is checked at the end."""
    port = free_port()
    arguments = [os.path.join(BUILD, "noised"), "--model", folder, "--port", str(port), "--threads", "1", *options]
    with started(arguments, port, "noised") as process:
        wait_for("noised", lambda: post(port, None, "/health")[0] == 200)
        yield port
        if post(port, None, "/health")[0] != 200 or process.poll() is not None:
            raise SystemExit("hostile: noised did not survive")
    if process.returncode != 0:
        raise SystemExit(f"hostile: noised ended with {process.returncode}")


def post(port, body, path, connection=None):
    """Status and body; a GET where the body is None. A connection that is given is used again."""
    c = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    c.request("GET" if body is None else "POST", path, body)
    answer = c.getresponse()
    text = answer.read()
    if not connection:
        c.close()
    return answer.status, text


class Report:
    """Counts cases and says which were not answered as they should be."""

    def __init__(self, family):
        self.family, self.n, self.failed = family, 0, 0

    def check(self, name, right, told):
        self.n += 1
        if not right:
            self.failed += 1
            print(f"  {self.family}: {name}: {told}")
        return right

    def end(self):
        print(f"{self.family}: {self.n} cases, {self.failed} not as expected", flush=True)
        return self.failed
