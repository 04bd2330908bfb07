"""lm-evaluation-harness, local-completions and gguf: its requests byte for byte, as `requests` and `aiohttp` send them, and
its reading of the answers."""
import json
import socket

from suite import case, check, equal, run

TEXT = "She had never been in the house before, and she did not know what to say."
AGENTS = {
    "requests": "User-Agent: python-requests/2.32.5\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
                "Connection: keep-alive\r\nAuthorization: Bearer \r\nContent-Length: {n}\r\n"
                "Content-Type: application/json\r\n\r\n",
    "aiohttp": "Authorization: Bearer \r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
               "User-Agent: Python/3.11 aiohttp/3.11.11\r\nContent-Length: {n}\r\nContent-Type: application/json\r\n\r\n",
}
SESSION = ("User-Agent: python-requests/2.32.5\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
           "Connection: keep-alive\r\nContent-Type: application/json\r\n")


def exchange(daemon, bytes_):
    """Sends bytes as they stand; the status and the JSON of the answer."""
    host, port = daemon.host.split(":")
    with socket.create_connection((host, int(port)), timeout=300) as s:
        s.sendall(bytes_)
        f = s.makefile("rb")
        status, length = int(f.readline().split()[1]), 0
        while (line := f.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, json.loads(f.read(length))


def post(daemon, body, client="requests"):
    data = json.dumps(body)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {daemon.host}\r\n" + AGENTS[client].replace("{n}", str(len(data)))
    return exchange(daemon, (head + data).encode())


def good(daemon, body, client="requests"):
    status, answer = post(daemon, body, client)
    check(status == 200, answer)
    return answer


def session(daemon, path, body=None):
    data = "" if body is None else json.dumps(body)
    length = f"Content-Length: {len(data)}\r\n" if data else ""
    head = f"{'POST' if data else 'GET'} {path} HTTP/1.1\r\nHost: {daemon.host}\r\n{SESSION}{length}\r\n"
    status, answer = exchange(daemon, (head + data).encode())
    equal(status, 200)
    return answer


def encode(daemon, text):
    return session(daemon, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def scoring(prompts):
    return {"model": "demo", "prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}


def read(answer, lengths):
    """Sum and greediness of each continuation: what lies behind the context, but the one generated slot."""
    results = []
    for choice, n in zip(sorted(answer["choices"], key=lambda c: c["index"]), lengths):
        values = choice["logprobs"]["token_logprobs"][n:-1]
        tops = choice["logprobs"]["top_logprobs"][n:-1]
        results.append((sum(values), all(v == max(top.values()) for v, top in zip(values, tops))))
    return results


def windows(daemon, n):
    ids = encode(daemon, TEXT)
    return [ids[i % 4 :] for i in range(n)]


@case("requests", "aiohttp")
def loglikelihood_of_ids(daemon, client):
    ids = encode(daemon, TEXT)
    answer = good(daemon, scoring([ids]), client)
    equal(len(answer["choices"][0]["logprobs"]["token_logprobs"]), len(ids) + 1)
    (value, _), = read(answer, [4])
    check(value < 0, value)


@case()
def loglikelihood_of_a_string(daemon):
    ids = encode(daemon, TEXT)
    equal(read(good(daemon, scoring(TEXT)), [4]), read(good(daemon, scoring([ids])), [4]))


@case(2, 16, 128, 256)
def loglikelihood_of_a_batch(daemon, n):
    prompts = windows(daemon, n)
    together = read(good(daemon, scoring(prompts)), [4] * n)
    equal(len(together), n)
    alone = [read(good(daemon, scoring([prompt])), [4])[0] for prompt in prompts[:4]]
    equal(together[:4], alone)


@case()
def the_same_batch_twice(daemon):
    prompts = windows(daemon, 16)
    one, two = (good(daemon, scoring(prompts))["choices"] for _ in range(2))
    equal(one, two)


@case()
def greedy_continuation_is_found_greedy(daemon):
    ids = encode(daemon, TEXT)[:6]
    body = {"prompt": [ids], "model": "demo", "max_tokens": 5, "temperature": 0, "seed": 1234, "return_token_ids": True}
    token_ids = good(daemon, body)["choices"][0]["token_ids"]
    (_, greedy), = read(good(daemon, scoring([ids + token_ids])), [6])
    check(greedy)


@case()
def rolling_windows(daemon):
    eos = encode(daemon, session(daemon, "/tokenizer_info")["eos_token"])[0]
    ids = (encode(daemon, TEXT) * 60)[:1000]
    prompts = [[eos] + ids[:511], [ids[510]] + ids[511:1000]]
    results = read(good(daemon, scoring(prompts)), [1, 1])
    check(all(value < 0 for value, _ in results), results)


@case()
def default_max_length(daemon):
    """max_length is 2048 unless said, and the demo has 512 positions."""
    good(daemon, scoring([(encode(daemon, TEXT) * 140)[:2047]]))


def generation(**more):
    return {"prompt": ["It was the", "He said"], "model": "demo", "max_tokens": 16, "temperature": 0, "stop": ["\n\n", "</s>"],
            "seed": 1234, **more}


@case("requests", "aiohttp")
def generate_until(daemon, client):
    choices = good(daemon, generation(), client)["choices"]
    equal([choice["index"] for choice in choices], [0, 1])
    equal(good(daemon, generation(), client)["choices"], choices)


@case("no stop", "six stops", "an empty stop")
def generate_until_stops(daemon, form):
    stop = {"no stop": [], "six stops": ["\n", ".", "!", "?", ";", ":"], "an empty stop": [""]}[form]
    good(daemon, generation(stop=stop))


@case(1, 5)
def generate_with_num_beams(daemon, beams):
    good(daemon, generation(num_beams=beams))


@case()
def remote_tokenizer_is_found(daemon):
    info = session(daemon, "/tokenizer_info")
    check(isinstance(info["eos_token"], str))
    equal(len(encode(daemon, info["eos_token"])), 1)
    check(isinstance(encode(daemon, "test"), list))


@case()
def remote_tokenizer_round_trip(daemon):
    equal(session(daemon, "/detokenize", {"tokens": encode(daemon, TEXT)})["prompt"], TEXT)


@case()
def gguf_backend(daemon):
    context, continuation = "She had never been in the house", " before"
    body = {"prompt": context + continuation, "logprobs": 10, "temperature": 0.0, "max_tokens": 1, "echo": True}
    logprobs = good(daemon, body)["choices"][0]["logprobs"]
    i = next(k for k, offset in enumerate(logprobs["text_offset"]) if offset >= len(context))
    check(sum(logprobs["token_logprobs"][i:-1]) < 0)
    for k in range(i, len(logprobs["tokens"])):
        check(max(logprobs["top_logprobs"][k].values()) <= 0)


run()
