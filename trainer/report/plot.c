#include "trainer/report/plot.h"

#include "base/json/json_reader.h"
#include "base/memory.h"
#include "trainer/report/chart.h"
#include "trainer/runlog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 600, MEAN_LINES = 10 };

/* Columns of the log: a row a step, NaN where a step has no such value. */
typedef struct Log {
    double *step, *loss, *mean, *lr, *val; /* [n] */
    double *sigma;                         /* [n_sigma, layers * heads] */
    double *sigma_step;                    /* [n_sigma] */
    int n, n_sigma, layers, heads;
} Log;

/* Room for a row behind n: doubled where n is a power of two, so memory follows what the file holds. */
static double *grown(double *rows, int n, size_t width) {
    return n & (n - 1) ? rows : xrealloc(rows, 2 * (size_t)MAX(n, 1) * width * sizeof *rows);
}

/* |sigma| of every head; every row must look like the first. */
static void read_sigma(Log *l, const RunLogLine *line) {
    const cJSON *layers = json_field(line->fields, "sigma"), *layer, *value;
    int n_layers = cJSON_GetArraySize(layers), n_heads = layers ? cJSON_GetArraySize(layers->child) : 0;
    if (n_layers == 0 || n_heads == 0) return;
    if (!l->layers) {
        l->layers = n_layers;
        l->heads = n_heads;
    }
    if (n_layers != l->layers || n_heads != l->heads) return;
    cJSON_ArrayForEach(layer, layers) if (cJSON_GetArraySize(layer) != n_heads) return;
    size_t width = (size_t)n_layers * (size_t)n_heads;
    l->sigma = grown(l->sigma, l->n_sigma, width);
    l->sigma_step = grown(l->sigma_step, l->n_sigma, 1);
    double *row = l->sigma + (size_t)l->n_sigma * width;
    cJSON_ArrayForEach(layer, layers) {
        cJSON_ArrayForEach(value, layer) { *row++ = fabs(value->valuedouble); }
    }
    l->sigma_step[l->n_sigma++] = line->step;
}

static int read_line(void *context, const RunLogLine *line, Err *err) {
    Log *l = context;
    int i = l->n++;
    (void)err;
    if (i == 0) {
        double **columns[] = {&l->step, &l->loss, &l->mean, &l->lr, &l->val};
        double *room = xcalloc((size_t)line->most * COUNTOF(columns), sizeof *room);
        for (size_t k = 0; k < COUNTOF(columns); k++) *columns[k] = room + k * (size_t)line->most;
    }
    l->step[i] = line->step;
    l->loss[i] = runlog_number(line, "loss");
    l->lr[i] = runlog_number(line, "lr");
    l->val[i] = runlog_number(line, "val_loss");
    l->mean[i] = i ? l->mean[i - 1] + (l->loss[i] - l->mean[i - 1]) / MIN(i + 1, MEAN_LINES) : l->loss[i];
    read_sigma(l, line);
    return 0;
}

static void log_free(Log *l) {
    free(l->step);
    free(l->sigma);
    free(l->sigma_step);
    *l = (Log){0};
}

/* Those with a finite y, thinned out to what a picture can show; in place. */
static int thin(double *x, double *y, int n) {
    int kept = 0, wanted = 0, seen = 0;
    for (int i = 0; i < n; i++) wanted += isfinite(y[i]);
    int every = MAX(1, wanted / MOST_POINTS);
    for (int i = 0; i < n; i++) {
        if (!isfinite(y[i])) continue;
        if (seen++ % every && seen != wanted) continue;
        x[kept] = x[i];
        y[kept++] = y[i];
    }
    return kept;
}

static ChartLine column(double *steps[4], int which, const Log *l, double *y, const char *name) {
    steps[which] = xmalloc((size_t)l->n * sizeof(double));
    memcpy(steps[which], l->step, (size_t)l->n * sizeof(double));
    int n = thin(steps[which], y, l->n);
    return (ChartLine){.name = name, .x = steps[which], .y = y, .n = n};
}

/* One a head, its values in *columns. */
static ChartLine *sigma_lines(const Log *l, char (*names)[24], double **columns) {
    int n = l->layers * l->heads;
    ChartLine *lines = xcalloc((size_t)n, sizeof *lines);
    double *y = *columns = xcalloc((size_t)n * (size_t)l->n_sigma, sizeof *y);
    for (int i = 0; i < n; i++, y += l->n_sigma) {
        int layer = i / l->heads;
        for (int k = 0; k < l->n_sigma; k++) y[k] = l->sigma[(size_t)k * (size_t)n + (size_t)i];
        snprintf(names[i], sizeof names[i], "layer %d", layer);
        lines[i] = (ChartLine){.name = i % l->heads == 0 && (l->layers <= 12 || layer % (l->layers / 6) == 0) ? names[i]
                                                                                                              : NULL,
                               .x = l->sigma_step,
                               .y = y,
                               .n = l->n_sigma,
                               .color = -1 - (l->layers > 1 ? (double)layer / (l->layers - 1) : 0)};
    }
    return lines;
}

int plot_run(const char *dir, const char *path, Err *err) {
    char title[256];
    Log l = {0};
    int rc = runlog_read(dir, read_line, &l, err);
    if (rc == 0 && l.n == 0) rc = err_set(err, "%s/log.jsonl: there is no step in it", dir);
    if (rc) {
        log_free(&l);
        return -1;
    }
    int n = 2, n_sigma = l.n_sigma ? l.layers * l.heads : 0;
    double *steps[4], *columns = NULL;
    ChartLine losses[] = {column(steps, 0, &l, l.loss, "training loss"), column(steps, 1, &l, l.mean, "running mean"),
                          column(steps, 2, &l, l.val, "validation loss")};
    ChartLine rate = column(steps, 3, &l, l.lr, NULL);
    losses[0].faint = true;
    losses[2].color = 1;
    rate.color = 2;
    char(*names)[24] = xcalloc((size_t)n_sigma + 1, sizeof *names);
    ChartLine *sigma = n_sigma ? sigma_lines(&l, names, &columns) : NULL;
    Chart charts[3] = {{"loss, nats per token", "step", losses, losses[2].n ? 3 : 2},
                       {"learning rate", "step", &rate, 1}};
    if (sigma) charts[n++] = (Chart){"noise: |sigma| of every head", "step", sigma, n_sigma};
    snprintf(title, sizeof title, "training of %.200s", dir);
    rc = charts_save(charts, n, title, path, err);
    for (size_t i = 0; i < COUNTOF(steps); i++) free(steps[i]);
    free(sigma);
    free(columns);
    free(names);
    log_free(&l);
    return rc;
}
