/* What a message between two ranks takes, fitted to a + bytes / b, and what that makes of a step on many
 * (docs/scale.md). mpirun -np 2 bench-mpi [GFLOP/s of a rank; that of this machine is measured] */
#include "base/clock.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "trainer/cost.h"
#include "trainer/mpi/ranks_mpi.h"
#include "trainer/ranks.h"
#include "trainer/slices.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>

enum { SMALLEST = 10, LARGEST = 24, SIZES = LARGEST - SMALLEST + 1, ROUNDS = 30, WINDOWS = 16 };

typedef struct Link {
    double latency, bandwidth; /* seconds; bytes a second, each way at once */
} Link;

/* The best of some rounds: what is lost to other processes is not the link's. */
static double exchange_seconds(char *out, char *in, size_t n) {
    double best = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        double started = now_seconds();
        ranks->exchange(1 - ranks->rank, out, n, in, n);
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
        seconds[i] = exchange_seconds(buffer, buffer + ((size_t)1 << LARGEST), n);
        printf("%9zu bytes  %10.1f us\n", n, 1e6 * seconds[i]);
    }
    free(buffer);
    Link l = fit(bytes, seconds);
    printf("fitted: %.1f us + bytes / %.2f GB/s\n\n", 1e6 * l.latency, l.bandwidth / 1e9);
    return l;
}

/* Of a step in which every rank has one micro-batch, on hosts that compute as fast as this one, and on faster ones.
 * Nothing is said to overlap. */
static int predict(const char *name, Link link, Err *err) {
    static const double gigabits[] = {10, 100}, faster[] = {1e12, 1e13}; /* bits, operations a second */
    static const int counts[] = {8, 64, 512};
    Config c;
    Model m;
    if (preset_config(&c, name, err) || model_init(&m, &c, err)) return -1;
    double n = (double)params_count(&m.params), rows = (double)WINDOWS * c.max_positions, compute[3];
    compute[0] = rows * cost_seconds(&m, cost_rate(c.hidden_size));
    for (int k = 0; k < 2; k++) compute[k + 1] = rows * cost_seconds(&m, faster[k]);
    printf("%s, %.0f tokens a rank and step: %.3g s on this host, %.3g s at 1 and %.3g s at 10 TFLOP/s\n", name, rows,
           compute[0], compute[1], compute[2]);
    for (size_t g = 0; g < COUNTOF(gigabits); g++)
        for (size_t i = 0; i < COUNTOF(counts); i++) {
            double messages = slices_messages(n, counts[i]), bytes = slices_bytes(n, counts[i]);
            double talk = messages * link.latency + bytes / (gigabits[g] * 1e9 / 8);
            printf("  %3.0f Gbit/s %3d ranks  %6.0f messages %6.2f GB %7.3f s ", gigabits[g], counts[i], messages,
                   bytes / 1e9, talk);
            for (int k = 0; k < 3; k++) printf(" %5.1f%%", 100 * compute[k] / (compute[k] + talk));
            putchar('\n');
        }
    model_free(&m);
    return 0;
}

int main(void) {
    Err err;
    int rc = kernels_init(&err) || ranks_mpi_start(&err) ? -1 : 0;
    if (rc == 0 && ranks->n != 2) rc = err_set(&err, "%d ranks, but it takes 2", ranks->n);
    if (rc == 0) {
        Link link = measure();
        if (ranks->rank == 0 && (predict("mha-124m", link, &err) || predict("mha-1.5b", link, &err))) rc = -1;
    }
    if (rc) fprintf(stderr, "bench-mpi: %s\n", err.msg);
    ranks_mpi_end(rc ? 1 : 0);
    return rc ? 1 : 0;
}
