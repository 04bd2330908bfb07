"""A daemon on one thread, and what it takes of a processor for a token of an answer: other programs of the machine say
nothing then."""
import glob
import http.client
import json
import os
import subprocess
import sys
import urllib.parse


class Daemon:
    def __init__(self, checkpoint, *options):
        program = os.path.join(os.environ.get("BUILD", "build"), "noised")
        self.process = subprocess.Popen([program, "--model", checkpoint, "--threads", "1", "--port", "0", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = self.process.stdout
        url = next((line.split()[-1] for line in lines if line.startswith("listening on ")), None)
        if not url:
            sys.exit(f"the daemon over {checkpoint} did not come up")
        self.host = urllib.parse.urlsplit(url).netloc

    def processor_seconds(self):
        tasks = glob.glob(f"/proc/{self.process.pid}/task/*/schedstat")
        return sum(int(open(path).read().split()[0]) for path in tasks) / 1e9

    def complete(self, **body):
        """The answer to a completion, and the seconds of a processor for each of its tokens."""
        connection = http.client.HTTPConnection(self.host, timeout=600)
        before = self.processor_seconds()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        return answer, (self.processor_seconds() - before) / answer["usage"]["completion_tokens"]

    def stop(self):
        self.process.terminate()
        self.process.wait()
