"""vLLM's tests of completions, translated. What they say about their model is left out."""
from suite import case, check, equal, run

MODEL = "facebook/opt-125m"
IDS = [5, 5, 5, 5, 5]


def ask(daemon, **body):
    return daemon.ask("/v1/completions", {"model": MODEL, **body})


def complete(daemon, **body):
    return ask(daemon, **body).good()


@case()
def single_completion(daemon):
    answer = complete(daemon, prompt="Hello, my name is", max_tokens=5, temperature=0.0)
    equal(len(answer["choices"]), 1)
    check(answer["id"] and len(answer["choices"][0]["text"]) >= 5)
    equal(answer["choices"][0]["finish_reason"], "length")
    usage = answer["usage"]
    equal((usage["completion_tokens"], usage["total_tokens"]), (5, usage["prompt_tokens"] + 5))
    equal(usage["prompt_tokens_details"]["cached_tokens"], 0)
    answer = complete(daemon, prompt=IDS, max_tokens=5, temperature=0.0)
    check(len(answer["choices"][0]["text"]) >= 1 and answer["choices"][0].get("prompt_logprobs") is None)


@case()
def truncation_side_controls_prompt_truncation(daemon):
    ids = list(range(8))
    for side, left in (("right", ids[:4]), ("left", ids[-4:])):
        wish = dict(return_token_ids=True, truncate_prompt_tokens=4, truncation_side=side)
        answer = complete(daemon, prompt=ids, max_tokens=1, temperature=0.0, **wish)
        equal(answer["choices"][0]["prompt_token_ids"], left)


@case()
def no_logprobs(daemon):
    answer = complete(daemon, prompt=IDS, max_tokens=5, temperature=0.0, logprobs=None)
    equal(answer["choices"][0]["logprobs"], None)


@case()
def zero_logprobs(daemon):
    logprobs = complete(daemon, prompt=IDS, max_tokens=5, temperature=0.0, logprobs=0)["choices"][0]["logprobs"]
    check(logprobs["token_logprobs"])
    equal(len(logprobs["top_logprobs"][0]), 1)


@case()
def some_logprobs(daemon):
    logprobs = complete(daemon, prompt=IDS, max_tokens=5, temperature=0.0, logprobs=5)["choices"][0]["logprobs"]
    check(logprobs["token_logprobs"] and 5 <= len(logprobs["top_logprobs"][0]) <= 6)


@case()
def too_many_completion_logprobs(daemon):
    ask(daemon, prompt=IDS, max_tokens=5, temperature=0.0, logprobs=21).bad()
    ask(daemon, prompt=IDS, max_tokens=5, temperature=0.0, logprobs=30, stream=True).bad()
    complete(daemon, prompt=IDS, max_tokens=5, temperature=0.0)


@case(-1, 0, 1, None)
def prompt_logprobs_completion(daemon, wanted):
    extra = {} if wanted is None else {"prompt_logprobs": wanted}
    answer = ask(daemon, prompt=["A robot may not injure another robot", "My name is"], **extra)
    if wanted is not None and wanted < 0:
        answer.bad()
        return
    for choice in answer.good()["choices"]:
        equal(len(choice.get("prompt_logprobs") or []) > 0, wanted is not None)


@case()
def completion_streaming(daemon):
    body = dict(model=MODEL, prompt="What is an LLM?", max_tokens=5, temperature=0.0)
    whole = complete(daemon, **body)["choices"][0]["text"]
    events = daemon.stream(**body)
    ends = [event["choices"][0]["finish_reason"] for event in events]
    equal(ends, [None] * (len(events) - 1) + ["length"])
    check(events[-1]["choices"][0]["text"])
    equal("".join(event["choices"][0]["text"] for event in events), whole)


@case()
def parallel_no_streaming(daemon):
    body = dict(prompt="What is an LLM?", max_tokens=50, n=3, temperature=1.0, logprobs=0, seed=42, stream=False)
    choices = complete(daemon, **body)["choices"]
    equal([choice["index"] for choice in choices], [0, 1, 2])
    check(all(choice["finish_reason"] for choice in choices))
    equal(len({choice["text"] for choice in choices}), 3)


@case()
def parallel_streaming(daemon):
    texts, ends = ["", "", ""], 0
    for event in daemon.stream(model=MODEL, prompt="What is an LLM?", max_tokens=50, n=3, temperature=1.0, seed=42):
        choice = event["choices"][0]
        texts[choice["index"]] += choice["text"]
        ends += choice["finish_reason"] is not None
    equal((ends, len(set(texts))), (3, 3))


@case()
def completion_stream_options(daemon):
    body = dict(model=MODEL, prompt="What is the capital of France?", max_tokens=5, temperature=0.0)

    def stream(**options):
        return daemon.stream(**body, stream_options=options)

    def is_sum(usage):
        check(usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0)
        equal(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    for options in ({"include_usage": False, "continuous_usage_stats": False},
                    {"include_usage": False, "continuous_usage_stats": True}, {}):
        check(all(event.get("usage") is None for event in stream(**options)), options)
    for continuous in (False, True):
        *events, last = stream(include_usage=True, continuous_usage_stats=continuous)
        equal(last["choices"], [])
        is_sum(last["usage"])
        for event in events:
            if continuous:
                is_sum(event["usage"])
            else:
                equal(event["usage"], None)
    for options in ({"include_usage": None}, {"include_usage": True}, {"continuous_usage_stats": None},
                    {"continuous_usage_stats": True}):
        ask(daemon, **{**body, "stream": False, "stream_options": options}).bad()


@case()
def batch_completions(daemon):
    for prompts in (["Hello, my name is"] * 2, [IDS] * 2):
        body = dict(model=MODEL, prompt=prompts, max_tokens=5, temperature=0.0)
        choices = complete(daemon, **body)["choices"]
        equal(len(choices), 2)
        equal(choices[0]["text"], choices[1]["text"])
        texts = ["", ""]
        for event in daemon.stream(**body):
            equal(len(event["choices"]), 1)
            texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
        equal(texts, [choices[0]["text"]] * 2)


@case()
def batch_completions_by_beams(daemon):
    body = dict(prompt=["Hello, my name is"] * 2, n=2, max_tokens=5, temperature=0.0, use_beam_search=True)
    texts = [choice["text"] for choice in complete(daemon, **body)["choices"]]
    check(texts[0] != texts[1] and texts[:2] == texts[2:], texts)


@case(1, 0)
def echo_logprob_completion(daemon, wanted):
    for prompt in ("Hello, my name is", IDS):
        answer = complete(daemon, prompt=prompt, max_tokens=5, temperature=0.0, echo=True, logprobs=wanted)
        text = prompt if isinstance(prompt, str) else daemon.ask("/detokenize", {"tokens": prompt}).good()["prompt"]
        check(answer["choices"][0]["text"].startswith(text), answer["choices"][0]["text"])
        logprobs = answer["choices"][0]["logprobs"]
        check(min(len(logprobs[k]) for k in ("text_offset", "token_logprobs", "top_logprobs", "tokens")) > 5)
        equal((logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]), (None, None))
        check(all(max(wanted, 1) <= len(top) <= wanted + 1 for top in logprobs["top_logprobs"][1:]))


@case({"json": {"type": "object", "properties": {"foo": "bar"}}}, {"regex": "[.*"}, {"grammar": "root ::= nothing"},
      each="")
def invalid_structured_output(daemon, wanted):
    ask(daemon, prompt="Generate a JSON with the brand", structured_outputs=wanted).bad()


# Noise acts at temperature 0 too, where these tests expect one answer.
run("--alias", MODEL, "--noise-seed", "0")
