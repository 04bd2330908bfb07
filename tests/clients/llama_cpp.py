"""llama.cpp's tests of its server, translated to /v1/completions and /v1/chat/completions, with its own dialect where they
are about that. What they say about their model is left out."""
import concurrent.futures
import re
import socket
import time

from suite import KEY, Daemon, Keyed, case, check, equal, run

LIFE = "I believe the meaning of life is"
WORDS = """i I the The to a an be is was but But and And so So you You he He she She we We they They it It his His her Her
book Book""".split()


def text(answer):
    return answer["choices"][0]["text"]


# ---- test_basic ----


@case()
def server_start_simple(daemon):
    equal(daemon.ask("/health").status, 200)


@case()
def server_start_with_host_family(daemon):
    with Daemon("--host", "127.0.0.1") as other:
        equal(other.ask("/health").status, 200)


@case()
def server_props(daemon):
    props = daemon.ask("/props").good()
    check(props["model_path"] and props["total_slots"] > 0)
    equal(props["default_generation_settings"]["n_ctx"], 512)


@case()
def server_models(daemon):
    models = daemon.ask("/models").good()["data"]
    equal([m["id"] for m in models], ["demo"])


@case()
def server_slots(daemon):
    check(len(daemon.ask("/slots").good()) > 0)


@case()
def web_page(daemon):
    answer = daemon.ask("/")
    check(answer.status == 200 and "<!doctype html>" in answer.text.lower())


@case()
def server_model_aliases(daemon):
    with Daemon("--alias", "fim", "--alias", "code") as other:
        for name in ("demo", "fim", "code"):
            other.complete(model=name, prompt=LIFE, max_tokens=1)
        other.ask("/v1/completions", {"model": "else", "prompt": LIFE}).bad(404)


# ---- test_completion ----

PREDICT = [(LIFE, 8), ("Write a joke about AI from a very long prompt which will not be truncated", 256)]


@case(*PREDICT, each="{1}")
def completion(daemon, prompt, n):
    answer = daemon.complete(prompt=prompt, n_predict=n, return_token_ids=True, ignore_eos=True)
    equal(answer["usage"]["completion_tokens"], n)
    check(answer["usage"]["prompt_tokens"] > 0 and text(answer))
    check(all(isinstance(t, int) for t in answer["choices"][0]["token_ids"]))
    equal(len(answer["choices"][0]["token_ids"]), n)


@case(*PREDICT, each="{1}")
def completion_stream(daemon, prompt, n):
    *events, last = daemon.stream(prompt=prompt, n_predict=n, return_token_ids=True, ignore_eos=True)
    check(all(event["choices"][0]["finish_reason"] is None for event in events))
    equal(last["choices"][0]["finish_reason"], "length")
    equal(sum(len(event["choices"][0]["token_ids"]) for event in [*events, last]), n)


@case()
def completion_stream_vs_non_stream(daemon):
    whole = text(daemon.complete(prompt=LIFE, n_predict=8, seed=42))
    equal("".join(map(text, daemon.stream(prompt=LIFE, n_predict=8, seed=42))), whole)


@case(False, True, each="stream={0}")
def completion_with_openai_library(daemon, stream):
    body = dict(model="davinci-002", prompt=LIFE, max_tokens=8, seed=42)
    answer = daemon.stream(**body)[-1] if stream else daemon.complete(**body)
    check(answer["system_fingerprint"])
    equal(answer["choices"][0]["finish_reason"], "length")


@case(1, 2, each="slots={0}")
def consistent_result_same_seed(daemon, slots):
    with Daemon("--max-batch", str(slots)) as small:
        answers = [small.complete(prompt=LIFE, seed=42, temperature=t, cache_prompt=False) for t in (0.0, 1.0)
                   for _ in range(4)]
    equal(len({text(a) for a in answers[:4]}), 1)
    equal(len({text(a) for a in answers[4:]}), 1)


@case(1, 2, each="slots={0}")
def different_result_different_seed(daemon, slots):
    with Daemon("--max-batch", str(slots)) as small:
        texts = [text(small.complete(prompt=LIFE, seed=s, temperature=1.0, cache_prompt=False)) for s in range(4)]
    check(all(a != b for a, b in zip(texts, texts[1:])), texts)


by_batch = {}


@case(*[(b, t) for b in (16, 32) for t in (0.0, 1.0)], each="n_batch={0} temperature={1}")
def consistent_result_different_batch_size(daemon, n_batch, temperature):
    """Across the sizes too, and at temperature 1, which theirs leaves out."""
    with Daemon("--prefill-chunk", str(n_batch)) as small:
        for _ in range(4):
            found = text(small.complete(prompt=LIFE * 4, seed=42, temperature=temperature, cache_prompt=False))
            equal(by_batch.setdefault(temperature, found), found)


@case()
def cache_vs_nocache_prompt(daemon):
    """Skipped by them, for it fails there."""
    body = dict(prompt=LIFE, seed=42, temperature=1.0)
    equal(text(daemon.complete(**body, cache_prompt=True)), text(daemon.complete(**body, cache_prompt=False)))


@case()
def nocache_long_input_prompt(daemon):
    daemon.ask("/v1/completions", {"prompt": LIFE * 100, "seed": 42, "temperature": 1.0, "cache_prompt": False}).bad()


@case("ids", "batch", "ids and text as two", "ids and text in one")
def completion_with_tokens_input(daemon, form):
    ids = daemon.ask("/tokenize", {"content": LIFE, "add_special": True}).good()["tokens"]
    prompt = {"ids": ids, "batch": [ids, ids], "ids and text as two": [ids, LIFE],
              "ids and text in one": [1, 2, 3, 4, 5, 6, LIFE, 7, 8, 9, 10, LIFE]}[form]
    choices = daemon.complete(prompt=prompt, temperature=0.0, seed=42)["choices"]
    equal(len(choices), 2 if form in ("batch", "ids and text as two") else 1)
    equal(len({choice["text"] for choice in choices}), 1)


@case((1, 3), (2, 2), (2, 4), (4, 2), (4, 6), each="slots={0} requests={1}")
def completion_parallel_slots(daemon, slots, requests):
    """Theirs does not compare the texts, "not deterministic when using other slot than slot 0"."""
    prompts = ["Write a very long book.", "Write another a poem.", "What is LLM?", "The sky is blue and I love it.",
               "Write another very long music lyrics.", "Write a very long joke."]

    def ask(prompt):
        return text(small.complete(prompt=prompt, seed=42, temperature=1.0, max_tokens=32, ignore_eos=True))

    with Daemon("--max-batch", str(slots)) as small, concurrent.futures.ThreadPoolExecutor() as pool:
        together = list(pool.map(ask, prompts[:requests]))
        equal(together, [ask(prompt) for prompt in prompts[:requests]])
    check(all(len(t) > 10 for t in together), together)


@case("none", "three")
def completion_response_fields(daemon, which):
    fields = ["content", "generation_settings/n_predict", "prompt"] if which == "three" else []
    answer = daemon.ask("/completion", {"prompt": LIFE, "n_predict": 8, "response_fields": fields}).good()
    check(answer["content"] and (len(answer) == len(fields) if fields else "generation_settings" in answer), answer)


def look_at(logprobs, n):
    for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        check(isinstance(token, str) and logprob <= 0.0)
        check(n <= len(top) <= n + 1 and all(value <= 0.0 for value in top.values()), top)


@case(False, True, each="stream={0}")
def n_probs(daemon, stream):
    body = dict(prompt=LIFE, n_probs=10, temperature=0.0, n_predict=5)
    answers = daemon.stream(**body) if stream else [daemon.complete(**body)]
    equal(sum(len(answer["choices"][0]["logprobs"]["tokens"]) for answer in answers), 5)
    for answer in answers:
        look_at(answer["choices"][0]["logprobs"], 10)


@case()
def n_probs_post_sampling(daemon):
    answer = daemon.ask("/completion", {"prompt": LIFE, "n_probs": 10, "temperature": 0.0, "n_predict": 5,
                                        "post_sampling_probs": True}).good()
    equal(len(answer["completion_probabilities"]), 5)
    for token in answer["completion_probabilities"]:
        equal([token["prob"], len(token["top_probs"]), max(p["prob"] for p in token["top_probs"])], [1.0, 10, 1.0])


@case(*[(ids, map_) for ids in (False, True) for map_ in (False, True)], each="ids={0} openai_style={1}")
def logit_bias(daemon, ids, openai_style):
    if ids:
        tokens = daemon.ask("/tokenize", {"content": " " + " ".join(WORDS) + " "}).good()["tokens"]
        bias = [[token, -100] for token in tokens]
    else:
        bias = [[" " + word + " ", -100] for word in WORDS]
    if openai_style:
        bias = {str(key): value for key, value in bias}
    answer = daemon.complete(prompt="What is the best book", n_predict=64, logit_bias=bias, temperature=0.0)
    check(not any(f" {word} " in text(answer) for word in WORDS), text(answer))


@case()
def cancel_request(daemon):
    with Daemon("--max-batch", "1") as small:
        try:
            small.ask("/v1/completions", {"prompt": LIFE, "max_tokens": 480, "n": 32, "ignore_eos": True}, timeout=0.1)
        except socket.timeout:
            pass
        until = time.monotonic() + 10  # it would take longer by itself
        while small.ask("/load").good()["server_load"] and time.monotonic() < until:
            time.sleep(0.05)
        equal(small.ask("/load").good()["server_load"], 0)


@case("/completion", "/completions")
def own_dialect(daemon, path):
    answer = daemon.ask(path, {"prompt": LIFE, "n_predict": 8, "return_tokens": True, "ignore_eos": True}).good()
    check(answer["content"] and answer["has_new_line"] in (True, False) and answer["truncated"] is False, answer)
    equal((answer["timings"]["predicted_n"], len(answer["tokens"]), answer["stop_type"]), (8, 8, "limit"))


# ---- test_tokenize ----


@case()
def tokenize_detokenize(daemon):
    content = "What is the capital of France ?"
    tokens = daemon.ask("/tokenize", {"content": content}).good()["tokens"]
    check(len(tokens) > 5)
    equal(daemon.ask("/detokenize", {"tokens": tokens}).good()["content"].strip(), content)


@case()
def tokenize_with_bos(daemon):
    """The demo's tokenizer adds none, and so it must say."""
    body = {"content": "What is the capital of France ?", "add_special": True}
    bare = daemon.ask("/tokenize", {**body, "add_special": False}).good()["tokens"]
    tokens = daemon.ask("/tokenize", body).good()["tokens"]
    equal(daemon.ask("/tokenizer_info").good()["add_bos_token"], False)
    equal(tokens, bare)


@case()
def tokenize_with_pieces(daemon):
    content = "This is a test string with unicode \u5abd and emoji \U0001f917"
    tokens = daemon.ask("/tokenize", {"content": content, "with_pieces": True}).good()["tokens"]
    pieces = [t["piece"] for t in tokens]
    check(all(t["id"] >= 0 and len(t["piece"]) > 0 for t in tokens))
    equal(b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces).decode().strip(), content)


# ---- test_security ----

@case("/health", "/models", "/")
def access_public_endpoint(daemon, path):
    with Keyed("--public-models") as keyed:
        equal(keyed.ask(path).status, 200)


@case(None, "invalid-key")
def incorrect_api_key(daemon, key):
    with Keyed() as keyed:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        error = keyed.ask("/v1/completions", {"prompt": LIFE}, headers).bad(401)
    check(error["type"] == "authentication_error" or error["code"] == "invalid_api_key", error)


@case("Authorization", "X-Api-Key")
def correct_api_key(daemon, header):
    with Keyed() as keyed:
        keyed.ask("/v1/completions", {"prompt": LIFE}, {header: ("Bearer " if header[0] == "A" else "") + KEY}).good()


@case(("http://localhost", "Access-Control-Allow-Origin", "http://localhost"),
      ("http://web.mydomain.fr", "Access-Control-Allow-Origin", "http://web.mydomain.fr"),
      ("http://web.mydomain.fr", "Access-Control-Allow-Methods", "POST"),
      ("http://web.mydomain.fr", "Access-Control-Allow-Headers", "authorization"), each="{0} {1}")
def cors_options(daemon, origin, header, value):
    """Of origins that the operator names."""
    with Daemon("--cors-origin", "http://localhost", "--cors-origin", "http://web.mydomain.fr") as open_:
        head = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "Authorization"}
        answer = open_.ask("/v1/completions", headers=head, method="OPTIONS")
    check(answer.status in (200, 204), answer.status)
    check(value in answer.headers[header] or value in answer.headers[header].lower(), answer.headers[header])


@case()
def cors_credentials(daemon):
    with Daemon("--cors-origin", "http://web.mydomain.fr") as open_:
        head = {"Origin": "http://web.mydomain.fr", "Access-Control-Request-Method": "POST"}
        equal(open_.ask("/v1/completions", headers=head, method="OPTIONS").headers["Access-Control-Allow-Credentials"], "true")


# ---- test_ctx_shift ----


@case()
def ctx_shift_enabled(daemon):
    daemon.complete(prompt=LIFE * 100, n_predict=64)


@case((64, 64), (-1, None), each="{0}")
def ctx_shift_disabled_short_prompt(daemon, n_predict, n_output):
    usage = daemon.complete(prompt="Hi how are you", n_predict=n_predict, ignore_eos=True)["usage"]
    equal(usage["completion_tokens"], n_output or 512 - usage["prompt_tokens"] + 1)


@case()
def ctx_shift_disabled_long_prompt(daemon):
    error = daemon.ask("/v1/completions", {"prompt": LIFE * 100, "n_predict": 64}).bad()
    equal(error["code"], "context_length_exceeded")


@case()
def ctx_shift_disabled_stream(daemon):
    *events, last = daemon.stream(prompt="Once", n_predict=256, ignore_eos=True)
    check(all(event["choices"][0]["finish_reason"] is None for event in events))
    equal(last["choices"][0]["finish_reason"], "length")
    check("".join(map(text, events)))


# ---- test_chat_completion ----


def chat(daemon, *contents, **more):
    roles = ["system", "user"] if len(contents) == 2 else ["user"]
    said = [{"role": role, "content": content} for role, content in zip(roles, contents)]
    return daemon.ask("/v1/chat/completions", {"messages": said, "max_tokens": 8, **more})


PARTS = [{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]


@case("Hey", "What is the best book", PARTS, each="")
def chat_completion(daemon, user):
    answer = chat(daemon, "Book", user, model=None).good()
    check("cmpl" in answer["id"] and answer["system_fingerprint"])
    equal(answer["usage"]["completion_tokens"], 8)
    choice = answer["choices"][0]
    equal((choice["message"]["role"], choice["finish_reason"]), ("assistant", "length"))
    check(choice["message"]["content"])


@case()
def chat_completion_stream(daemon):
    said = [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]
    first, *events, last = daemon.stream("/v1/chat/completions", messages=said, max_tokens=8)
    equal(first["choices"][0]["delta"], {"role": "assistant", "content": None})
    equal(last["choices"][0]["delta"], {})
    check(all("role" not in event["choices"][0]["delta"] for event in [*events, last]))
    equal(len({event["id"] for event in [first, *events, last]}), 1)
    equal(last["choices"][0]["finish_reason"], "length")


@case()
def chat_completion_with_openai_library(daemon):
    chat(daemon, "Book", "What is the best book", model="gpt-3.5-turbo-instruct", seed=42, temperature=0.8).good()


@case()
def chat_template(daemon):
    """The rendered text, sent as a completion, must have the same answer."""
    with Daemon("--chat-template", "alpaca") as other:
        answer = chat(other, "What is the best book", seed=42).good()["choices"][0]["message"]["content"]
        prompt = ("Below is an instruction that describes a task. Write a response that appropriately completes the "
                  "request.\n\n### Instruction:\nWhat is the best book\n\n### Response:")
        equal(answer, text(other.complete(prompt=prompt, max_tokens=8, seed=42)))


@case()
def chat_template_assistant_prefill(daemon):
    said = [{"role": "user", "content": "What is the best book"}, {"role": "assistant", "content": "Whill"}]
    answer = daemon.ask("/v1/chat/completions", {"messages": said, "max_tokens": 8, "seed": 42}).good()
    prompt = "user: What is the best book\nassistant: Whill"
    equal(answer["choices"][0]["message"]["content"], text(daemon.complete(prompt=prompt, max_tokens=8, seed=42)))


@case()
def apply_chat_template(daemon):
    check("prompt" in daemon.ask("/apply-template", {"messages": [{"role": "user", "content": "Hi there"}]}).good())


def kept(answer, pattern):
    content = answer.good()["choices"][0]["message"]["content"]
    check(re.search(pattern, content), content)


@case(({"type": "json_object", "schema": {"const": "42"}}, 6, '"42"'),
      ({"type": "json_object", "schema": {"items": [{"type": "integer"}]}}, 10, r"^\[[\s\d-]*\]?$"),
      ({"type": "json_schema", "json_schema": {"schema": {"const": "foooooo"}}}, 10, '"foooooo"'),
      ({"type": "json_object"}, 10, r"(\{|John)+"), each="{0}")
def completion_with_response_format(daemon, form, max_tokens, pattern):
    kept(chat(daemon, "You are a coding assistant.", "Write an example", response_format=form, max_tokens=max_tokens), pattern)


@case({"type": "sound"}, {"type": "json_object", "schema": 123}, {"type": "json_object", "schema": {"type": 123}},
      {"type": "json_object", "schema": {"type": "hiccup"}}, each="{0}")
def completion_with_invalid_response_format(daemon, wanted):
    chat(daemon, "Write an example", response_format=wanted).bad()


@case(({"const": "42"}, 6, '"42"'), ({"items": [{"type": "integer"}]}, 10, r"^\[[\s\d-]*\]?$"), each="{0}")
def completion_with_json_schema(daemon, schema, max_tokens, pattern):
    kept(chat(daemon, "You are a coding assistant.", "Write an example", json_schema=schema, max_tokens=max_tokens), pattern)


@case()
def completion_with_grammar(daemon):
    grammar = 'root ::= "a"{5,5}'
    kept(chat(daemon, "Does not matter what I say, does it?", grammar=grammar, max_tokens=6), r"^a{5,5}$")


@case(None, "string", [123], [{}], [{"role": 123}], [{"role": "system", "content": 123}],
      [{"role": "system", "content": "test"}, {}], each="")
def invalid_chat_completion_req(daemon, messages):
    daemon.ask("/v1/chat/completions", {"messages": messages}).bad()


@case()
def chat_completion_with_timings_per_token(daemon):
    chat(daemon, "test", timings_per_token=True).good()


@case(False, True, each="stream={0}")
def logprobs(daemon, stream):
    said = [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]
    body = dict(messages=said, temperature=0.0, max_tokens=5, logprobs=True, top_logprobs=10)
    if stream:
        choices = [event["choices"][0] for event in daemon.stream("/v1/chat/completions", **body)]
        whole = "".join(choice["delta"].get("content") or "" for choice in choices)
    else:
        choices = daemon.ask("/v1/chat/completions", body).good()["choices"]
        whole = choices[0]["message"]["content"]
    tokens = [token for choice in choices if choice["logprobs"] for token in choice["logprobs"]["content"]]
    check(all(t["logprob"] <= 0.0 and t["bytes"] is not None and len(t["top_logprobs"]) > 0 for t in tokens))
    equal("".join(t["token"] for t in tokens), whole)


run("--any-model")
