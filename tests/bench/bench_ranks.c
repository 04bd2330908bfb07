/* bench-ranks CSV OUT.svg: memory of a rank and bytes that it sends in a step, by the formulas of docs/scale.md and as
 * bench_ranks.py has measured them. */
#include "base/memory.h"
#include "trainer/cost.h"
#include "trainer/ranks/ranks.h"
#include "trainer/ranks/slices.h"
#include "trainer/ranks/step_sum.h"
#include "trainer/report/chart.h"
#include "weights/presets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POWERS = 10, MOST_ROWS = 64, WINDOW = 64, VOCABULARY = 4000 };
static const double GIB = 1 << 30, MIB = 1 << 20;

/* A line of the file. */
typedef struct Measured {
    double ranks, accumulate, printed, most, least, sent; /* MiB, MB */
} Measured;

typedef struct Points {
    double x[MOST_ROWS], y[MOST_ROWS];
    int n;
} Points;

static void add(Points *p, double n_ranks, double y) {
    p->x[p->n] = log2(n_ranks);
    p->y[p->n++] = y;
}

static ChartLine line_of(const Points *p, const char *name, double color) {
    return (ChartLine){.name = name, .x = p->x, .y = p->y, .n = p->n, .color = color};
}

static int read_rows(const char *path, Measured rows[MOST_ROWS], Err *err) {
    FILE *f = fopen(path, "re");
    int n = 0;
    if (!f) return err_set(err, "%s cannot be opened", path);
    if (fscanf(f, "%*[^\n]") == 0)
        while (n < MOST_ROWS && fscanf(f, "%lf,%lf,%lf,%lf,%lf,%lf", &rows[n].ranks, &rows[n].accumulate,
                                       &rows[n].printed, &rows[n].most, &rows[n].least, &rows[n].sent) == 6)
            n++;
    fclose(f);
    return n ? n : err_set(err, "%s has no rows", path);
}

/* As rank 0 of so many sees it. */
static CostMemory memory_of(const Model *m, int n_ranks, int64_t rows) {
    const Ranks *before = ranks;
    Ranks as = {.n = n_ranks};
    ranks = &as;
    CostMemory need = cost_memory(m, rows, false, false, 2);
    ranks = before;
    return need;
}

/* Of the rank that has most micro-batches. */
static double sent_by(double n_params, int n_ranks, double accumulate) {
    return slices_bytes(n_params, n_ranks, ceil(accumulate / n_ranks));
}

static int predict_large(Points memory[2], Points sent[3], const double accumulates[3], Err *err) {
    Config c;
    Model m;
    if (preset_config(&c, "mha-1.5b", err) || model_init(&m, &c, err)) return -1;
    for (int k = 0; k < POWERS; k++) {
        CostMemory need = memory_of(&m, 1 << k, 1);
        add(&memory[0], 1 << k, (double)need.weights / GIB);
        add(&memory[1], 1 << k, (double)(need.weights + need.copy) / GIB);
        for (int a = 0; a < 3; a++)
            if (1 << k <= accumulates[a])
                add(&sent[a], 1 << k, log10(sent_by((double)params_count(&m.params), 1 << k, accumulates[a]) / 1e9));
    }
    model_free(&m);
    return 0;
}

/* predicted[0], [1]: MiB, GB at the accumulate of a row; measured[0..2]: least and most MiB, GB. */
static int predict_small(const Measured *rows, int n, double accumulate, Points predicted[2], Points measured[3],
                         Err *err) {
    Config c;
    Model m;
    if (preset_config(&c, "mha-tiny", err)) return -1;
    c.vocab_size = VOCABULARY;
    if (model_init(&m, &c, err)) return -1;
    for (int i = 0; i < n; i++) {
        if (rows[i].accumulate != accumulate) continue;
        int ranks_then = (int)rows[i].ranks;
        CostMemory need = memory_of(&m, ranks_then, WINDOW);
        add(&predicted[0], ranks_then, (double)(need.weights + need.activations) / MIB);
        add(&predicted[1], ranks_then, sent_by((double)params_count(&m.params), ranks_then, accumulate) / 1e9);
        add(&measured[0], ranks_then, rows[i].least);
        add(&measured[1], ranks_then, rows[i].most);
        add(&measured[2], ranks_then, rows[i].sent / 1e3);
    }
    model_free(&m);
    return 0;
}

static int draw(const Measured *rows, int n, const char *path, Err *err) {
    static const double wide[] = {8, 64, 512}, small[] = {8, 32};
    static Points memory[2], sent[3], predicted[2][2], measured[2][3];
    if (predict_large(memory, sent, wide, err)) return -1;
    for (int a = 0; a < 2; a++)
        if (predict_small(rows, n, small[a], predicted[a], measured[a], err)) return -1;
    const ChartLine large_memory[] = {line_of(&memory[0], "without a copy", 0),
                                      line_of(&memory[1], "saves on the way", 1)};
    const ChartLine large_sent[] = {line_of(&sent[0], "accumulate 8", 0), line_of(&sent[1], "64", 1),
                                    line_of(&sent[2], "512", 2)};
    const ChartLine small_memory[] = {line_of(&predicted[0][0], "formula", 0),
                                      line_of(&measured[0][1], "measured, 8", 1),
                                      line_of(&measured[1][1], "measured, 32", 2)};
    const ChartLine small_sent[] = {
        line_of(&predicted[0][1], "formula, 8", 0), line_of(&measured[0][2], "measured, 8", 1),
        line_of(&predicted[1][1], "formula, 32", 3), line_of(&measured[1][2], "measured, 32", 2)};
    const Chart charts[] = {
        {"1.5b: GiB a rank besides activations, whatever --accumulate is", "log2 of the ranks", large_memory, 2},
        {"1.5b: log10 of the GB sent by a rank in a step, by --accumulate", "log2 of the ranks", large_sent, 3},
        {"mha-tiny, 4,000 tokens: MiB a rank, by --accumulate", "log2 of the ranks", small_memory, 3},
        {"mha-tiny, 4,000 tokens: GB sent by a rank in a step, by --accumulate", "log2 of the ranks", small_sent, 4}};
    return charts_save(charts, COUNTOF(charts), "Memory and bytes of a rank", path, err);
}

int main(int argc, char **argv) {
    Measured rows[MOST_ROWS];
    Err err;
    int n = argc == 3 ? read_rows(argv[1], rows, &err) : err_set(&err, "CSV and OUT.svg are wanted");
    if (n < 0 || draw(rows, n, argv[2], &err)) {
        fprintf(stderr, "bench-ranks: %s\n", err.msg);
        return 1;
    }
    return 0;
}
