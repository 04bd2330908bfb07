/* The form of the figures: histograms, edges as vLLM has them, what promtool says, and the names that pages mention. */
#include "base/err.h"
#include "server/metrics/metrics.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    Gauges g = {.running = 3, .kv_blocks = 8, .kv_blocks_used = 2, .model = "a\"b\\c\td\ne", .isa = "ref"};
    g.cache = (CacheShape){"F32", 32, 8};
    metrics_print(&b, &m, &g);
    buffer_append(&b, "", 1);
    static const char *const lines[] = {
        "\nvllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\",le=\"1\"} 1\n",
        ",le=\"2\"} 1\n",
        "vllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\",le=\"5\"} 2\n",
        "vllm:request_params_n_bucket{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\",le=\"+Inf\"} 3\n",
        "vllm:request_params_n_sum{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\"} 1004\n",
        "vllm:request_params_n_count{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\"} 3\n",
        "\nnoised_inter_token_seconds_bucket{le=\"0.0005\"} 1\n",
        "\nnoised_inter_token_seconds_bucket{le=\"0.0025\"} 2\n",
        "\nnoised_inter_token_seconds_sum 0.002\n",
        "\nnoised_steps_total 7\n",
        "\nnoised_running 3\n",
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\\\"b\\\\c\td\\ne\"} 0.25\n",
    };
    for (size_t i = 0; i < COUNTOF(lines); i++) CHECK_MSG(strstr(b.data, lines[i]), "no %s in %s", lines[i], b.data);
    buffer_free(&b);
}

/* The buckets of a family, "0.1 1 +Inf". */
static void read_edges(const char *text, const char *name, char edges[512]) {
    char series[128];
    size_t n = (size_t)snprintf(series, sizeof series, "\n%s_bucket{", name);
    *edges = 0;
    for (const char *at = text; (at = strstr(at, series)) != NULL; at += n) {
        char edge[64] = "";
        sscanf(strstr(at, "le=\"") + 4, "%60[^\"]", edge);
        snprintf(edges + strlen(edges), 512 - strlen(edges), "%s%s", *edges ? " " : "", edge);
    }
}

#define LATENCIES "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680 +Inf"
#define BETWEEN "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 +Inf"

/* A quantile over daemons and vLLMs together needs the same edges under one name: these are vLLM's. */
TEST(metrics_edges_are_vllms) {
    static const char *const edges[][2] = {
        {"vllm:time_to_first_token_seconds",
         "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560 +Inf"},
        {"vllm:inter_token_latency_seconds", BETWEEN},
        {"vllm:e2e_request_latency_seconds", LATENCIES},
        {"vllm:request_queue_time_seconds", LATENCIES},
        {"vllm:request_prefill_time_seconds", LATENCIES},
        {"vllm:request_decode_time_seconds", LATENCIES},
        {"vllm:request_inference_time_seconds", LATENCIES},
        {"vllm:iteration_tokens_total", "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf"},
        {"vllm:request_prompt_tokens", "1 2 5 10 20 50 100 200 500 1000 +Inf"},
        {"vllm:request_params_n", "1 2 5 10 20 +Inf"},
        {"noised_inter_token_seconds", "0.0005 0.001 0.0025 0.005 " BETWEEN},
        {"noised_queue_seconds", "0.001 0.005 0.02 0.05 0.1 " LATENCIES},
    };
    static Metrics m;
    Buffer b = {0};
    metrics_observe(&m, TIME_BETWEEN, 0.0001); /* in the buckets that vLLM does not have, and in its first */
    metrics_observe(&m, TIME_BETWEEN, 0.004);
    metrics_print(&b, &m, &(Gauges){.model = "m", .isa = "ref", .context = 1024, .cache = {"F32", 32, 8}});
    buffer_append(&b, "", 1);
    for (size_t i = 0; i < COUNTOF(edges); i++) {
        char found[512];
        read_edges(b.data, edges[i][0], found);
        CHECK_MSG(!strcmp(found, edges[i][1]), "%s: %s, not %s", edges[i][0], found, edges[i][1]);
    }
    CHECK(strstr(b.data, "\nnoised_inter_token_seconds_bucket{le=\"0.001\"} 1\n"));
    CHECK(strstr(b.data, "\nvllm:inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.01\"} 2\n"));
    buffer_free(&b);
}

/* Prometheus' own reader takes every line, and but for what vLLM's names are like finds nothing to say. */
TEST(metrics_please_promtool) {
    if (system("command -v promtool >/dev/null")) SKIP("needs promtool (Debian's prometheus)");
    Daemon d;
    const char *dir = test_dir();
    char line[512];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--model-name a\"b\\c"));
    Answer a = http_get(&d, "/metrics");
    snprintf(line, sizeof line, "%s/metrics", dir);
    test_write_file(line, a.body, strlen(a.body));
    FILE *f = popen(test_text("promtool check metrics <%s/metrics 2>&1", dir), "r");
    REQUIRE(f);
    while (fgets(line, sizeof line, f)) CHECK_MSG(!strncmp(line, "vllm:", 5), "%s", line);
    int status = pclose(f) >> 8;
    CHECK_MSG(status == 0 || status == 3, "status %d", status); /* 3: not as it would name them */
    daemon_stop(&d);
}

/* Of the PrometheusRule what the operator hands on. */
TEST(metrics_alarms_ring) {
    if (system("command -v promtool >/dev/null")) SKIP("needs promtool (Debian's prometheus)");
    const char *dir = test_dir();
    CHECK(system(test_text("sed -n 's/^  groups:/groups:/; /^groups:/,$ s/^  //; /^groups:/,$ p' "
                           "deploy/kubernetes/components/prometheus-operator/prometheusrule.yaml >%s/rules.yml && "
                           "promtool check rules %s/rules.yml",
                           dir, dir)) == 0);
    CHECK(system(test_text("cp tests/server/alarms.yaml %s && promtool test rules %s/alarms.yaml", dir, dir)) == 0);
}

/* Every name of ours that a page or the board mentions is one that /metrics has. */
static void check_mentions(const char *file, const char *metrics, int least) {
    static const char *const ends[] = {"", "_bucket", "_sum", "_count"};
    int n = 0;
    char *text = test_read_file(file, NULL);
    REQUIRE(text);
    for (char *at = text; (at = strpbrk(at, "np")) != NULL; at++) {
        if (strncmp(at, "noised_", 7) && strncmp(at, "process_", 8)) continue;
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        bool found = false;
        for (size_t i = 0; i < COUNTOF(ends) && !found; i++) {
            size_t end = strlen(ends[i]);
            if (length <= end || strncmp(at + length - end, ends[i], end)) continue;
            found = strstr(metrics, test_text("# TYPE %.*s ", (int)(length - end), at)) != NULL;
        }
        CHECK_MSG(found || at[length] == '*', "%s: %.*s is no figure", file, (int)length, at);
        at += length - 1;
        n++;
    }
    CHECK_MSG(n >= least, "%s mentions %d", file, n);
    free(text);
}

TEST(metrics_that_pages_mention_are_there) {
    static Metrics m;
    Buffer b = {0};
    metrics_print(&b, &m, &(Gauges){.model = "m", .isa = "ref", .cache = {"F32", 32, 8}});
    buffer_append(&b, "", 1);
    check_mentions("deploy/grafana.json", b.data, 11);
    check_mentions("deploy/kubernetes/components/prometheus-operator/prometheusrule.yaml", b.data, 11);
    check_mentions("deploy/kubernetes/components/keda/scaledobject.yaml", b.data, 4);
    check_mentions("deploy/RUNBOOK.md", b.data, 11);
    check_mentions("docs/api.md", b.data, 11);
    buffer_free(&b);
}
