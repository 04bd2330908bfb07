#include "trainer/report/comparison.h"

#include "base/memory.h"
#include "trainer/report/chart.h"

#include <math.h>
#include <stdlib.h>

enum { CHARTS = 3 };
static const double differences_from = 0.25;

/* What is drawn of an arm, at every step that all its runs evaluate; of differences: that the base's do too. */
typedef struct Curve {
    double *step, *seconds, *mean, *low, *high;
    int n;
} Curve;

static Curve curve_new(int most) {
    size_t n = (size_t)most;
    double *room = xcalloc(5 * n, sizeof *room);
    return (Curve){.step = room, .seconds = room + n, .mean = room + 2 * n, .low = room + 3 * n, .high = room + 4 * n};
}

/* The run's evaluation after so many steps; -1: there is none. */
static int find_step(const PastRun *r, double step) {
    for (int i = 0; r && i < r->n; i++)
        if (r->step[i] == step) return i;
    return -1;
}

/* The losses of the arm's runs at a step, less those of the base's unless it is NULL; seconds is their mean. How many,
 * or 0 where one is missing. */
static int losses_at(const Arm *a, const Arm *base, double step, double *losses, double *seconds) {
    int n = 0;
    *seconds = 0;
    for (int i = 0; i < a->n; i++) {
        const PastRun *r = a->runs[i], *other = base ? arm_run(base, r->seed) : NULL;
        int at = find_step(r, step), there = find_step(other, step);
        if (base && !other) continue;
        if (at < 0 || (base && there < 0)) return 0;
        *seconds += r->seconds[at] / a->n;
        losses[n++] = r->loss[at] - (base ? other->loss[there] : 0);
    }
    return n;
}

static void add_point(Curve *c, double step, double seconds, const double *losses, int n, bool difference) {
    int i = c->n++;
    Interval d = interval_of(losses, n);
    c->step[i] = step;
    c->seconds[i] = seconds;
    c->mean[i] = c->low[i] = c->high[i] = d.mean;
    for (int k = 0; k < n && !difference; k++) {
        c->low[i] = fmin(c->low[i], losses[k]);
        c->high[i] = fmax(c->high[i], losses[k]);
    }
    if (difference && n > 1) {
        c->low[i] -= d.half;
        c->high[i] += d.half;
    }
}

static Curve make_curve(const Arm *a, const Arm *base) {
    const PastRun *first = a->runs[0];
    Curve c = curve_new(first->n);
    double *losses = xcalloc((size_t)a->n, sizeof *losses), seconds;
    for (int i = 0; i < first->n; i++) {
        double step = first->step[i];
        if (base && step < differences_from * (double)first->steps) continue;
        int n = losses_at(a, base, step, losses, &seconds);
        if (n) add_point(&c, step, seconds, losses, n, base);
    }
    free(losses);
    return c;
}

static ChartLine make_line(const Comparison *c, const Arm *a, const Curve *curve) {
    int k = a->network;
    double color = c->n_networks <= CHART_COLORS ? k : -1 - (double)k / (c->n_networks - 1);
    return (ChartLine){.name = c->names[k],
                       .x = curve->step,
                       .y = curve->mean,
                       .low = curve->low,
                       .high = curve->high,
                       .n = curve->n,
                       .color = color};
}

int comparison_draw(const Comparison *c, const char *path, Err *err) {
    const Arm *base = &c->arms[c->base];
    size_t room = (size_t)c->n_networks;
    Curve *curves = xcalloc(2 * room, sizeof *curves), *differences = curves + room;
    ChartLine *lines = xcalloc(CHARTS * room, sizeof *lines), *by_second = lines + room, *against = lines + 2 * room;
    int n = 0;
    for (const Arm *a = c->arms; a < c->arms + c->n_arms; a++) {
        if (!a->best) continue;
        curves[n] = make_curve(a, NULL);
        differences[n] = make_curve(a, base);
        lines[n] = by_second[n] = make_line(c, a, &curves[n]);
        by_second[n].x = curves[n].seconds;
        by_second[n].low = by_second[n].high = NULL;
        against[n] = make_line(c, a, &differences[n]);
        n++;
    }
    char title[NETWORK_NAME + 64];
    snprintf(title, sizeof title, "minus that of %s of the same seeds: mean, 95%% interval", c->names[base->network]);
    Chart charts[CHARTS] = {{"validation loss, nats per token: mean and range of the seeds", "step", lines, n},
                            {"the same by time", "seconds of training", by_second, n},
                            {title, "step", against, n}};
    int rc = charts_save(charts, CHARTS, "validation losses compared", path, err);
    for (int i = 0; i < 2 * c->n_networks; i++) free(curves[i].step);
    free(curves);
    free(lines);
    return rc;
}
