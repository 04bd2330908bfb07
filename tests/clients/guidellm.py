"""GuideLLM: its requests byte for byte, as httpx sends them, and what it reads of the answers."""
import json
import socket

from suite import case, check, equal, run

HEAD = ("Host: {host}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
        "User-Agent: python-httpx/0.28.1\r\n")
PROMPT = "He looked at his watch, and then he went out of the room without a word."


def exchange(daemon, line, body=None):
    """The status and the body of the answer, its chunks joined."""
    data = b"" if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    more = f"Content-Length: {len(data)}\r\nContent-Type: application/json\r\n" if data else ""
    host, port = daemon.host.split(":")
    with socket.create_connection((host, int(port)), timeout=300) as s:
        s.sendall(f"{line} HTTP/1.1\r\n{HEAD.format(host=daemon.host)}{more}\r\n".encode() + data)
        f = s.makefile("rb")
        status, headers = int(f.readline().split()[1]), {}
        while (header := f.readline().strip()):
            name, value = header.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        if "content-length" in headers:
            return status, f.read(int(headers["content-length"])).decode()
        text = b""
        while (n := int(f.readline(), 16)):
            text += f.read(n)
            f.readline()
        return status, text.decode()


def events(text):
    """As it reads a stream: line by line, up to [DONE]."""
    found = []
    for line in text.split("\n"):
        if line == "data: [DONE]":
            return found
        if line.startswith("data:"):
            found.append(json.loads(line[5:]))
    raise AssertionError("no [DONE]")


OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
COUNTED = {"max_tokens": 64, "ignore_eos": True}


@case()
def validates_by_health(daemon):
    equal(exchange(daemon, "GET /health")[0], 200)


@case()
def finds_the_model(daemon):
    status, text = exchange(daemon, "GET /v1/models")
    equal((status, [m["id"] for m in json.loads(text)["data"]]), (200, ["demo"]))


@case({"model": "demo", "stream": True, "stream_options": OPTIONS, **COUNTED, "prompt": PROMPT},
      {"model": "demo", "stream": True, "stream_options": OPTIONS, "max_tokens": 64, "stop": None, "ignore_eos": True,
       "prompt": PROMPT},
      {"prompt": PROMPT, "model": "demo", "stream": True, "stream_options": OPTIONS}, each="")
def text_completion_stream(daemon, body):
    status, text = exchange(daemon, "POST /v1/completions", body)
    check(status == 200, text)
    found = events(text)
    usage = [event["usage"] for event in found]
    check(all(usage), "a usage in every event")
    tokens = [u["completion_tokens"] for u in usage]
    equal(tokens, sorted(tokens))
    check(tokens[-1] == 64 or "ignore_eos" not in body, tokens)
    check("".join(event["choices"][0]["text"] for event in found if event["choices"]))
    check(found[0]["id"])


@case()
def text_completion(daemon):
    status, text = exchange(daemon, "POST /v1/completions", {"model": "demo", **COUNTED, "prompt": PROMPT})
    answer = json.loads(text)
    equal((status, answer["usage"]["completion_tokens"]), (200, 64))
    check(answer["choices"][0]["text"] and answer["usage"]["prompt_tokens"] > 0)


@case(True, False, each="stream={0}")
def chat_completion(daemon, stream):
    content = [{"type": "text", "text": PROMPT}]
    body = {"model": "demo", "max_completion_tokens": 64, "ignore_eos": True, "messages": [{"role": "user", "content": content}]}
    if stream:
        body = {"model": "demo", "stream": True, "stream_options": OPTIONS, **body}
    status, text = exchange(daemon, "POST /v1/chat/completions", body)
    check(status == 200, text)
    answer = events(text)[-1] if stream else json.loads(text)
    equal(answer["usage"]["completion_tokens"], 64)


run()
