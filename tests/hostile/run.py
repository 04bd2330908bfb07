"""A public corpus of what is hostile, with the answers that are right: `make hostile`, or run.py [--quick] [FAMILY ...].

    http      requests byte by byte, from the RFCs; behind proxies too, and beside other servers
    bodies    JSON, and requests that are wrong in one field
    folders   checkpoints that are wrong in one place
    labelled  files of examples
    pictures  PNGs

Each is a file of JSON lines beside this one: what is sent or changed, and what must come of it. Who finds that a program
answers otherwise has found a fault in one of the two: the answers are written from the RFCs, from docs/api.md and from
the promise that an error names the field, the file or the tensor, not from what the program says."""
import importlib
import sys

FAMILIES = {"http": "wire", "bodies": "bodies", "folders": "folders", "labelled": "labelled", "pictures": "pictures"}


def main(arguments):
    quick = "--quick" in arguments
    wanted = [a for a in arguments if a != "--quick"] or list(FAMILIES)
    return sum(importlib.import_module(FAMILIES[name]).run(quick) for name in wanted) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
