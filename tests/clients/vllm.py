"""vLLM's tests of completions, translated. What they say about their model is left out."""
import json
import re

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


# ---- structured outputs, of completions and of chats ----

EMPLOYEE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "skills": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 3},
        "work_history": {"type": "array", "items": {
            "type": "object",
            "properties": {"company": {"type": "string"}, "duration": {"type": "number"}, "position": {"type": "string"}},
            "required": ["company", "position"]}},
    },
    "required": ["name", "age", "skills", "work_history"],
}
ADDRESS = r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.){3}(25[0-5]|(2[0-4]|1\d|[1-9]|)\d)"
LANGUAGES = ["Python", "Java", "JavaScript", "C++", "C#", "PHP", "TypeScript", "Ruby", "Swift", "Kotlin"]
SQL = """
start: select_statement
select_statement: "SELECT" column "from" table "where" condition
column: "col_1" | "col_2"
table: "table_1" | "table_2"
condition: column "=" number
number: "1" | "2"
"""


def talk(daemon, said, **body):
    answer = daemon.ask("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": said}], **body})
    return answer.good()["choices"][0]


def is_employee(text):
    """Told apart by the few words of JSON Schema that EMPLOYEE has."""
    one = json.loads(text)
    check(set(one) == set(EMPLOYEE["required"]) and type(one["name"]) is str and type(one["age"]) is int, text)
    check(len(one["skills"]) >= 3 and all(len(skill) <= 10 for skill in one["skills"]), text)
    for work in one["work_history"]:
        check({"company", "position"} <= set(work) and set(work) <= {"company", "duration", "position"}, text)


def ended(answer):
    """Strings have no end in EMPLOYEE, and which of a few seeds come to one within max_tokens depends on the last bits
    of the machine's arithmetic."""
    choices = [choice for choice in answer["choices"] if choice["finish_reason"] == "stop"]
    check(choices, answer)
    return choices


@case()
def structured_outputs_json_completion(daemon):
    answer = complete(daemon, prompt="Give an example of an employee:", n=8, temperature=1.0, max_tokens=480, seed=4,
                      structured_outputs={"json": EMPLOYEE})
    equal(len(answer["choices"]), 8)
    for choice in ended(answer):
        is_employee(choice["text"])


@case()
def structured_outputs_regex_completion(daemon):
    answer = complete(daemon, prompt="Give an example IPv4 address", n=3, temperature=1.0, max_tokens=20,
                      structured_outputs={"regex": ADDRESS})
    equal(len(answer["choices"]), 3)
    check(all(re.fullmatch(ADDRESS, choice["text"]) for choice in answer["choices"]), answer)


@case()
def structured_outputs_choice_completion(daemon):
    answer = complete(daemon, prompt="The best language for type-safe systems programming is ", n=2, temperature=1.0,
                      max_tokens=10, structured_outputs={"choice": LANGUAGES})
    check([choice["text"] in LANGUAGES for choice in answer["choices"]] == [True, True], answer)


@case()
def structured_outputs_grammar(daemon):
    answer = complete(daemon, prompt="Generate a sql state that select col_1 from table_1 where it is equals to 1",
                      temperature=1.0, max_tokens=500, structured_outputs={"grammar": SQL})
    check("SELECT" in answer["choices"][0]["text"])


@case()
def structured_outputs_choice_chat(daemon):
    first = talk(daemon, "The best language for type-safe systems programming is ", max_tokens=10, temperature=0.7,
                 structured_outputs={"choice": LANGUAGES})["message"]["content"]
    check(first in LANGUAGES, first)


@case()
def structured_outputs_json_chat(daemon):
    answer = daemon.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Give an example of an employee:"}],
                        "n": 8, "max_tokens": 480, "seed": 2, "structured_outputs": {"json": EMPLOYEE}}).good()
    for choice in ended(answer):
        is_employee(choice["message"]["content"])


@case()
def structured_outputs_regex_chat(daemon):
    text = talk(daemon, "Give an example IP address with this regex:", max_tokens=20,
                structured_outputs={"regex": ADDRESS})["message"]["content"]
    check(re.fullmatch(ADDRESS, text), text)


@case()
def structured_outputs_type_error(daemon):
    body = {"messages": [{"role": "user", "content": "The best language is "}]}
    daemon.ask("/v1/chat/completions", {**body, "structured_outputs": {"regex": {1: "Python", 2: "C++"}}}).bad()


@case()
def structured_outputs_choice_chat_logprobs(daemon):
    choice = talk(daemon, "The best language for type-safe systems programming is ", max_tokens=10, logprobs=True,
                  top_logprobs=5, structured_outputs={"choice": LANGUAGES})
    check(all(top["logprob"] >= -9999.0 for token in choice["logprobs"]["content"] for top in token["top_logprobs"]))


@case()
def response_format_json_object(daemon):
    for _ in range(2):
        content = talk(daemon, "What is 1+1? Respond with a JSON object: {\"result\": 2}", seed=2, max_tokens=200,
                       response_format={"type": "json_object"})["message"]["content"]
        check(isinstance(json.loads(content), dict), content)


@case()
def response_format_json_schema(daemon):
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}}
    for _ in range(2):
        content = talk(daemon, "what is 1+1? please respond with a JSON object, the format is {\"result\": 2}", seed=2,
                       response_format={"type": "json_schema", "json_schema": {"name": "foo_test", "schema": schema}})
        check(isinstance(json.loads(content["message"]["content"]), dict), content)


# Noise acts at temperature 0 too, where these tests expect one answer.
run("--alias", MODEL, "--noise-seed", "0")
