#include "server/metrics/metrics.h"

#include "base/err.h"

void metrics_count(Metrics *m, Counter c, uint64_t n) {
    if (m) atomic_fetch_add_explicit(&m->counters[c], n, memory_order_relaxed);
}

#define STEP_BOUNDS                                                                                                    \
    { 0.00001, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 1 }

const double metric_bounds[DISTRIBUTIONS][METRIC_BOUNDS] = {
    [TIME_QUEUE] = {0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1, 5, 20, 60},
    [TIME_FIRST_TOKEN] = {0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30},
    [TIME_BETWEEN] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1},
    [TIME_WHOLE] = {0.01, 0.05, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600},
    [TIME_PREFILL] = {0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30},
    [TIME_DECODE] = {0.01, 0.05, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600},
    [TIME_INFERENCE] = {0.01, 0.05, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600},
    [TIME_TURN] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1, 1},
    [TIME_STEP_WAIT] = STEP_BOUNDS,
    [TIME_STEP_PLAN] = STEP_BOUNDS,
    [TIME_STEP_FORWARD] = STEP_BOUNDS,
    [TIME_STEP_SAMPLE] = STEP_BOUNDS,
    [TIME_STEP_PUBLISH] = STEP_BOUNDS,
    [SIZE_STEP] = {1, 4, 16, 64, 256, 1024},
    [SIZE_PROMPT] = {1, 16, 64, 256, 1024, 4096},
    [SIZE_GENERATED] = {1, 16, 64, 256, 1024, 4096},
    [SIZE_MAX_TOKENS] = {1, 16, 64, 256, 1024, 4096},
    [SIZE_CHOICES] = {1, 2, 4, 8, 16, 64},
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
