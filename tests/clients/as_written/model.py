"""The model in the place of theirs: the demo, whose positions are angles, with as many of them as theirs have. stories260K
is itself, out of the folder STORIES; where it fills in, it gets three tokens for that. In the place of a BERT the demo
puts a token in front of a text and one behind it, as that does."""
import json
import os
import shutil

import llama2c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
DEMO = os.path.join(ROOT, "weights/demo")
POSITIONS = 10240
END = "<|endoftext|>"
FRAME = {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": END, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": END, "type_id": 0}}],
         "pair": [], "special_tokens": {END: {"id": END, "ids": [0], "tokens": [END]}}}


def change(path, **values):
    with open(path, encoding="utf-8") as f:
        old = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**old, **values}, f)


def stand_in(name, **generation):
    """A folder of that name, whose requests get what `generation` says where they do not say it."""
    folder = os.path.join(BUILD, "clients", "stand_ins", os.path.basename(name))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as f:
        json.dump(generation, f)
    if "stories260K" in name:
        stories = os.environ["STORIES"]
        llama2c.convert(os.path.join(stories, "stories260K.bin"), os.path.join(stories, "tok512.bin"), folder,
                        ["<PRE>", "<SUF>", "<MID>"] if "infill" in name else [], max_position_embeddings=POSITIONS)
        return folder
    for file in os.listdir(DEMO):
        shutil.copy(os.path.join(DEMO, file), folder)
    change(os.path.join(folder, "config.json"), max_position_embeddings=POSITIONS)
    if "bert" in name:
        change(os.path.join(folder, "tokenizer.json"), post_processor=FRAME)
    return folder
