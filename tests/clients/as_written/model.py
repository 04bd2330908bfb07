"""The model in the place of theirs: the demo, whose positions are angles, with as many of them as theirs have. stories260K
is itself, out of the folder STORIES; where it fills in, it gets three tokens for that."""
import json
import os
import shutil

import llama2c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
DEMO = os.path.join(ROOT, "weights/demo")
POSITIONS = 8192


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
    with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({**config, "max_position_embeddings": POSITIONS}, f)
    return folder
