/* What a message between two ranks takes, fitted to a + bytes / b, and what that makes of a step on many
 * (docs/scale.md). mpirun -np 2 bench-mpi [GFLOP/s of a rank; that of this machine is measured] */
#include "base/clock.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "trainer/report/chart.h"
#include "trainer/cost.h"
#include "trainer/mpi/ranks_mpi.h"
#include "trainer/ranks/ranks.h"
#include "trainer/ranks/slices.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 10, LARGEST = 24, SIZES = LARGEST - SMALLEST + 1, ROUNDS = 30, WINDOWS = 16 };

typedef struct Link {
    double latency, bandwidth; /* seconds; bytes a second, each way at once */
} Link;

/* The best of some rounds: what is lost to other processes is not the link's. */
static double exchange_seconds(char *data, size_t n) {
    double best = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        double started = now_seconds();
        ranks->spread(data, (int[]){(int)n, (int)n});
        best = fmin(best, now_seconds() - started);
    }
    return best;
}

/* Least squares of the relative error, so that small messages count as much as large ones. */
static Link fit(const double bytes[SIZES], const double seconds[SIZES]) {
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
    for (int i = 0; i < SIZES; i++) {
        double w = 1 / (seconds[i] * seconds[i]);
        s += w;
        sx += w * bytes[i];
        sxx += w * bytes[i] * bytes[i];
        sy += w * seconds[i];
        sxy += w * bytes[i] * seconds[i];
    }
    double slope = (s * sxy - sx * sy) / (s * sxx - sx * sx);
    return (Link){.latency = fmax(0, (sy - slope * sx) / s), .bandwidth = 1 / slope};
}

static Link measure(void) {
    char *buffer = xcalloc(2, (size_t)1 << LARGEST);
    double bytes[SIZES], seconds[SIZES];
    for (int i = 0; i < SIZES; i++) {
        size_t n = (size_t)1 << (SMALLEST + i);
        bytes[i] = (double)n;
        seconds[i] = exchange_seconds(buffer, n);
        printf("%9zu bytes  %10.1f us\n", n, 1e6 * seconds[i]);
    }
    free(buffer);
    Link l = fit(bytes, seconds);
    printf("fitted: %.1f us + bytes / %.2f GB/s\n\n", 1e6 * l.latency, l.bandwidth / 1e9);
    return l;
}

/* ---- what follows ---- */

static const double gigabits[] = {10, 100}, faster[] = {1e12, 1e13}; /* bits, operations a second */
static const char *const presets[] = {"mha-124m", "mha-1.5b"};
enum { PRESETS = COUNTOF(presets), LINKS = COUNTOF(gigabits), RATES = 1 + COUNTOF(faster), POWERS = 10 };

/* A step in which every rank has one micro-batch. */
typedef struct Step {
    double n, rows, compute[RATES]; /* parameters; tokens; seconds on hosts like this one and on faster ones */
} Step;

static double talk(const Step *s, Link link, double gigabit, int n_ranks) {
    return slices_messages(s->n, n_ranks, 1) * link.latency + slices_bytes(s->n, n_ranks, 1) / (gigabit * 1e9 / 8);
}

static int describe(Step *s, const char *name, Err *err) {
    Config c;
    Model m;
    if (preset_config(&c, name, err) || model_init(&m, &c, err)) return -1;
    *s = (Step){.n = (double)params_count(&m.params), .rows = (double)WINDOWS * c.max_positions};
    for (int k = 0; k < RATES; k++)
        s->compute[k] = s->rows * cost_seconds(&m, k ? faster[k - 1] : cost_rate(c.hidden_size));
    model_free(&m);
    return 0;
}

/* Nothing is said to overlap. */
static void print_step(const Step *s, const char *name, Link link) {
    static const int counts[] = {8, 64, 512};
    printf("%s, %.0f tokens a rank and step: %.3g s on this host, %.3g s at 1 and %.3g s at 10 TFLOP/s\n", name,
           s->rows, s->compute[0], s->compute[1], s->compute[2]);
    for (int g = 0; g < LINKS; g++)
        for (size_t i = 0; i < COUNTOF(counts); i++) {
            double seconds = talk(s, link, gigabits[g], counts[i]);
            printf("  %3.0f Gbit/s %3d ranks  %6.0f messages %6.2f GB %7.3f s ", gigabits[g], counts[i],
                   slices_messages(s->n, counts[i], 1), slices_bytes(s->n, counts[i], 1) / 1e9, seconds);
            for (int k = 0; k < RATES; k++) printf(" %5.1f%%", 100 * s->compute[k] / (s->compute[k] + seconds));
            putchar('\n');
        }
}

static const char *size_of(const char *preset) { return strchr(preset, '-') + 1; }

/* Efficiency at 10 TFLOP/s a rank and bytes, against ranks. */
static int draw(const Step steps[PRESETS], Link link, const char *path, Err *err) {
    static double x[POWERS], y[PRESETS * LINKS][POWERS], sent[PRESETS][POWERS];
    static char names[PRESETS * LINKS][32];
    ChartLine efficiency[PRESETS * LINKS], bytes[PRESETS];
    for (int k = 0; k < POWERS; k++) x[k] = k;
    for (int i = 0; i < PRESETS * LINKS; i++) {
        const Step *s = &steps[i / LINKS];
        double compute = s->compute[RATES - 1], gigabit = gigabits[i % LINKS];
        snprintf(names[i], sizeof names[i], "%s, %g Gb/s", size_of(presets[i / LINKS]), gigabit);
        for (int k = 0; k < POWERS; k++) {
            y[i][k] = 100 * compute / (compute + talk(s, link, gigabit, 1 << k));
            sent[i / LINKS][k] = slices_bytes(s->n, 1 << k, 1) / 1e9;
        }
        efficiency[i] = (ChartLine){.name = names[i], .x = x, .y = y[i], .n = POWERS, .color = i};
    }
    for (int i = 0; i < PRESETS; i++)
        bytes[i] = (ChartLine){.name = size_of(presets[i]), .x = x, .y = sent[i], .n = POWERS, .color = i};
    const Chart charts[] = {
        {"efficiency in % at 10 TFLOP/s a rank, predicted", "log2 of the ranks", efficiency, PRESETS * LINKS},
        {"GB sent by a rank in a step", "log2 of the ranks", bytes, PRESETS}};
    return charts_save(charts, COUNTOF(charts), "Training on several machines", path, err);
}

static int predict(Link link, const char *picture, Err *err) {
    Step steps[PRESETS];
    for (int i = 0; i < PRESETS; i++) {
        if (describe(&steps[i], presets[i], err)) return -1;
        print_step(&steps[i], presets[i], link);
    }
    return picture ? draw(steps, link, picture, err) : 0;
}

int main(int argc, char **argv) {
    Err err;
    int rc = kernels_init(&err) || ranks_mpi_start(&err) ? -1 : 0;
    if (rc == 0 && ranks->n != 2) rc = err_set(&err, "%d ranks, but it takes 2", ranks->n);
    if (rc == 0) {
        Link link = measure();
        if (ranks->rank == 0) rc = predict(link, argc > 1 ? argv[1] : NULL, &err);
    }
    if (rc) fprintf(stderr, "bench-mpi: %s\n", err.msg);
    ranks_mpi_end(rc ? 1 : 0);
    return rc ? 1 : 0;
}
