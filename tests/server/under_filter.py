#!/usr/bin/env python3
"""under_filter.py UNIT COMMAND...: runs a command under the SystemCallFilter of a systemd unit, as systemd would build it:
the sets and calls of each line, less those of lines that begin with ~; everything else fails with SystemCallErrorNumber.
Needs python3-seccomp and systemd-analyze."""
import errno, os, subprocess, sys

import seccomp


def members(name, seen):
    """The system calls of a set and of the sets inside it; a name without @ is a call itself."""
    if not name.startswith("@"):
        yield name
        return
    if name in seen:
        return
    seen.add(name)
    lines = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    for word in lines.split("\n")[1:]:
        word = word.strip()
        if word.startswith("@"):
            yield from members(word, seen)
        elif word and not word.startswith("#"):
            yield word


def main():
    unit, command = sys.argv[1], sys.argv[2:]
    allowed, refusal = set(), errno.EPERM
    for line in open(unit):
        key, _, value = line.strip().partition("=")
        if key == "SystemCallErrorNumber":
            refusal = getattr(errno, value)
        if key != "SystemCallFilter":
            continue
        calls = {call for name in value.lstrip("~").split() for call in members(name, set())}
        allowed = allowed - calls if value.startswith("~") else allowed | calls
    if not allowed:
        sys.exit(f"{unit} has no SystemCallFilter")
    rules = seccomp.SyscallFilter(seccomp.ERRNO(refusal))
    for call in sorted(allowed):
        try:
            rules.add_rule(seccomp.ALLOW, call)
        except RuntimeError:
            pass  # a call of another architecture
    rules.load()
    os.execvp(command[0], command)


main()
