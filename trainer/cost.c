#include "trainer/cost.h"

#include "base/clock.h"
#include "base/memory.h"
#include "model/footprint.h"
#include "model/ops/train_gemm.h"
#include "model/shape.h"
#include "trainer/ranks/step_sum.h"
#include "trainer/save.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 512, ROUNDS = 8, BYTE_OPERATIONS = 100 };

CostMemory cost_memory(const Model *m, int64_t rows, bool recompute, bool in_slices, int64_t micro_batches) {
    size_t n = params_count(&m->params);
    size_t optimizer = optimizer_memory(&m->params, in_slices, micro_batches);
    return (CostMemory){.weights = optimizer + step_sum_memory(&m->params, micro_batches),
                        .activations = footprint_training(m, rows, recompute),
                        .copy = save_copy_memory(n)};
}

/* The optimizer's file has the weights and both averages in f32. */
CostDisk cost_disk(const Model *m, int weights, int width) {
    size_t n = params_count(&m->params), optimizer = 3 * sizeof(float) * n;
    return (CostDisk){.kept = optimizer + (size_t)(weights * width) * n, .more = optimizer};
}

/* Of ROWS rows of that width; the best of some rounds, or of those that fit into a tenth of a second: what the machine
 * can do when nothing else wants it. */
double cost_rate(int width) {
    Tape t;
    size_t d = (size_t)width;
    float *x = xcalloc(d * (d + 2 * ROWS), sizeof *x), *y = x + ROWS * d, *w = y + ROWS * d;
    double best = INFINITY, began = now_seconds();
    tape_init(&t, false);
    for (int i = 0; i < ROUNDS && now_seconds() < began + 0.1; i++) {
        double started = now_seconds();
        train_gemm(&t, &(TrainGemm){.m = ROWS,
                                    .n = width,
                                    .k = width,
                                    .a = {.x = x, .ld = width},
                                    .b = {.x = w, .ld = width, .transposed = true},
                                    .c = y,
                                    .ldc = width});
        best = fmin(best, now_seconds() - started);
    }
    tape_free(&t);
    free(x);
    return 2.0 * ROWS * width * width / best;
}

/* Multiply-adds of a row with weights. An embedding and positions are looked up, tied an embedding is the head as well;
 * the kernels of SAS go over the features of all heads. */
static double weight_products(const Model *m) {
    double n = 0;
    for (int i = 0; i < m->params.n; i++) {
        const Weight *w = m->params.params[i].weight;
        if (w->n_dims < 2 || model_looks_up(m, w)) continue;
        n += (double)weight_count(w) * (w->n_dims > 2 ? m->cfg.sas.head_dim : 1);
    }
    return n;
}

double cost_seconds(const Model *m, double rate) {
    HeadShape h = config_heads(&m->cfg);
    double attention = 0.5 * m->cfg.n_layers * m->cfg.max_positions * h.heads * (h.k_dim + h.v_dim);
    double bytes = (double)footprint_training(m, 1, false);
    return (6 * weight_products(m) + 6 * attention + BYTE_OPERATIONS * bytes) / rate;
}

const char *cost_time_text(double seconds, char out[COST_TIME]) {
    static const struct {
        double length;
        const char *name;
    } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i + 1 < COUNTOF(units) && seconds < 1.5 * units[i].length) i++;
    double x = fmax(seconds / units[i].length, 1);
    snprintf(out, COST_TIME, x < 10 && units[i].length > 60 ? "%.1f %s" : "%.0f %s", x, units[i].name);
    return out;
}
