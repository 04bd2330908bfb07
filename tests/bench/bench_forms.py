"""What a token costs under a form: answers of the demo, or of CHECKPOINT, one stream at a time, free and under forms by
turns, on one thread. The median over ROUNDS of the processor's time for an answer by its tokens, and its ratio to that
of a free one."""
import os
import statistics

from servers import daemon

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
PROMPT = "It was a dark night, and"

taken = {name: [] for name in FORMS}
with daemon(os.environ.get("CHECKPOINT", "weights/demo"), "--threads", "1") as server:
    for seed in range(int(os.environ.get("ROUNDS", "15")) + 1):
        for name, more in FORMS.items():
            taken[name].append(server.complete(prompt=PROMPT, max_tokens=100, seed=seed, ignore_eos=True, **more)[1])
free = statistics.median(taken["free"][1:])
for name, times in taken.items():
    median = statistics.median(times[1:])  # the first warms up
    print(f"{name:20} {1e3 * median:8.3f} ms a token  {median / free:5.2f} of a free one")
