"""run.py [--write] [SUITE...]: runs the suites of clients and compares them with what docs/api.md says of them.

Prints a line per suite and a closing line; the exit status is not 0 when a case failed that the page does not list, when
one passed that it lists, or when its figures are others. --write writes the figures into the page. Suites in JavaScript
need the packages that `make test-clients` installs in build/clients, and are skipped without; other servers' own tests
need folders of theirs (as_written/suites.py).
"""
import os
import re
import shutil
import subprocess
import sys

from as_written import suites as as_written
from suite import KEY, Daemon, Keyed

PAGE = "docs/api.md"
SUITES = ["openai", "ai_sdk", "langchain", "vllm", "vllm_invariance", "vllm_metrics", "equal_requests", "sglang",
          "llama_cpp", "lm_eval", "guidellm", "interfaces", *as_written.SUITES]
HERE = os.path.dirname(__file__)
PACKAGES = os.path.join(os.environ.get("BUILD", "build"), "clients")
SECONDS = 600


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def listed(page):
    """Of the page's table the cases that do not pass, by suite: exact names, and beginnings where they end in *."""
    found = {}
    for line in page.split("\n"):
        row = cells(line)
        if line.startswith("| `") and len(row) == 3 and row[0].strip("`") in SUITES:
            found.setdefault(row[0].strip("`"), []).extend(re.findall(r"`([^`]*)`", row[1]))
    return found


def lines_of(suite):
    """What the suite prints; why it cannot run, in a string."""
    if suite in as_written.SUITES:
        variables, run = as_written.SUITES[suite]
        return as_written.missing(variables) or run()
    if os.path.exists(f"{HERE}/{suite}.py"):
        command, environment = [sys.executable, f"{HERE}/{suite}.py"], {}
        return output(command, environment)
    if not shutil.which("node") or not os.path.isdir(f"{PACKAGES}/node_modules/openai"):
        return f"needs node and its packages in {PACKAGES}"
    for file in ("suite.mjs", f"{suite}.mjs"):  # a module finds packages beside itself
        shutil.copy(f"{HERE}/{file}", PACKAGES)
    with Daemon("--alias", "gpt-3.5-turbo-instruct") as daemon, Keyed() as keyed, Daemon("--chat-template", "qwen2.5") as tools:
        return output(["node", f"{PACKAGES}/{suite}.mjs"],
                      {"URL": daemon.url, "KEYED": keyed.url, "KEY": KEY, "TOOLS": tools.url})


def output(command, environment):
    run = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, timeout=SECONDS)
    lines = run.stdout.split("\n")
    return lines if run.returncode == 0 else [*lines, f"not ok {command[-1]} itself # status {run.returncode}"]


def judge(suite, lines, exempt):
    """Counts of what passed, of what the page lists, and the names of what is neither."""
    passed, absent, wrong = 0, 0, []
    for line in lines:
        match = re.match(r"(not )?ok (.*)", line)
        if not match:
            continue
        failed, rest = bool(match[1]), match[2]
        name = rest.split(" # ")[0]
        exact = name in exempt
        # Of theirs as written some pass by the draw of a seed, so that a beginning of names may hold both.
        loose = any(e.endswith("*") and name.startswith(e[:-1]) for e in exempt)
        exempted = exact or loose
        if failed and not exempted or not failed and (exact or loose and suite not in as_written.SUITES):
            wrong.append(line if failed else f"{name}: passes, but {PAGE} lists it")
        passed += not failed
        absent += failed and exempted
    return passed, absent, wrong or ([] if passed else ["no case passed"])


def figures(page, suite, passed, cases, write):
    """The page with the suite's row as it should be; a complaint when it was another."""
    row = re.search(rf"^\| `{suite}` \| [^|]* \| [^|]* \| (\d+) of (\d+) \|$", page, re.M)
    if not row:
        return page, [f"{PAGE} has no row for {suite}"]
    said = f"{row[1]} of {row[2]}"
    right = f"{passed} of {cases}"
    if said == right:
        return page, []
    whole = row[0].replace(f"| {said} |", f"| {right} |")
    return page.replace(row[0], whole), [] if write else [f"{PAGE} says {said}, it is {right}: make test-clients WRITE=--write"]


def main(arguments):
    write = "--write" in arguments
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    exempt, totals = listed(page), [0, 0, 0]
    for suite in [a for a in arguments if a != "--write"] or SUITES:
        try:
            lines = lines_of(suite)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            lines = [f"not ok {suite} itself # {e}"]
        if isinstance(lines, str):
            print(f"{suite:17} skipped: {lines}", flush=True)
            continue
        passed, absent, wrong = judge(suite, lines, exempt.get(suite, []))
        page, complaints = figures(page, suite, passed, passed + absent, write)
        wrong += complaints if not wrong else []
        print(f"{suite:17} {passed:3} passed, {absent:2} not here, {len(wrong)} failed", flush=True)
        for line in wrong:
            print("    " + line)
        totals = [a + b for a, b in zip(totals, (passed, absent, len(wrong)))]
    if write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(page)
    print("clients: {} passed, {} not here, {} failed".format(*totals))
    return totals[2] > 0


sys.exit(main(sys.argv[1:]))
