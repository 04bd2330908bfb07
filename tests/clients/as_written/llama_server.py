#!/usr/bin/env python3
"""llama_server.py OPTION...: noised in the place of llama-server, whose options are translated.

The model is another than theirs (model.py), so that what it writes and how many tokens a text has are not what tests say
of their own. What has no counterpart is left out: --n-predict (a request says it), --metrics (they are there),
--cont-batching, --n-gpu-layers. --temp, and the filters that are on at llama-server, are the model's
generation_config.json here. Pages of any origin may call theirs, with credentials: here the operator names origins, those
of its tests. Which models there are theirs tells without a key, as here with --public-models. /slots is off unless --slots asks
for it. In the place of a draft model there is --guess. What would need another model or another server (adapters) ends the
program, as a llama-server that cannot load it does.
"""
import os
import socket
import sys
import tempfile
import time

from model import BUILD, POSITIONS, stand_in

SAME = {"--host": "--host", "--port": "--port", "--threads": "--threads", "--parallel": "--max-batch",
        "--alias": "--model-name", "--batch-size": "--prefill-chunk", "--seed": "--seed"}
MISSING = {"--lora", "--no-webui", "--slot-save-path"}
SWITCHES = {"--cont-batching", "--embedding", "--metrics", "--slots", "--no-context-shift", "--verbose", "--jinja",
            "--reranking"}
ORIGINS = ["localhost", "web.mydomain.fr", "origin"]
COMMAND_R = """{% for m in messages %}<|START_OF_TURN_TOKEN|>{{
    {"system": "<|SYSTEM_TOKEN|>", "user": "<|USER_TOKEN|>", "assistant": "<|CHATBOT_TOKEN|>"}[m.role] }}{{
    m.content | trim }}<|END_OF_TURN_TOKEN|>{% endfor %}{%
    if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"""


def read(arguments):
    given, rest = {}, list(arguments)
    while rest:
        name = rest.pop(0)
        given[name] = None if name in SWITCHES | MISSING - {"--lora", "--slot-save-path"} else rest.pop(0)
    return given


def written(text):
    with tempfile.NamedTemporaryFile("w", delete=False) as f:
        f.write(text)
    return f.name


def template(named):
    """A name of theirs that is one here too, or else the program of the template."""
    if named in (None, "chatml"):
        return named
    return {"llama3": "llama-3"}.get(named) or written({"command-r": COMMAND_R}.get(named, named))


def translate(given):
    filters = {"temperature": float(given["--temp"]), "top_k": 40, "top_p": 0.95, "min_p": 0.05}
    options = ["--model", stand_in(given["--hf-file"], **filters), "--any-model"]
    for name, value in given.items():
        if name in SAME:
            options += [SAME[name], value]
    if "--ctx-size" in given:  # theirs is shared by the slots
        options += ["--context", str(min(POSITIONS, int(given["--ctx-size"]) // int(given.get("--parallel", 1))))]
    if "--alias" not in given:
        options += ["--model-name", "gpt-3.5-turbo"]
    options += ["--no-slots"] * ("--slots" not in given)
    options += ["--cors-origin", *ORIGINS]
    options += ["--guess"] * ("--model-draft" in given)
    options += ["--chat-template", template(given.get("--chat-template")) or given.get("--chat-template-file") or "chatml"]
    if "--api-key" in given:
        options += ["--public-models", "--api-key-file", written(given["--api-key"] + "\n")]
    return options + ["--threads", "1"] * ("--threads" not in given)


def await_port(port, seconds=10):
    """The suite kills a server and starts the next without waiting until it is gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return s.bind(("127.0.0.1", port))
            except OSError:
                time.sleep(0.05)


options = read(sys.argv[1:])
unable = MISSING & set(options)
if unable:
    sys.exit("noised has no counterpart of " + ", ".join(sorted(unable)))
for name in [n for n in os.environ if n.startswith("PYTHON")]:
    del os.environ[name]
program = os.path.join(BUILD, "noised")
arguments = [program, *translate(options)]
await_port(int(options["--port"]))
os.execv(program, arguments)
