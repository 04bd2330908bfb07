/* GET /metrics: the figures against what the answers said, gauges that come back to 0. */
#include "base/clock.h"
#include "base/err.h"
#include "server/metrics/metrics.h"
#include "tests/support/balancer.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the route ---- */

/* The value of a series, whose labels (without model and engine) may be ""; NaN when it is not there. */
static double value_of(const char *text, const char *name, const char *label) {
    size_t n = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *space = strchr(line, ' '), *found = *label ? strstr(line, label) : line;
        if (strncmp(line, name, n) || (line[n] != '{' && line[n] != ' ') || !found || found > space) continue;
        return strtod(space, NULL);
    }
    return NAN;
}

static double read_value(const Daemon *d, const char *name) {
    Answer a = http_get(d, "/metrics");
    double value = value_of(a.body, name, "");
    return value;
}

/* The names that vLLM's own tests look for, those that Prometheus' clients give a process, and ours. */
static const char *const families[][2] = {
    {"gauge", "vllm:num_requests_running vllm:num_requests_waiting vllm:kv_cache_usage_perc vllm:cache_config_info "
              "process_virtual_memory_bytes process_resident_memory_bytes process_open_fds process_max_fds "
              "process_start_time_seconds noised_healthy noised_running noised_running_max noised_queued "
              "noised_queue_wait_seconds noised_kv_blocks "
              "noised_kv_blocks_used noised_threads noised_versions noised_build_info"},
    {"counter",
     "vllm:prefix_cache_queries_total vllm:prefix_cache_hits_total vllm:num_preemptions_total "
     "vllm:spec_decode_num_draft_tokens_total vllm:spec_decode_num_accepted_tokens_total "
     "noised_guessed_tokens_total noised_guessed_tokens_right_total "
     "vllm:prompt_tokens_total vllm:generation_tokens_total vllm:request_success_total "
     "process_cpu_seconds_total noised_http_answers_total noised_http_hung_up_total noised_prompt_tokens_total "
     "noised_generated_tokens_total noised_prefix_queries_total noised_prefix_hits_total noised_steps_total "
     "noised_choices_total noised_reloads_total noised_log_dropped_lines_total "
     "noised_log_lost_lines_total"},
    {"histogram", "vllm:iteration_tokens_total vllm:request_prompt_tokens vllm:request_generation_tokens "
                  "vllm:request_params_n vllm:request_params_max_tokens vllm:time_to_first_token_seconds "
                  "vllm:inter_token_latency_seconds vllm:e2e_request_latency_seconds "
                  "vllm:request_queue_time_seconds vllm:request_inference_time_seconds "
                  "vllm:request_prefill_time_seconds vllm:request_decode_time_seconds "
                  "noised_time_to_first_token_seconds noised_inter_token_seconds noised_end_to_end_seconds "
                  "noised_queue_seconds noised_http_loop_turn_seconds noised_step_phase_seconds"},
};

/* All families of the list are there, as what they are, and no others. */
static void check_families(const char *text) {
    int n = 0;
    for (size_t i = 0; i < COUNTOF(families); i++) {
        char list[2048], *rest = list, line[256];
        snprintf(list, sizeof list, "%s", families[i][1]);
        for (const char *name; (name = strsep(&rest, " ")) != NULL; n++) {
            snprintf(line, sizeof line, "# TYPE %s %s\n", name, families[i][0]);
            CHECK_MSG(text_count(text, line) == 1, "not once: %s", line);
        }
    }
    CHECK_MSG(text_count(text, "# TYPE ") == n, "%d families, %d are known", text_count(text, "# TYPE "), n);
}

/* Every line is a comment or a series with a finite value, every series is there once and has a type. Returns their
 * number. */
static int check_form(const char *text) {
    int n = 0;
    const char *typed = "";
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        char name[256], value[64], *end;
        CHECK_MSG(strchr(line, '\n'), "the last line does not end");
        if (sscanf(line, "# TYPE %255s", name) == 1) typed = line + strlen("# TYPE ");
        if (*line == '#') continue;
        CHECK_MSG(sscanf(line, "%255[^ ] %63s", name, value) == 2, "%.100s", line);
        CHECK_MSG(isfinite(strtod(value, &end)) && !*end, "%.100s", line);
        size_t family = strcspn(typed, " ");
        CHECK_MSG(!strncmp(name, typed, family), "%s has no type", name);
        const char *series = test_text("\n%s ", name);
        CHECK_MSG(text_count(text, series) == 1, "%s is there %d times", name, text_count(text, series));
        n++;
    }
    return n;
}

typedef struct Totals {
    double prompt, generated;
    int choices;
} Totals;

static void ask(const Daemon *d, const char *body, int choices, Totals *t) {
    Answer a = http_post(d, "/v1/completions", body);
    Events e = events_parse(strstr(body, "stream") ? a.body : "");
    const cJSON *json = e.n ? e.data[e.n - 1] : a.json;
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    t->prompt += json_number(json, "usage.prompt_tokens");
    t->generated += json_number(json, "usage.completion_tokens");
    t->choices += choices;
    events_free(&e);
}

TEST(metrics_equal_usage) {
    Daemon d;
    Totals t = {0};
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer before = http_get(&d, "/metrics"); /* /health has said 503 as often as it was asked too early */
    ask(&d, "{\"prompt\":\"The river\",\"max_tokens\":20}", 1, &t);
    ask(&d, "{\"prompt\":[\"The river\",\"a stone\"],\"max_tokens\":9,\"n\":2,\"ignore_eos\":true}", 4, &t);
    ask(&d, "{\"prompt\":\"The mill\",\"max_tokens\":7,\"best_of\":3,\"n\":1}", 3, &t);
    ask(&d, "{\"max_tokens\":60,\"stop\":[\"e\",\" \",\"a\",\"o\"],\"ignore_eos\":true}", 1, &t);
    ask(&d, "{\"prompt\":\"said\",\"max_tokens\":12,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", 1,
        &t);
    ask(&d, "{\"prompt\":\"The miller counts the stones\",\"echo\":true,\"logprobs\":1,\"max_tokens\":0}", 1, &t);
    for (int i = 0; i < 30; i++) {
        http_get(&d, test_text("/path/%d", i));
    }
    Answer a = metrics_now(&d);
    char *type = answer_header(&a, "Content-Type");
    CHECK_MSG(a.status == 200 && type && !strcmp(type, "text/plain; version=0.0.4; charset=utf-8"), "%s", type);
    free(type);
    int n = check_form(a.body);
    check_families(a.body);
    CHECK_MSG(n == check_form(before.body) && n <= 480, "%d series", n);
    const struct {
        const char *name, *label;
        double value;
    } expected[] = {
        {"noised_prompt_tokens_total", "", t.prompt},
        {"noised_generated_tokens_total", "", t.generated},
        {"vllm:prompt_tokens_total", "", t.prompt},
        {"vllm:generation_tokens_total", "", t.generated},
        {"noised_http_answers_total", "class=\"4xx\"", 30},
        {"noised_http_answers_total", "class=\"5xx\"",
         value_of(before.body, "noised_http_answers_total", "class=\"5xx\"")},
        {"noised_end_to_end_seconds_count", "", t.choices},
        {"noised_queue_seconds_count", "", t.choices},
        {"vllm:request_prompt_tokens_count", "", t.choices},
        {"vllm:e2e_request_latency_seconds_count", "", t.choices},
        {"noised_time_to_first_token_seconds_count", "", t.choices - 1}, /* one only scored */
        {"noised_healthy", "", 1},
        {"noised_running", "", 0},
        {"noised_queued", "", 0},
        {"noised_versions", "", 1},
    };
    for (size_t i = 0; i < COUNTOF(expected); i++) {
        double value = value_of(a.body, expected[i].name, expected[i].label);
        CHECK_MSG(value == expected[i].value, "%s{%s} is %g, not %g", expected[i].name, expected[i].label, value,
                  expected[i].value);
    }
    double ended = 0;
    static const char *const ends[] = {"stop", "length", "deadline", "cancelled", "error"};
    for (size_t i = 0; i < COUNTOF(ends); i++) ended += value_of(a.body, "noised_choices_total", ends[i]);
    CHECK_MSG(ended == t.choices && value_of(a.body, "noised_choices_total", "stop") >= 1, "%g choices", ended);
    daemon_stop(&d);
}

/* Its tokens, and the parts of its time. */
TEST(metrics_of_one_answer) {
    Daemon d;
    Totals t = {0};
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    ask(&d, "{\"prompt\":\"The river\",\"max_tokens\":20,\"ignore_eos\":true}", 1, &t);
    Answer a = http_get(&d, "/metrics");
    CHECK_MSG(value_of(a.body, "noised_prompt_tokens_total", "") == t.prompt && t.prompt > 0, "%s", a.body);
    CHECK(value_of(a.body, "noised_generated_tokens_total", "") == 20);
    double whole = value_of(a.body, "vllm:request_inference_time_seconds_sum", ""),
           parts = value_of(a.body, "vllm:request_prefill_time_seconds_sum", "") +
                   value_of(a.body, "vllm:request_decode_time_seconds_sum", "");
    CHECK_MSG(whole > 0 && fabs(whole - parts) < 1e-3 * whole, "%g s, their parts %g s", whole, parts);
    whole += value_of(a.body, "noised_queue_seconds_sum", "");
    parts = value_of(a.body, "noised_time_to_first_token_seconds_sum", "") +
            value_of(a.body, "noised_inter_token_seconds_sum", "");
    CHECK_MSG(fabs(whole - parts) < 1e-3 * whole, "%g s since it came, its tokens %g s", whole, parts);
    ask(&d, "{\"prompt\":\"The river\",\"max_tokens\":400,\"ignore_eos\":true,\"deadline_ms\":1}", 1, &t);
    a = metrics_now(&d);
    CHECK(value_of(a.body, "noised_choices_total", "deadline") == 1); /* whose end counts like others */
    CHECK(value_of(a.body, "noised_end_to_end_seconds_count", "") == 2);
    daemon_stop(&d);
}

TEST(metrics_gauges_return) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 2"));
    int fd = raw_completion(&d, "{\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true,\"n\":3}");
    CHECK(raw_expect(fd, "data: "));
    Answer a = http_get(&d, "/metrics");
    CHECK(value_of(a.body, "noised_running", "") == 2 && value_of(a.body, "vllm:num_requests_running", "") == 2);
    CHECK(value_of(a.body, "noised_queued", "") == 1 && value_of(a.body, "vllm:num_requests_waiting", "") == 1);
    CHECK(value_of(a.body, "noised_running_max", "") == 2 && value_of(a.body, "noised_queue_wait_seconds", "") > 0);
    CHECK(value_of(a.body, "noised_kv_blocks_used", "") > 0 && value_of(a.body, "vllm:kv_cache_usage_perc", "") > 0);
    CHECK(value_of(a.body, "noised_generated_tokens_total", "") > 0);
    close(fd);
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE && read_value(&d, "noised_running") > 0;)
        usleep(5000);
    a = metrics_now(&d);
    static const char *const zero[] = {"noised_running",
                                       "noised_queued",
                                       "noised_queue_wait_seconds",
                                       "noised_kv_blocks_used",
                                       "vllm:num_requests_running",
                                       "vllm:num_requests_waiting",
                                       "vllm:kv_cache_usage_perc",
                                       "noised_end_to_end_seconds_count",
                                       "vllm:request_generation_tokens_count"};
    for (size_t i = 0; i < COUNTOF(zero); i++)
        CHECK_MSG(value_of(a.body, zero[i], "") == 0, "%s is %g", zero[i], value_of(a.body, zero[i], ""));
    CHECK(value_of(a.body, "noised_choices_total", "cancelled") == 3);
    CHECK(value_of(a.body, "noised_http_hung_up_total", "") == 1);
    CHECK(value_of(a.body, "vllm:request_success_total", "abort") == 3);
    daemon_stop(&d);
}

/* What vLLM's own test asks for: ten requests of nine tokens in and ten out, one after the other. */
TEST(metrics_vllm_figures) {
    enum { REQUESTS = 10, PROMPT = 9, TOKENS = 10 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int i = 0; i < REQUESTS; i++) {
        Answer a = http_post(&d, "/v1/completions",
                             "{\"prompt\":[7,8,9,10,11,12,13,14,15],\"max_tokens\":10,\"ignore_eos\":true}");
        CHECK(a.status == 200);
    }
    /* A step is counted after it has handed its tokens over. */
    for (double t0 = now_seconds();
         now_seconds() - t0 < PATIENCE && read_value(&d, "noised_steps_total") < REQUESTS * TOKENS;)
        usleep(5000);
    Answer a = metrics_now(&d);
    static const struct {
        const char *name;
        double value;
    } expected[] = {
        {"vllm:time_to_first_token_seconds_count", REQUESTS},
        {"vllm:inter_token_latency_seconds_count", REQUESTS * (TOKENS - 1)},
        {"vllm:e2e_request_latency_seconds_count", REQUESTS},
        {"vllm:request_queue_time_seconds_count", REQUESTS},
        {"vllm:request_inference_time_seconds_count", REQUESTS},
        {"vllm:request_prefill_time_seconds_count", REQUESTS},
        {"vllm:request_decode_time_seconds_count", REQUESTS},
        {"vllm:request_prompt_tokens_sum", REQUESTS * PROMPT},
        {"vllm:request_prompt_tokens_count", REQUESTS},
        {"vllm:request_generation_tokens_sum", REQUESTS * TOKENS},
        {"vllm:request_generation_tokens_count", REQUESTS},
        {"vllm:request_params_n_sum", REQUESTS},
        {"vllm:request_params_n_count", REQUESTS},
        {"vllm:request_params_max_tokens_sum", REQUESTS * TOKENS},
        {"vllm:request_params_max_tokens_count", REQUESTS},
        {"vllm:iteration_tokens_total_sum", REQUESTS * (PROMPT + TOKENS)},
        {"vllm:iteration_tokens_total_count", REQUESTS * TOKENS},
        {"vllm:prompt_tokens_total", REQUESTS * PROMPT},
        {"vllm:generation_tokens_total", REQUESTS * TOKENS},
        {"vllm:cache_config_info", 1},
    };
    for (size_t i = 0; i < COUNTOF(expected); i++) {
        double value = value_of(a.body, expected[i].name, "");
        CHECK_MSG(value == expected[i].value, "%s is %g, not %g", expected[i].name, value, expected[i].value);
    }
    CHECK(value_of(a.body, "vllm:request_success_total", "finished_reason=\"length\"") == REQUESTS);
    CHECK(strstr(a.body, ",block_size=\"32\",cache_dtype=\"F32\",num_gpu_blocks=\""));
    CHECK(strstr(a.body, "\nnoised_build_info{version=\"" NOISED_VERSION "\","));
    daemon_stop(&d);
}

TEST(metrics_of_the_process) {
    Daemon d;
    double before = (double)time(NULL);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/metrics");
    double cpu = value_of(a.body, "process_cpu_seconds_total", "");
    double started = value_of(a.body, "process_start_time_seconds", "");
    double resident = value_of(a.body, "process_resident_memory_bytes", "");
    double most = value_of(a.body, "process_max_fds", ""), open = value_of(a.body, "process_open_fds", "");
    CHECK_MSG(cpu > 0 && cpu < 1e4, "%g s", cpu);
    CHECK_MSG(started >= before && started <= (double)time(NULL) + 1, "%g, %g", before, started);
    CHECK_MSG(resident > 1e6 && resident <= value_of(a.body, "process_virtual_memory_bytes", ""), "%g", resident);
    CHECK_MSG(open >= 5 && open < most, "%g of %g", open, most);
    int fds[32];
    for (size_t i = 0; i < COUNTOF(fds); i++) fds[i] = raw_connect(&d);
    a = metrics_now(&d);
    double more = value_of(a.body, "process_open_fds", "") - open; /* clients before may still be going */
    CHECK_MSG(more > 28 && more < 36, "%g more", more);
    CHECK(value_of(a.body, "process_start_time_seconds", "") == started);
    for (size_t i = 0; i < COUNTOF(fds); i++) close(fds[i]);
    daemon_stop(&d);
}

/* However often it is asked for, it is written once a second. */
TEST(metrics_are_written_once_a_second) {
    Daemon d;
    bool quick = false;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int i = 0; i < 20 && !quick; i++) {
        double t0 = now_seconds();
        Answer a = metrics_now(&d); /* at t0 + 1.01 or later */
        http_get(&d, "/nowhere");
        Answer b = http_get(&d, "/metrics");
        quick = now_seconds() - t0 < 1.9;
        CHECK(!quick || !strcmp(a.body, b.body));
        a = metrics_now(&d);
        CHECK(strcmp(a.body, b.body) != 0);
    }
    CHECK(quick);
    daemon_stop(&d);
}

/* ---- a port of its own ---- */

static int status_of(const Daemon *d, const char *method, const char *path, const char *header, const char *body) {
    Answer a = http_request(d, method, path, header, body);
    int status = a.status;
    return status;
}

/* It takes no key, and has no other route; the server's own port wants the key as ever. */
TEST(metrics_port_asks_for_no_key) {
    Daemon d, port = {0};
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "key\n");
    port.port = free_port();
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL,
                         test_text("--api-key-file %s --metrics-port %d --max-connections 1", path, port.port)));
    CHECK(status_of(&d, NULL, "/metrics", NULL, NULL) == 401 &&
          status_of(&d, NULL, "/metrics", "X-Api-Key: key", NULL) == 200);
    Answer a = http_get(&port, "/metrics");
    char *type = answer_header(&a, "Content-Type");
    CHECK_MSG(a.status == 200 && type && !strcmp(type, "text/plain; version=0.0.4; charset=utf-8"), "%d", a.status);
    check_families(a.body);
    free(type);
    static const char *const others[] = {"/", "/health", "/v1/models", "/streams", "/slots", "/metrics/"};
    for (size_t i = 0; i < COUNTOF(others); i++)
        CHECK_MSG(status_of(&port, NULL, others[i], "X-Api-Key: key", NULL) == 404, "%s", others[i]);
    CHECK(status_of(&port, NULL, "/v1/completions", "X-Api-Key: key", "{\"prompt\":\"a\"}") == 404);
    CHECK(status_of(&port, NULL, "/metrics", NULL, "{}") == 405);
    CHECK(status_of(&port, NULL, "/metrics", "Host: evil.example", NULL) == 403);
    /* All places of the server are taken. */
    int fd = raw_connect(&d);
    CHECK(fd >= 0 && status_of(&port, NULL, "/metrics", NULL, NULL) == 200);
    close(fd);
    daemon_stop(&d);
}

TEST(metrics_port_that_is_taken) {
    Daemon d;
    char *text;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    CHECK(daemon_run(test_text("--port 0 --metrics-port %d --model /nowhere", d.port), &text) == 1);
    CHECK_MSG(strstr(text, test_text("%d", d.port)) && !strstr(text, "/nowhere"), "%s", text);
    free(text);
    daemon_stop(&d);
}
