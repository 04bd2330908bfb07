"""What a token costs under a form: answers of the demo, or of CHECKPOINT, one stream at a time, free and under forms by
turns, on one thread. The median over ROUNDS of the processor's time for an answer by its tokens (so that other programs
of the machine say nothing), and its ratio to that of a free one."""
import glob
import http.client
import json
import os
import statistics
import subprocess
import sys
import urllib.parse

SHAPE = {"type": "object", "required": ["name", "tags", "size"], "properties": {
    "name": {"type": "string", "maxLength": 40}, "size": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 3, "maxItems": 6}}}
FORMS = {
    "free": {},
    "any text": {"regex": "(.|\\n)*"},
    "lines of a list": {"grammar": 'root ::= ("- " [^\\n]{1,60} "\\n")+'},
    "JSON, any object": {"response_format": {"type": "json_object"}},
    "JSON by a schema": {"json_schema": SHAPE},
    "any text, logprobs": {"regex": "(.|\\n)*", "logprobs": 1},
}


def processor_seconds(pid):
    return sum(int(open(path).read().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def seconds_a_token(host, pid, more, seed):
    body = {"prompt": "It was a dark night, and", "max_tokens": 100, "seed": seed, "ignore_eos": True, **more}
    connection = http.client.HTTPConnection(host, timeout=600)
    before = processor_seconds(pid)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    return (processor_seconds(pid) - before) / answer["usage"]["completion_tokens"]


def measure(host, pid):
    rounds = int(os.environ.get("ROUNDS", "15"))
    taken = {name: [] for name in FORMS}
    for seed in range(rounds + 1):
        for name, more in FORMS.items():
            taken[name].append(seconds_a_token(host, pid, more, seed))
    free = statistics.median(taken["free"][1:])
    for name, times in taken.items():
        median = statistics.median(times[1:])  # the first warms up
        print(f"{name:20} {1e3 * median:8.3f} ms a token  {median / free:5.2f} of a free one")


checkpoint = os.environ.get("CHECKPOINT", "weights/demo")
program = os.path.join(os.environ.get("BUILD", "build"), "noised")
daemon = subprocess.Popen([program, "--model", checkpoint, "--threads", "1", "--port", "0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
url = next((line.split()[-1] for line in daemon.stdout if line.startswith("listening on ")), None)
if not url:
    sys.exit(f"the daemon over {checkpoint} did not come up")
measure(urllib.parse.urlsplit(url).netloc, daemon.pid)
daemon.terminate()
daemon.wait()
