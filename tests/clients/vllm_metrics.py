"""vLLM's tests of its metrics, translated: the names, and that they count what was asked."""
import time

from suite import Daemon, case, check, equal, run

IDS = [5, 5, 5, 5, 5]
HISTOGRAMS = """request_prompt_tokens request_generation_tokens request_params_n request_params_max_tokens
time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds request_queue_time_seconds
request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds iteration_tokens_total""".split()
OTHERS = """num_requests_running num_requests_waiting kv_cache_usage_perc prefix_cache_queries prefix_cache_hits
num_preemptions_total prompt_tokens_total generation_tokens_total request_success_total cache_config_info""".split()


@case(*OTHERS, *(h + end for h in HISTOGRAMS for end in ("_sum", "_bucket", "_count")))
def metric(daemon, name):
    text = daemon.ask("/metrics").text
    check(any(line.startswith((f"vllm:{name}{{", f"vllm:{name} ", f"vllm:{name}_total{{")) for line in text.split("\n")),
          "vllm:" + name)


@case()
def metrics_count_what_was_asked(daemon):
    with Daemon() as fresh:
        for _ in range(10):
            usage = fresh.complete(prompt=IDS, max_tokens=10, temperature=0.0, ignore_eos=True)["usage"]
            equal((usage["prompt_tokens"], usage["completion_tokens"]), (5, 10))
        wanted = {"prompt_tokens_total": 50, "generation_tokens_total": 100, "request_success_total": 10,
                  "request_prompt_tokens_sum": 50, "request_generation_tokens_sum": 100, "num_requests_running": 0,
                  "request_params_n_sum": 10, "request_params_max_tokens_sum": 100, "request_params_n_count": 10,
                  "time_to_first_token_seconds_count": 10, "e2e_request_latency_seconds_count": 10}
        for _ in range(100):  # the last answer may be here before the engine has let go of it
            found = {}
            for line in fresh.ask("/metrics").text.split("\n"):
                if line.startswith("vllm:"):
                    name, value = line[5:].split("{")[0].split(" ")[0], float(line.rsplit(" ", 1)[1])
                    found[name] = found.get(name, 0) + value
            if found.get("num_requests_running") == 0:
                break
            time.sleep(0.1)
        equal({name: found.get(name) for name in wanted}, wanted)


run()
