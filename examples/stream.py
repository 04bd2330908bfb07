"""Streams an answer, with Python's standard library alone: python3 stream.py [URL]"""
import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
body = {"prompt": "It was", "max_tokens": 40, "seed": 7, "noise_seed": 1, "stream": True}
with urllib.request.urlopen(url + "/v1/completions", json.dumps(body).encode()) as answer:
    for line in answer:
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(event["error"]["message"])
            print(event["choices"][0]["text"], end="", flush=True)
print()
