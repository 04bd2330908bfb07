/* families: which figures there are and what they are called. */
#include "server/metrics/metrics.h"

#include "base/err.h"
#include "base/log.h"
#include "server/metrics/print.h"

#include <inttypes.h>
#include <math.h>

#ifndef NOISED_COMMIT
#define NOISED_COMMIT "" /* the Makefile knows it where git does */
#endif

/* Bounds are printed from the first of them up to the context, if they are tokens. */
static void print_histogram(Buffer *b, const char *name, const char *labels, const Metrics *m, Distribution d,
                            int first, double most) {
    const Histogram *h = &m->histograms[d];
    const char *comma = *labels ? "," : "";
    uint64_t total = 0;
    const double *bounds = metric_bounds[d];
    int n = 0;
    while (n < METRIC_BOUNDS && bounds[n] > 0) n++;
    for (int i = 0; i <= n; i++) {
        char bound[32] = "+Inf";
        total += atomic_load(&h->counts[i]);
        if (i < n && (i < first || bounds[i] > most)) continue;
        if (i < n) snprintf(bound, sizeof bound, "%.15g", bounds[i]);
        buffer_print(b, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, comma, bound, total);
    }
    char sum[128], count[128];
    snprintf(sum, sizeof sum, "%s_sum", name);
    snprintf(count, sizeof count, "%s_count", name);
    print_series(b, sum, labels, (double)atomic_load(&h->sum) * (metric_is_time(d) ? 1e-9 : 1));
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
    {COUNT_HUNG_UP, "noised_http_hung_up_total", "", "Requests whose connection ended before their answer did."},
    {COUNT_PROMPT_TOKENS, "noised_prompt_tokens_total", "", "Prompt tokens of accepted requests, as in usage."},
    {COUNT_GENERATED_TOKENS, "noised_generated_tokens_total", "", "Tokens of answers, as in usage."},
    {COUNT_PREFIX_QUERIES, "noised_prefix_queries_total", "", "Prompt tokens looked up in the cache, per choice."},
    {COUNT_PREFIX_HITS, "noised_prefix_hits_total", "", "Prompt tokens taken from the cache, per choice."},
    {COUNT_STEPS, "noised_steps_total", "", "Batches computed."},
    {COUNT_GUESSED, "noised_guessed_tokens_total", "", "Tokens tried ahead (--guess, --draft)."},
    {COUNT_GUESSED_RIGHT, "noised_guessed_tokens_right_total", "", "Of these, drawn then."},
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
    int finer;                     /* of the bounds so many come before vLLM's, which its name does not have */
    bool of_context;               /* vLLM's bounds end where the context does */
} HistogramRow;

static const HistogramRow histograms[] = {
    {TIME_FIRST_TOKEN, "noised_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
     "From submission to the first token.", 0, false},
    {TIME_BETWEEN, "noised_inter_token_seconds", "vllm:inter_token_latency_seconds", "From one token to the next.", 4,
     false},
    {TIME_WHOLE, "noised_end_to_end_seconds", "vllm:e2e_request_latency_seconds", "From submission to the end.", 3,
     false},
    {TIME_QUEUE, "noised_queue_seconds", "vllm:request_queue_time_seconds", "In the queue.", 5, false},
    {TIME_PREFILL, NULL, "vllm:request_prefill_time_seconds", "From the start to the first token.", 0, false},
    {TIME_DECODE, NULL, "vllm:request_decode_time_seconds", "From the first token to the last.", 0, false},
    {TIME_INFERENCE, NULL, "vllm:request_inference_time_seconds", "From the start to the last token.", 0, false},
    {TIME_TURN, "noised_http_loop_turn_seconds", NULL, "One turn of the HTTP thread: what others wait for.", 0, false},
    {SIZE_STEP, NULL, "vllm:iteration_tokens_total", "Tokens that a step drew, and those of prompts it completed.", 0,
     false},
    {SIZE_PROMPT, NULL, "vllm:request_prompt_tokens", "Tokens of the prompt.", 0, true},
    {SIZE_GENERATED, NULL, "vllm:request_generation_tokens", "Tokens of the answer.", 0, true},
    {SIZE_MAX_TOKENS, NULL, "vllm:request_params_max_tokens", "Tokens that it may generate.", 0, true},
    {SIZE_CHOICES, NULL, "vllm:request_params_n", "Choices asked for.", 0, false},
};

static const struct {
    Distribution distribution;
    const char *label;
} phases[] = {
    {TIME_STEP_WAIT, "phase=\"wait\""},       {TIME_STEP_PLAN, "phase=\"plan\""},
    {TIME_STEP_FORWARD, "phase=\"forward\""}, {TIME_STEP_SAMPLE, "phase=\"sample\""},
    {TIME_STEP_PUBLISH, "phase=\"publish\""},
};

static double counter(const Metrics *m, Counter c) { return (double)atomic_load(&m->counters[c]); }

static void print_own(Buffer *b, const Metrics *m, const Gauges *g) {
    const struct {
        const char *name, *help;
        double value;
    } gauges[] = {
        {"noised_healthy", "1 when /health answers 200.", g->healthy},
        {"noised_running", "Choices being computed.", g->running},
        {"noised_running_max", "Choices that are computed at the same time, at most.", g->most_running},
        {"noised_queued", "Choices in the queue.", g->queued},
        {"noised_queue_wait_seconds", "How long a new choice would wait, as predicted; 0 when none waits.",
         g->queue_wait},
        {"noised_kv_blocks", "Blocks of the cache.", g->kv_blocks},
        {"noised_kv_blocks_used", "Blocks in use by running choices.", g->kv_blocks_used},
        {"noised_threads", "Threads that compute: fewer while other programs have cores.", g->threads},
        {"noised_versions", "Versions of the checkpoint in memory.", g->versions},
    };
    for (size_t i = 0; i < COUNTOF(gauges); i++)
        print_alone(b, gauges[i].name, "gauge", gauges[i].help, gauges[i].value);
    for (size_t i = 0; i < COUNTOF(own_counters); i++) {
        const CounterRow *r = &own_counters[i];
        if (r->help) print_head(b, r->name, "counter", r->help);
        print_series(b, r->name, r->label, counter(m, r->counter));
    }
    print_alone(b, "noised_log_dropped_lines_total", "counter", "Log lines left out because too many of a kind came.",
                (double)log_dropped());
    print_alone(b, "noised_log_lost_lines_total", "counter", "Log lines that nobody read in time.", (double)log_lost());
    for (size_t i = 0; i < COUNTOF(histograms); i++) {
        const HistogramRow *r = &histograms[i];
        if (!r->own) continue;
        print_head(b, r->own, "histogram", r->help);
        print_histogram(b, r->own, "", m, r->distribution, 0, INFINITY);
    }
    print_head(b, "noised_step_phase_seconds", "histogram",
               "Where the time from the end of one step to the end of the next goes.");
    for (size_t i = 0; i < COUNTOF(phases); i++)
        print_histogram(b, "noised_step_phase_seconds", phases[i].label, m, phases[i].distribution, 0, INFINITY);
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
        {"vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens tried ahead.", counter(m, COUNT_GUESSED)},
        {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Of these, drawn then.",
         counter(m, COUNT_GUESSED_RIGHT)},
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
    print_head(b, "vllm:cache_config_info", "gauge", "1, labelled with the shape of the cache.");
    buffer_print(b,
                 "vllm:cache_config_info{%s,block_size=\"%d\",cache_dtype=\"%s\",num_gpu_blocks=\"%d\","
                 "enable_prefix_caching=\"True\"} 1\n",
                 labels, g->cache.block, g->cache.type, g->cache.blocks);
    print_head(b, "vllm:request_success_total", "counter", "Choices by how they ended.");
    for (size_t i = 0; i < COUNTOF(ends); i++)
        buffer_print(b, "vllm:request_success_total{%s,finished_reason=\"%s\"} %.15g\n", labels, ends[i].reason,
                     ends[i].value);
    for (size_t i = 0; i < COUNTOF(histograms); i++) {
        const HistogramRow *r = &histograms[i];
        if (!r->vllm) continue;
        print_head(b, r->vllm, "histogram", r->help);
        print_histogram(b, r->vllm, labels, m, r->distribution, r->finer, r->of_context ? g->context : INFINITY);
    }
}

/* Which program this is. A commit that nobody knew is left out: Prometheus takes an empty label for none. */
static void print_build(Buffer *b, const Gauges *g) {
    print_head(b, "noised_build_info", "gauge", "1, labelled with the program's version and commit, and its kernels.");
    buffer_text(b, "noised_build_info{version=\"" NOISED_VERSION "\"");
    if (*NOISED_COMMIT) buffer_text(b, ",commit=\"" NOISED_COMMIT "\"");
    buffer_text(b, ",isa=");
    print_label_value(b, g->isa);
    buffer_text(b, "} 1\n");
}

void metrics_print(Buffer *out, const Metrics *m, const Gauges *g) {
    Buffer labels = {0};
    buffer_text(&labels, "engine=\"0\",model_name=");
    print_label_value(&labels, g->model);
    buffer_append(&labels, "", 1);
    print_own(out, m, g);
    print_build(out, g);
    print_process(out, g->started);
    if (labels.failed)
        out->failed = true;
    else
        print_vllm(out, m, g, labels.data);
    buffer_free(&labels);
}
