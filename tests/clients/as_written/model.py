"""The model in the place of theirs: the demo, whose positions are angles, with as many of them as theirs have. Where
STORIES names a folder with stories260K.bin and tok512.bin, that model is itself."""
import json
import os
import shutil

import llama2c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
DEMO = os.path.join(ROOT, "weights/demo")
POSITIONS = 8192


def stand_in(name):
    """A folder of that name."""
    folder, stories = os.path.join(BUILD, "clients", "stand_ins", os.path.basename(name)), os.environ.get("STORIES")
    if stories and "stories260K" in name:
        llama2c.convert(os.path.join(stories, "stories260K.bin"), os.path.join(stories, "tok512.bin"), folder,
                        max_position_embeddings=POSITIONS)
        return folder
    os.makedirs(folder, exist_ok=True)
    for file in os.listdir(DEMO):
        shutil.copy(os.path.join(DEMO, file), folder)
    with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({**config, "max_position_embeddings": POSITIONS}, f)
    return folder
