#!/usr/bin/env python3
"""notebook.py PAGE URL [--write]: runs a page's blocks of Python against the daemon at URL, one after another.

What a block prints must be the ```text block that follows it; with --write it is put there instead.
"""
import contextlib
import io
import re
import sys


def run(page, url):
    names = {"url": url}

    def cell(match):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(match[1], page_name, "exec"), names)
        text = out.getvalue()
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{text}```\n" if text else "")

    return re.sub(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", cell, page, flags=re.S)


page_name, url = sys.argv[1:3]
with open(page_name, encoding="utf-8") as f:
    page = f.read()
printed = run(page, url)
if "--write" in sys.argv:
    with open(page_name, "w", encoding="utf-8") as f:
        f.write(printed)
elif printed != page:
    sys.exit(f"{page_name} does not show what its code prints; `make notebook` writes it. It prints:\n{printed}")
