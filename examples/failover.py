"""Goes on with a stream at the next server when one dies: python3 failover.py URL URL..."""
import http.client
import json
import sys
import urllib.request

body = {"prompt": "It was", "max_tokens": 400, "seed": 7, "noise_seed": 1, "stream": True, "ignore_eos": True,
        "return_token_ids": True}
got, ended = 0, False
for url in sys.argv[1:] or ["http://localhost:8080"]:
    try:
        # An answer is a function of its request: the rest is the same anywhere, if the same checkpoint serves there.
        request = json.dumps({**body, "stream_from": got}).encode()
        with urllib.request.urlopen(url + "/v1/completions", request) as answer:
            for line in answer:
                ended = ended or line.startswith(b"data: [DONE]")
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                body["if_fingerprint"] = event["system_fingerprint"]
                got += len(event["choices"][0]["token_ids"])
                print(event["choices"][0]["text"], end="", flush=True)
    except (OSError, http.client.HTTPException, KeyError) as e:
        print(f"{url}: {e!r}", file=sys.stderr)
    if ended:
        break
    print(f"{url} broke off after {got} tokens", file=sys.stderr)
print()
sys.exit(not ended)
