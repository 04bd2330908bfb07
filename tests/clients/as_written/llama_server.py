#!/usr/bin/env python3
"""llama_server.py OPTION...: noised in the place of llama-server, whose options are translated.

The model is always the demo, so that what it writes and how many tokens a text has are not what tests say of their own.
What has no counterpart is left out: --temp and --n-predict (a request says them), --metrics (they are there),
--cont-batching, --n-gpu-layers. /slots is off unless --slots asks for it. What would need another model or another server (adapters, a draft model) ends the
program, as a llama-server that cannot load it does.
"""
import os
import sys
import tempfile

from model import BUILD, POSITIONS, stand_in

SAME = {"--host": "--host", "--port": "--port", "--threads": "--threads", "--parallel": "--max-batch",
        "--alias": "--model-name", "--batch-size": "--prefill-chunk", "--seed": "--seed"}
MISSING = {"--lora", "--model-draft", "--no-webui", "--slot-save-path"}
SWITCHES = {"--cont-batching", "--embedding", "--metrics", "--slots", "--no-context-shift", "--verbose", "--jinja",
            "--reranking"}
COMMAND_R = """{% for m in messages %}<|START_OF_TURN_TOKEN|>{{
    {"system": "<|SYSTEM_TOKEN|>", "user": "<|USER_TOKEN|>", "assistant": "<|CHATBOT_TOKEN|>"}[m.role] }}{{
    m.content | trim }}<|END_OF_TURN_TOKEN|>{% endfor %}{%
    if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"""


def read(arguments):
    given, rest = {}, list(arguments)
    while rest:
        name = rest.pop(0)
        given[name] = None if name in SWITCHES | MISSING - {"--lora", "--model-draft", "--slot-save-path"} else rest.pop(0)
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
    options = ["--model", stand_in(given["--hf-file"]), "--any-model"]
    for name, value in given.items():
        if name in SAME:
            options += [SAME[name], value]
    if "--ctx-size" in given:  # theirs is shared by the slots
        options += ["--context", str(min(POSITIONS, int(given["--ctx-size"]) // int(given.get("--parallel", 1))))]
    if "--alias" not in given:
        options += ["--model-name", "gpt-3.5-turbo"]
    options += ["--no-slots"] * ("--slots" not in given)
    options += ["--chat-template", template(given.get("--chat-template")) or given.get("--chat-template-file") or "chatml"]
    if "--api-key" in given:
        options += ["--api-key-file", written(given["--api-key"] + "\n")]
    return options + ["--threads", "1"] * ("--threads" not in given)


options = read(sys.argv[1:])
unable = MISSING & set(options)
if unable:
    sys.exit("noised has no counterpart of " + ", ".join(sorted(unable)))
for name in [n for n in os.environ if n.startswith("PYTHON")]:
    del os.environ[name]
program = os.path.join(BUILD, "noised")
os.execv(program, [program, *translate(options)])
