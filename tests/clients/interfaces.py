"""What user interfaces send with the settings that they come with: mikupad, SillyTavern, open-webui."""
from suite import Daemon, case, check, equal, run

TEXT = "[INST]Write a story.[/INST] It was"

# mikupad, "OpenAI compatible", which renames the fields of llama-server
MIKUPAD = {
    "prompt": TEXT, "temperature": 0.7, "dynatemp_range": 0, "dynatemp_exponent": 1, "presence_penalty": 0,
    "frequency_penalty": 0, "penalize_nl": False, "seed": -1, "top_k": 40, "top_p": 0.95, "typical_p": 1, "min_p": 0,
    "mirostat_tau": 5.0, "mirostat_eta": 0.1, "xtc_threshold": 0.1, "xtc_probability": 0, "dry_multiplier": 0,
    "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "stream": True, "cache_prompt": True,
    "max_context_length": 8192, "max_tokens": 32, "logprobs": 10, "repetition_penalty": 1.1,
    "repetition_penalty_range": 256, "tfs": 1, "mirostat_mode": 0, "ban_eos_token": False,
}

# SillyTavern by type of server. Its own server sends on what it gets, for some types only known fields.
TAVERN = {
    "prompt": TEXT, "model": "", "max_new_tokens": 32, "max_tokens": 32, "temperature": 0.7, "top_p": 0.5, "typical_p": 1,
    "typical": 1, "sampler_seed": -1, "min_p": 0, "repetition_penalty": 1.2, "frequency_penalty": 0, "presence_penalty": 0,
    "top_k": 40, "skew": 0, "min_tokens": 0, "add_bos_token": True, "smoothing_factor": 0, "smoothing_curve": 1,
    "dry_allowed_length": 2, "dry_multiplier": 0, "dry_base": 1.75, "dry_sequence_breakers": '["\\n", ":", "\\"", "*"]',
    "dry_penalty_last_n": 0, "max_tokens_second": 0, "stopping_strings": ["\nUser:"], "stop": ["\nUser:"],
    "truncation_length": 2048, "ban_eos_token": False, "skip_special_tokens": True, "top_a": 0, "tfs": 1,
    "mirostat_mode": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "custom_token_bans": "", "banned_strings": [],
    "api_server": "http://127.0.0.1:8080", "legacy_api": False, "xtc_threshold": 0.1, "xtc_probability": 0,
    "stream": True,
}
OTHERS = {
    "rep_pen": 1.2, "rep_pen_range": 0, "repetition_penalty_range": 0, "seed": -1, "guidance_scale": 1,
    "negative_prompt": "", "grammar_string": "", "repeat_penalty": 1.2, "tfs_z": 1, "repeat_last_n": 0, "n_predict": 32,
    "num_predict": 32, "num_ctx": 2048, "mirostat": 0, "ignore_eos": False, "rep_pen_slope": 1,
}
OOBA = {
    "min_length": 0, "num_beams": 1, "length_penalty": 1, "early_stopping": False, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "sampler_priority": ["repetition_penalty", "temperature", "top_k"], "encoder_repetition_penalty": 1,
    "no_repeat_ngram_size": 0, "penalty_alpha": 0, "temperature_last": True, "do_sample": True,
}
KNOWN = {
    "generic": "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop "
               "stream suffix temperature top_p user",
    "vllm": "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream "
            "suffix temperature top_p user use_beam_search top_k min_p repetition_penalty length_penalty early_stopping "
            "stop_token_ids ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens "
            "include_stop_str_in_output response_format guided_json guided_regex guided_choice guided_grammar",
}
VLLM = {"n": 1, "best_of": 1, "ignore_eos": False, "spaces_between_special_tokens": True}


def body_of(kind):
    if kind == "vllm":
        whole = {**TAVERN, "model": "demo", **VLLM}
    else:
        whole = {**TAVERN, "model": "demo", **OTHERS, **(OOBA if kind == "ooba" else {})}
    body = {**whole, "api_type": kind}
    return {k: v for k, v in body.items() if k in KNOWN[kind].split()} if kind in KNOWN else body


def streams(daemon, body):
    events = daemon.stream(**body)
    check("".join(event["choices"][0]["text"] for event in events))
    return events


@case()
def mikupad_completion(daemon):
    events = streams(daemon, MIKUPAD)
    check(all(len(event["choices"][0]["logprobs"]["top_logprobs"][0]) >= 10 for event in events if event["choices"][0]["text"]))


@case()
def mikupad_chat(daemon):
    body = {k: v for k, v in MIKUPAD.items() if k not in ("prompt", "logprobs")}
    body.update(messages=[{"role": "user", "content": "Write a story."}], logprobs=True, top_logprobs=10)
    check(daemon.stream("/v1/chat/completions", **body))


@case()
def mikupad_models(daemon):
    equal([m["id"] for m in daemon.ask("/v1/models", headers={"Authorization": "Bearer "}).good()["data"]], ["demo"])


@case("generic", "vllm", "ooba")
def sillytavern(daemon, kind):
    streams(daemon, body_of(kind))


@case()
def sillytavern_ooba_lenient(daemon):
    with Daemon("--lenient") as lenient:
        streams(lenient, body_of("ooba"))


@case()
def sillytavern_status(daemon):
    equal(daemon.ask("/v1/models").good()["data"][0]["id"], "demo")


@case(True, False, each="stream={0}")
def open_webui_chat(daemon, stream):
    body = {"stream": stream, "model": "demo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32}
    if stream:
        events = daemon.stream("/v1/chat/completions", **body, stream_options={"include_usage": True})
        check(events[-1]["usage"]["completion_tokens"] > 0)
    else:
        check(daemon.ask("/v1/chat/completions", body).good()["choices"][0]["message"]["content"])


@case()
def open_webui_title(daemon):
    body = {"model": "demo", "messages": [{"role": "user", "content": "### Task: a title"}], "stream": False,
            "max_completion_tokens": 32}
    daemon.ask("/v1/chat/completions", body).good()


@case()
def open_webui_models(daemon):
    model = daemon.ask("/v1/models", headers={"Authorization": "Bearer sk-none"}).good()["data"][0]
    equal((model["id"], model["object"]), ("demo", "model"))


run()
