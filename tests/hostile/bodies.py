"""JSON of bodies.jsonl to the demo's daemon: the status, and the words that the answer must have. Every refusal is OpenAI's
object with its four keys and nothing else."""
import http.client
import json
import os

from hostile import Report, TREE, cases, daemon, post


def is_error(text):
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    return set(error) == {"message", "type", "param", "code"} and error["message"]


def run(quick):
    del quick
    report = Report("bodies")
    with daemon(os.path.join(TREE, "weights/demo")) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for case in cases("bodies"):
            body = case["bytes"].encode("latin-1") if "bytes" in case else case["body"].encode()
            status, text = post(port, body, case["route"], connection)
            shown = text.decode(errors="replace")
            right = status == case["status"] and (status == 200 or is_error(text))
            report.check(case["name"], right and all(word in shown for word in case.get("says", [])),
                         f"{status}, not {case['status']} {case.get('says', '')}: {shown[:300]}")
    return report.end()
