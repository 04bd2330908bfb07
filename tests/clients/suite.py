"""The frame of the suites in Python: cases, requests, streams, daemons. Standard library alone.

A suite prints one line per case, `ok NAME` or `not ok NAME # why`; run.py reads them.
"""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import traceback
import urllib.parse


class Daemon:
    """A daemon over the demo, with further options. Use as a context."""

    def __init__(self, *options):
        template = [] if "--chat-template" in options else ["--chat-template", "plain"]
        self.options = ["--model", "weights/demo", "--threads", "1", *template, *options]

    def __enter__(self):
        # It lives until its command has read all of its input.
        command = ["scripts/with_daemon.sh", *self.options, "--", "sh", "-c", "echo $URL; exec cat"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the daemon did not come up: " + " ".join(self.options))
        self.host = urllib.parse.urlsplit(self.url).netloc
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, path, body=None, headers=None, method=None, timeout=300):
        """One request; the answer has status, headers, text and, where it is JSON, json."""
        connection = http.client.HTTPConnection(self.host, timeout=timeout)
        data = None if body is None else json.dumps(body)
        head = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method or ("GET" if data is None else "POST"), path, data, head)
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def complete(self, **body):
        return self.ask("/v1/completions", body).good()

    def stream(self, path="/v1/completions", **body):
        """The events of a stream, which must end with [DONE]."""
        answer = self.ask(path, {**body, "stream": True})
        if answer.status != 200:
            answer.good()
        events = [part[6:] for part in answer.text.split("\n\n") if part.startswith("data: ")]
        equal(events[-1:], ["[DONE]"])
        return [json.loads(event) for event in events[:-1]]


KEY = "sk-this-is-the-secret-key"


class Keyed(Daemon):
    """A daemon that wants KEY."""

    def __enter__(self):
        with tempfile.NamedTemporaryFile("w", delete=False) as f:
            f.write(KEY + "\n")
        self.file = f.name
        self.options += ["--api-key-file", f.name]
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        os.unlink(self.file)


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()
        try:
            self.json = json.loads(self.text)
        except ValueError:
            self.json = None

    def good(self):
        if self.status != 200:
            raise AssertionError(f"{self.status}: {self.text}")
        return self.json

    def bad(self, status=400):
        """It must be an error of this status, in OpenAI's shape."""
        equal(self.status, status)
        equal(sorted(self.json["error"]), ["code", "message", "param", "type"])
        return self.json["error"]


def equal(a, b):
    if a != b:
        raise AssertionError(f"{a!r} is not {b!r}"[:1000])


def check(condition, *what):
    if not condition:
        raise AssertionError("not so: " + " ".join(repr(w)[:400] for w in what))


cases = []


def case(*values, each=None):
    """Marks a function as a case; with values it is one case for each, which `each` names as str.format does."""

    def mark(function):
        name = function.__name__
        if not values:
            cases.append((name, function))
        for value in values:
            arguments = value if isinstance(value, tuple) else (value,)
            tail = " ".join(map(str, arguments)) if each is None else each.format(*arguments)
            cases.append((f"{name} {tail}".strip(), lambda daemon, a=arguments: function(daemon, *a)))
        return function

    return mark


def run(*options):
    """Runs every case against one daemon. A case that needs another starts it itself."""
    with Daemon(*options) as daemon:
        for name, function in cases:
            try:
                function(daemon)
                print("ok", name, flush=True)
            except Exception as e:
                print(f"not ok {name} # {type(e).__name__}: {e}".replace("\n", " ")[:600], flush=True)
                if os.environ.get("V"):
                    traceback.print_exc(file=sys.stderr)
