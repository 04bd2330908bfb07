"""SGLang's test of its OpenAI server (completions and chats in all combinations), translated."""
import itertools

from suite import case, check, equal, run

PROMPT = "The capital of France is"
MATRIX = list(itertools.product((False, True), (None, 5), (False, True), (1, 2), (False, True)))
FORM = "echo={0} logprobs={1} list={2} n={3} ids={4}"


def request(daemon, echo, logprobs, several, n, ids):
    tokens = daemon.ask("/tokenize", {"prompt": PROMPT}).good()["tokens"]
    prompt = tokens if ids else PROMPT
    body = dict(model="demo", prompt=[prompt, prompt] if several else prompt, temperature=0, max_tokens=32, n=n)
    body.update(echo=echo, logprobs=logprobs)
    return body, n * (2 if several else 1), len(tokens) * (2 if several else 1)


@case(*MATRIX, each=FORM)
def completion(daemon, echo, logprobs, several, n, ids):
    body, choices, prompt_tokens = request(daemon, echo, logprobs, several, n, ids)
    answer = daemon.complete(**body)
    equal(len(answer["choices"]), choices)
    first = answer["choices"][0]
    if echo:
        check(first["text"].startswith(PROMPT), first["text"])
    if logprobs:
        check(isinstance(first["logprobs"]["tokens"][0], str))
        check(len(first["logprobs"]["top_logprobs"][1]) > 0)
        check(echo or first["logprobs"]["token_logprobs"][0], first["logprobs"]["token_logprobs"])
    check(answer["id"] and answer["created"])
    equal(answer["usage"]["prompt_tokens"], prompt_tokens)
    check(answer["usage"]["completion_tokens"] > 0 and answer["usage"]["total_tokens"] > 0)


@case(*MATRIX, each=FORM)
def completion_stream(daemon, echo, logprobs, several, n, ids):
    body, choices, _ = request(daemon, echo, logprobs, several, n, ids)
    seen = set()
    for event in daemon.stream(**body, stream_options={"include_usage": True}):
        if event["usage"] is not None:
            check(min(event["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")) > 0)
            continue
        choice = event["choices"][0]
        first = choice["index"] not in seen
        if logprobs:
            check(isinstance(choice["logprobs"]["tokens"][0], str), choice)
            check(first and echo or len(choice["logprobs"]["top_logprobs"][0]) > 0, choice)
        if first and echo:
            check(choice["text"].startswith(PROMPT), choice)
        check(event["id"] and event["created"])
        seen.add(choice["index"])
    equal(seen, set(range(choices)))


def conversation(logprobs, n):
    said = [
        {"role": "system", "content": "You are a helpful AI assistant"},
        {"role": "user", "content": "What is the capital of France? Answer in a few words."},
    ]
    return dict(model="demo", messages=said, temperature=0, logprobs=bool(logprobs), top_logprobs=logprobs, n=n)


CHATS = list(itertools.product((None, 5), (1, 2)))


@case(*CHATS, each="logprobs={0} n={1}")
def chat(daemon, logprobs, n):
    answer = daemon.ask("/v1/chat/completions", {**conversation(logprobs, n), "max_tokens": 64}).good()
    equal(len(answer["choices"]), n)
    first = answer["choices"][0]
    if logprobs:
        equal(len(first["logprobs"]["content"][0]["top_logprobs"]), logprobs)
        check(isinstance(first["logprobs"]["content"][0]["top_logprobs"][0]["token"], str))
    equal(first["message"]["role"], "assistant")
    check(isinstance(first["message"]["content"], str))
    check(answer["id"] and answer["created"])
    check(min(answer["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")) > 0)


@case(*CHATS, each="logprobs={0} n={1}")
def chat_stream(daemon, logprobs, n):
    body = {**conversation(logprobs, n), "max_tokens": 64, "stream_options": {"include_usage": True}}
    roles, ends = set(), {}
    for event in daemon.stream("/v1/chat/completions", **body):
        if event["usage"] is not None:
            check(min(event["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")) > 0)
            continue
        choice = event["choices"][0]
        i = choice["index"]
        if choice["finish_reason"]:
            ends[i] = ends.get(i, 0) + 1
        if i not in roles:
            equal(choice["delta"]["role"], "assistant")
            roles.add(i)
            continue
        if logprobs and i not in ends:
            equal(len(choice["logprobs"]["content"][0]["top_logprobs"]), logprobs)
        check(isinstance(choice["delta"].get("content"), str) or choice["finish_reason"], choice)
        check(event["id"] and event["created"])
    equal(roles, set(range(n)))
    equal(ends, {i: 1 for i in range(n)})


@case()
def penalty(daemon):
    body = {**conversation(None, 1), "max_tokens": 32, "frequency_penalty": 1.0}
    answer = daemon.ask("/v1/chat/completions", body).good()
    check(isinstance(answer["choices"][0]["message"]["content"], str))


@case()
def regex(daemon):
    body = {**conversation(None, 1), "max_tokens": 128, "regex": r'\{"name": "[\w]+"\}'}
    check(daemon.ask("/v1/chat/completions", body).good()["choices"][0]["message"]["content"].startswith("{"))


@case()
def models(daemon):
    listed = daemon.ask("/v1/models").good()["data"]
    equal(len(listed), 1)
    check(isinstance(listed[0]["max_model_len"], int), listed[0])


@case()
def model_by_name(daemon):
    model = daemon.ask("/v1/models/demo").good()
    equal((model["id"], model["object"]), ("demo", "model"))
    daemon.ask("/v1/models/non-existing").bad(404)


run()
