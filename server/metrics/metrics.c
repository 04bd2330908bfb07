#include "server/metrics/metrics.h"

#include "base/err.h"

void metrics_count(Metrics *m, Counter c, uint64_t n) {
    if (m) atomic_fetch_add_explicit(&m->counters[c], n, memory_order_relaxed);
}

#define STEP_BOUNDS                                                                                                    \
    { 0.00001, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 1 }

#define VLLM_LATENCIES 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680

/* vLLM's numbers of tokens end at the context's length (Gauges.context). */
#define VLLM_TOKENS                                                                                                    \
    { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000 }

/* vLLM's (v1/metrics/loggers.py), behind those that families.c says are ours. */
const double metric_bounds[DISTRIBUTIONS][METRIC_BOUNDS] = {
    [TIME_QUEUE] = {0.001, 0.005, 0.02, 0.05, 0.1, VLLM_LATENCIES},
    [TIME_FIRST_TOKEN] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560},
    [TIME_BETWEEN] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                      0.4,    0.5,   0.75,   1,     2.5,  5,     7.5,  10,    20,  40,   80},
    [TIME_WHOLE] = {0.01, 0.05, 0.1, VLLM_LATENCIES},
    [TIME_PREFILL] = {VLLM_LATENCIES},
    [TIME_DECODE] = {VLLM_LATENCIES},
    [TIME_INFERENCE] = {VLLM_LATENCIES},
    [TIME_TURN] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1, 1},
    [TIME_STEP_WAIT] = STEP_BOUNDS,
    [TIME_STEP_PLAN] = STEP_BOUNDS,
    [TIME_STEP_FORWARD] = STEP_BOUNDS,
    [TIME_STEP_SAMPLE] = STEP_BOUNDS,
    [TIME_STEP_PUBLISH] = STEP_BOUNDS,
    [SIZE_STEP] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
    [SIZE_PROMPT] = VLLM_TOKENS,
    [SIZE_GENERATED] = VLLM_TOKENS,
    [SIZE_MAX_TOKENS] = VLLM_TOKENS,
    [SIZE_CHOICES] = {1, 2, 5, 10, 20},
};

void metrics_observe(Metrics *m, Distribution d, double value) {
    if (!m) return;
    const double *bounds = metric_bounds[d];
    int b = 0;
    value = MAX(value, 0);
    while (b < METRIC_BOUNDS && bounds[b] > 0 && value > bounds[b]) b++;
    Histogram *h = &m->histograms[d];
    atomic_fetch_add_explicit(&h->counts[b], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, (uint64_t)(metric_is_time(d) ? value * 1e9 : value), memory_order_relaxed);
}
