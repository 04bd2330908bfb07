"""check.py [--write]: all tables, verdicts and pictures of docs/papers, made again of what every seed came to (NAME.csv, and
docs/family/runs.csv). Fails where a page says anything else; --write (make docs) writes it."""
import glob
import importlib
import os
import sys

import claims
import papers


def documents():
    """{file: text}"""
    made = {}
    for path in sorted(glob.glob(os.path.join(papers.DOCS, "*.csv"))):
        module = importlib.import_module(os.path.basename(path).removesuffix(".csv").replace("-", "_"))
        made |= module.experiment.documents(module.experiment.kept())
    return {**made, "README.md": claims.page()}


def main():
    made = documents()
    if "--write" in sys.argv:
        return papers.write(made)
    for name, text in made.items():
        path = os.path.join(papers.DOCS, name)
        with open(path, encoding="utf-8") as f:
            there = f.read()
        if there != text:
            wrong = next((b for a, b in zip(there.splitlines(), text.splitlines()) if a != b), "another number of lines")
            sys.exit(f"docs/papers/{name} contradicts the runs, which say (make docs):\n{wrong}")


if __name__ == "__main__":
    main()
