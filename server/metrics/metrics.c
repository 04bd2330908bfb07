#include "server/metrics/metrics.h"

#include "base/err.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

void metrics_count(Metrics *m, Counter c, uint64_t n) {
    if (m) atomic_fetch_add_explicit(&m->counters[c], n, memory_order_relaxed);
}

/* ---- histograms ---- */

/* Upper bounds, ascending; rows of sizes end early. */
static const double bounds[DISTRIBUTIONS][METRIC_BOUNDS] = {
    [TIME_QUEUE] = {0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1, 5, 20, 60},
    [TIME_FIRST_TOKEN] = {0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30},
    [TIME_BETWEEN] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1},
    [TIME_WHOLE] = {0.01, 0.05, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600},
    [TIME_PREFILL] = {0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30},
    [TIME_DECODE] = {0.01, 0.05, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600},
    [TIME_TURN] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1, 1},
    [SIZE_STEP] = {1, 4, 16, 64, 256, 1024},
    [SIZE_PROMPT] = {1, 16, 64, 256, 1024, 4096},
    [SIZE_GENERATED] = {1, 16, 64, 256, 1024, 4096},
    [SIZE_CHOICES] = {1, 2, 4, 8, 16, 64},
};

static bool is_time(Distribution d) { return d <= TIME_TURN; }

static int n_bounds(Distribution d) {
    int n = 0;
    while (n < METRIC_BOUNDS && bounds[d][n] > 0) n++;
    return n;
}

void metrics_observe(Metrics *m, Distribution d, double value) {
    if (!m) return;
    int b = 0, n = n_bounds(d);
    value = MAX(value, 0);
    while (b < n && value > bounds[d][b]) b++;
    Histogram *h = &m->histograms[d];
    atomic_fetch_add_explicit(&h->counts[b], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, (uint64_t)(is_time(d) ? value * 1e9 : value), memory_order_relaxed);
}

/* ---- printing ---- */

static void print_head(Buffer *b, const char *name, const char *type, const char *help) {
    buffer_print(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* labels: "" or a="b",... */
static void print_series(Buffer *b, const char *name, const char *labels, double value) {
    buffer_print(b, *labels ? "%s{%s} %.15g\n" : "%s%s %.15g\n", name, labels, value);
}

static void print_histogram(Buffer *b, const char *name, const char *labels, const Metrics *m, Distribution d) {
    const Histogram *h = &m->histograms[d];
    const char *comma = *labels ? "," : "";
    uint64_t total = 0;
    int n = n_bounds(d);
    for (int i = 0; i <= n; i++) {
        char bound[32] = "+Inf";
        if (i < n) snprintf(bound, sizeof bound, "%g", bounds[d][i]);
        total += atomic_load(&h->counts[i]);
        buffer_print(b, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, comma, bound, total);
    }
    char sum[128], count[128];
    snprintf(sum, sizeof sum, "%s_sum", name);
    snprintf(count, sizeof count, "%s_count", name);
    print_series(b, sum, labels, (double)atomic_load(&h->sum) * (is_time(d) ? 1e-9 : 1));
    print_series(b, count, labels, (double)total);
}

/* Rows of one name stand together; the first has the help. */
typedef struct CounterRow {
    Counter counter;
    const char *name, *label, *help;
} CounterRow;

static const CounterRow own_counters[] = {
    {COUNT_ANSWERS_2XX, "noised_http_answers_total", "class=\"2xx\"", "Answers by class of their status."},
    {COUNT_ANSWERS_4XX, "noised_http_answers_total", "class=\"4xx\"", NULL},
    {COUNT_ANSWERS_5XX, "noised_http_answers_total", "class=\"5xx\"", NULL},
    {COUNT_PROMPT_TOKENS, "noised_prompt_tokens_total", "", "Prompt tokens of accepted requests, as in usage."},
    {COUNT_GENERATED_TOKENS, "noised_generated_tokens_total", "", "Tokens of answers, as in usage."},
    {COUNT_PREFIX_QUERIES, "noised_prefix_queries_total", "", "Prompt tokens looked up in the cache, per choice."},
    {COUNT_PREFIX_HITS, "noised_prefix_hits_total", "", "Prompt tokens taken from the cache, per choice."},
    {COUNT_STEPS, "noised_steps_total", "", "Batches computed."},
    {COUNT_STOP, "noised_choices_total", "finish=\"stop\"", "Choices by how they ended."},
    {COUNT_LENGTH, "noised_choices_total", "finish=\"length\"", NULL},
    {COUNT_DEADLINE, "noised_choices_total", "finish=\"deadline\"", NULL},
    {COUNT_CANCELLED, "noised_choices_total", "finish=\"cancelled\"", NULL},
    {COUNT_ERROR, "noised_choices_total", "finish=\"error\"", NULL},
    {COUNT_RELOADS, "noised_reloads_total", "result=\"done\"", "Reloads of the checkpoint."},
    {COUNT_RELOADS_REFUSED, "noised_reloads_total", "result=\"refused\"", NULL},
};

typedef struct HistogramRow {
    Distribution distribution;
    const char *own, *vllm, *help; /* names, NULL for none */
} HistogramRow;

static const HistogramRow histograms[] = {
    {TIME_FIRST_TOKEN, "noised_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
     "From submission to the first token."},
    {TIME_BETWEEN, "noised_inter_token_seconds", "vllm:inter_token_latency_seconds", "From one token to the next."},
    {TIME_WHOLE, "noised_end_to_end_seconds", "vllm:e2e_request_latency_seconds", "From submission to the end."},
    {TIME_QUEUE, "noised_queue_seconds", "vllm:request_queue_time_seconds", "In the queue."},
    {TIME_PREFILL, NULL, "vllm:request_prefill_time_seconds", "From the start to the first token."},
    {TIME_DECODE, NULL, "vllm:request_decode_time_seconds", "From the first token to the last."},
    {TIME_TURN, "noised_http_loop_turn_seconds", NULL, "One turn of the HTTP thread: what others wait for."},
    {SIZE_STEP, NULL, "vllm:iteration_tokens_total", "Rows of a batch."},
    {SIZE_PROMPT, NULL, "vllm:request_prompt_tokens", "Tokens of the prompt."},
    {SIZE_GENERATED, NULL, "vllm:request_generation_tokens", "Tokens of the answer."},
    {SIZE_CHOICES, NULL, "vllm:request_params_n", "Choices asked for."},
};

static double counter(const Metrics *m, Counter c) { return (double)atomic_load(&m->counters[c]); }

static void print_counter(Buffer *b, const char *name, const char *help, double value) {
    print_head(b, name, "counter", help);
    print_series(b, name, "", value);
}

static void print_own(Buffer *b, const Metrics *m, const Gauges *g) {
    const struct {
        const char *name, *help;
        int value;
    } gauges[] = {
        {"noised_healthy", "1 when /health answers 200.", g->healthy},
        {"noised_running", "Choices being computed.", g->running},
        {"noised_queued", "Choices in the queue.", g->queued},
        {"noised_kv_blocks", "Blocks of the cache.", g->kv_blocks},
        {"noised_kv_blocks_used", "Blocks in use by running choices.", g->kv_blocks_used},
        {"noised_versions", "Versions of the checkpoint in memory.", g->versions},
    };
    for (size_t i = 0; i < COUNTOF(gauges); i++) {
        print_head(b, gauges[i].name, "gauge", gauges[i].help);
        print_series(b, gauges[i].name, "", gauges[i].value);
    }
    for (size_t i = 0; i < COUNTOF(own_counters); i++) {
        const CounterRow *r = &own_counters[i];
        if (r->help) print_head(b, r->name, "counter", r->help);
        print_series(b, r->name, r->label, counter(m, r->counter));
    }
    print_counter(b, "noised_log_dropped_lines_total", "Log lines left out because too many of a kind came.",
                  (double)log_dropped());
    for (size_t i = 0; i < COUNTOF(histograms); i++) {
        const HistogramRow *r = &histograms[i];
        if (!r->own) continue;
        print_head(b, r->own, "histogram", r->help);
        print_histogram(b, r->own, "", m, r->distribution);
    }
}

/* vLLM labels everything with the model and an engine, and knows other ends of a request. */
static void print_vllm(Buffer *b, const Metrics *m, const Gauges *g, const char *labels) {
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"vllm:num_requests_running", "gauge", "Choices being computed.", g->running},
        {"vllm:num_requests_waiting", "gauge", "Choices in the queue.", g->queued},
        {"vllm:kv_cache_usage_perc", "gauge", "Share of the cache in use, 0 to 1.",
         g->kv_blocks ? (double)g->kv_blocks_used / g->kv_blocks : 0},
        {"vllm:prompt_tokens_total", "counter", "Prompt tokens.", counter(m, COUNT_PROMPT_TOKENS)},
        {"vllm:generation_tokens_total", "counter", "Generated tokens.", counter(m, COUNT_GENERATED_TOKENS)},
        {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", counter(m, COUNT_PREFIX_QUERIES)},
        {"vllm:prefix_cache_hits_total", "counter", "Prompt tokens found.", counter(m, COUNT_PREFIX_HITS)},
        {"vllm:num_preemptions_total", "counter", "Nothing running is ever thrown out.", 0},
    };
    const struct {
        const char *reason;
        double value;
    } ends[] = {
        {"stop", counter(m, COUNT_STOP)},
        {"length", counter(m, COUNT_LENGTH) + counter(m, COUNT_DEADLINE)},
        {"abort", counter(m, COUNT_CANCELLED)},
        {"error", counter(m, COUNT_ERROR)},
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        print_head(b, rows[i].name, rows[i].type, rows[i].help);
        print_series(b, rows[i].name, labels, rows[i].value);
    }
    print_head(b, "vllm:request_success_total", "counter", "Choices by how they ended.");
    for (size_t i = 0; i < COUNTOF(ends); i++)
        buffer_print(b, "vllm:request_success_total{%s,finished_reason=\"%s\"} %.15g\n", labels, ends[i].reason,
                     ends[i].value);
    for (size_t i = 0; i < COUNTOF(histograms); i++) {
        const HistogramRow *r = &histograms[i];
        if (!r->vllm) continue;
        print_head(b, r->vllm, "histogram", r->help);
        print_histogram(b, r->vllm, labels, m, r->distribution);
    }
}

void metrics_print(Buffer *out, const Metrics *m, const Gauges *g, const char *model_name) {
    Buffer labels = {0};
    buffer_text(&labels, "engine=\"0\",model_name=");
    buffer_json(&labels, model_name, strlen(model_name));
    buffer_append(&labels, "", 1);
    print_own(out, m, g);
    if (labels.failed)
        out->failed = true;
    else
        print_vllm(out, m, g, labels.data);
    buffer_free(&labels);
}
