"""Servers that are measured, the daemon among them, and what one takes of the processors: other programs of the machine
say little then."""
import glob
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse

BUILD = os.environ.get("BUILD", "build")


class Server:
    """A server inside of `with`, its url when it answers; without a command one that runs anyway."""

    def __init__(self, command, url=None):
        self.command, self.url = command, url

    def __enter__(self):
        if not self.command:
            return self
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if not self.url:
            self.url = next((l.split()[-1] for l in self.process.stdout if l.startswith("listening on ")), None)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        while self.process.poll() is None and not self.answers():
            time.sleep(0.2)
        if self.process.poll() is not None:
            sys.exit(f"{' '.join(self.command)} ended with status {self.process.returncode}")
        return self

    def __exit__(self, *_):
        if self.command:
            self.process.terminate()
            self.process.wait()

    def ask(self, path, body=None):
        """The status, and the answer's bytes."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=600)
        try:
            connection.request("POST" if body else "GET", path, body and json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def answers(self):
        try:
            return self.ask("/health")[0] == 200
        except OSError:
            return False

    def post(self, path, body):
        status, answer = self.ask(path, body)
        if status != 200:
            sys.exit(f"{path} answers {status}: {answer[:300]}")
        return answer

    def processor_seconds(self):
        if not self.command:
            return float("nan")
        tasks = glob.glob(f"/proc/{self.process.pid}/task/*/schedstat")
        return sum(int(open(path).read().split()[0]) for path in tasks) / 1e9

    def complete(self, **body):
        """The answer to a completion, and the seconds of a processor for each of its tokens."""
        before = self.processor_seconds()
        answer = json.loads(self.post("/v1/completions", body))
        return answer, (self.processor_seconds() - before) / answer["usage"]["completion_tokens"]


def daemon(checkpoint, *options, program=f"{BUILD}/noised"):
    return Server([program, "--model", checkpoint, "--port", "0", *options])
