/* GET /metrics: its form, the figures against what the answers said, gauges that come back to 0. */
#include "base/clock.h"
#include "base/err.h"
#include "server/metrics/metrics.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the module ---- */

TEST(metrics_histograms) {
    static Metrics m;
    Buffer b = {0};
    metrics_observe(NULL, TIME_QUEUE, 1);
    metrics_observe(&m, SIZE_CHOICES, 1); /* a bound belongs to its bucket */
    metrics_observe(&m, SIZE_CHOICES, 3);
    metrics_observe(&m, SIZE_CHOICES, 1000);
    metrics_observe(&m, TIME_BETWEEN, 0.002);
    metrics_observe(&m, TIME_BETWEEN, -1);
    metrics_count(&m, COUNT_STEPS, 7);
    metrics_print(&b, &m, &(Gauges){.running = 3, .kv_blocks = 8, .kv_blocks_used = 2}, "a\"b\\c");
    buffer_append(&b, "", 1);
    static const char *const lines[] = {
        "\nvllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\",le=\"1\"} 1\n",
        ",le=\"2\"} 1\n",
        "vllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\",le=\"4\"} 2\n",
        "vllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\",le=\"+Inf\"} 3\n",
        "vllm:request_params_n_sum{engine=\"0\",model_name=\"a\\\"b\\\\c\"} 1004\n",
        "vllm:request_params_n_count{engine=\"0\",model_name=\"a\\\"b\\\\c\"} 3\n",
        "\nnoised_inter_token_seconds_bucket{le=\"0.0005\"} 1\n",
        "\nnoised_inter_token_seconds_bucket{le=\"0.0025\"} 2\n",
        "\nnoised_inter_token_seconds_sum 0.002\n",
        "\nnoised_steps_total 7\n",
        "\nnoised_running 3\n",
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\\\"b\\\\c\"} 0.25\n",
    };
    for (size_t i = 0; i < COUNTOF(lines); i++) CHECK_MSG(strstr(b.data, lines[i]), "no %s in %s", lines[i], b.data);
    buffer_free(&b);
}

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
    answer_free(&a);
    return value;
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
        char series[300];
        snprintf(series, sizeof series, "\n%s ", name);
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
    answer_free(&a);
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
        char path[64];
        snprintf(path, sizeof path, "/path/%d", i);
        Answer a = http_get(&d, path);
        answer_free(&a);
    }
    Answer a = http_get(&d, "/metrics");
    char *type = answer_header(&a, "Content-Type");
    CHECK_MSG(a.status == 200 && type && !strcmp(type, "text/plain; version=0.0.4; charset=utf-8"), "%s", type);
    free(type);
    int n = check_form(a.body);
    CHECK_MSG(n == check_form(before.body) && n <= 225, "%d series", n);
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
    answer_free(&before);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(metrics_gauges_return) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 2"));
    int fd = raw_completion(&d, "{\"max_tokens\":3000,\"ignore_eos\":true,\"stream\":true,\"n\":3}");
    CHECK(raw_expect(fd, "data: ", 5));
    Answer a = http_get(&d, "/metrics");
    CHECK(value_of(a.body, "noised_running", "") == 2 && value_of(a.body, "vllm:num_requests_running", "") == 2);
    CHECK(value_of(a.body, "noised_queued", "") == 1 && value_of(a.body, "vllm:num_requests_waiting", "") == 1);
    CHECK(value_of(a.body, "noised_kv_blocks_used", "") > 0 && value_of(a.body, "vllm:kv_cache_usage_perc", "") > 0);
    CHECK(value_of(a.body, "noised_generated_tokens_total", "") > 0);
    answer_free(&a);
    close(fd);
    for (double t0 = now_seconds(); now_seconds() - t0 < 2 && read_value(&d, "noised_running") > 0;) usleep(5000);
    a = http_get(&d, "/metrics");
    static const char *const zero[] = {"noised_running",
                                       "noised_queued",
                                       "noised_kv_blocks_used",
                                       "vllm:num_requests_running",
                                       "vllm:num_requests_waiting",
                                       "vllm:kv_cache_usage_perc"};
    for (size_t i = 0; i < COUNTOF(zero); i++)
        CHECK_MSG(value_of(a.body, zero[i], "") == 0, "%s is %g", zero[i], value_of(a.body, zero[i], ""));
    CHECK(value_of(a.body, "noised_choices_total", "cancelled") == 3);
    CHECK(value_of(a.body, "vllm:request_success_total", "abort") == 3);
    answer_free(&a);
    daemon_stop(&d);
}
