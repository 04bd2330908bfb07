#include "trainer/plot.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "trainer/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_DEPTH = 8, LINE_VALUES = 1 << 20, MOST_POINTS = 600, MEAN_LINES = 10 };
static const size_t log_max = (size_t)1 << 32;

/* Columns of the log: a row a step, NaN where a step has no such value. */
typedef struct Log {
    double *step, *loss, *mean, *lr, *val;    /* [n] */
    double *sigma;                            /* [n_sigma, rows with one] */
    double *sigma_step;                       /* [rows with one] */
    int n, rows, n_sigma_rows, layers, heads; /* rows: room in every column */
} Log;

static double number(const cJSON *o, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* |sigma|, a head a line; every row must look like the first. */
static void read_sigma(Log *l, const cJSON *o) {
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(o, "sigma"), *layer, *value;
    int n_layers = cJSON_GetArraySize(layers), n_heads = layers ? cJSON_GetArraySize(layers->child) : 0, at = 0;
    if (n_layers == 0 || n_heads == 0) return;
    if (!l->sigma) {
        l->layers = n_layers;
        l->heads = n_heads;
        l->sigma = xcalloc((size_t)n_layers * (size_t)n_heads * (size_t)l->rows, sizeof(double));
        l->sigma_step = xcalloc((size_t)l->rows, sizeof(double));
    }
    if (n_layers != l->layers || n_heads != l->heads) return;
    cJSON_ArrayForEach(layer, layers) {
        if (cJSON_GetArraySize(layer) != n_heads) return;
        cJSON_ArrayForEach(value, layer) { l->sigma[(at++) * l->rows + l->n_sigma_rows] = fabs(value->valuedouble); }
    }
    l->sigma_step[l->n_sigma_rows++] = number(o, "step");
}

static void read_line(Log *l, const cJSON *o) {
    int i = l->n++;
    l->step[i] = number(o, "step");
    l->loss[i] = number(o, "loss");
    l->lr[i] = number(o, "lr");
    l->val[i] = number(o, "val_loss");
    l->mean[i] = i ? l->mean[i - 1] + (l->loss[i] - l->mean[i - 1]) / MIN(i + 1, MEAN_LINES) : l->loss[i];
    read_sigma(l, o);
}

static void log_free(Log *l) {
    free(l->step);
    free(l->sigma);
    free(l->sigma_step);
    *l = (Log){0};
}

static int read_log(Log *l, const char *path, Err *err) {
    size_t n;
    Err why;
    *l = (Log){0};
    char *text = file_read(path, log_max, &n, err), *line = text;
    if (!text) return -1;
    int rc = 0, number_of = 0;
    l->rows = 1;
    for (size_t i = 0; i < n; i++) l->rows += text[i] == '\n';
    l->step = xcalloc((size_t)l->rows * 5, sizeof *l->step);
    double **columns[] = {&l->loss, &l->mean, &l->lr, &l->val};
    for (size_t k = 0; k < COUNTOF(columns); k++) *columns[k] = l->step + (k + 1) * (size_t)l->rows;
    for (char *end; rc == 0 && (end = memchr(line, '\n', n - (size_t)(line - text))); line = end + 1) {
        number_of++;
        cJSON *o = json_parse(line, (size_t)(end - line), LINE_DEPTH, LINE_VALUES, &why);
        if (!o || isnan(number(o, "step")))
            rc = err_set(err, "%s: line %d is no step: %s", path, number_of, o ? "it has no number" : why.msg);
        else
            read_line(l, o);
        cJSON_Delete(o);
    }
    if (rc == 0 && l->n == 0) rc = err_set(err, "%s: there is no step in it", path);
    l->layers = l->sigma ? l->layers : 0;
    free(text);
    if (rc) log_free(l);
    return rc;
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

static ChartLine *sigma_lines(const Log *l, char (*names)[24]) {
    int n = l->layers * l->heads;
    ChartLine *lines = xcalloc((size_t)n, sizeof *lines);
    for (int i = 0; i < n; i++) {
        int layer = i / l->heads;
        snprintf(names[i], sizeof names[i], "layer %d", layer);
        lines[i] = (ChartLine){.name = i % l->heads == 0 && (l->layers <= 12 || layer % (l->layers / 6) == 0) ? names[i]
                                                                                                              : NULL,
                               .x = l->sigma_step,
                               .y = l->sigma + (size_t)i * (size_t)l->rows,
                               .n = l->n_sigma_rows,
                               .color = -1 - (l->layers > 1 ? (double)layer / (l->layers - 1) : 0)};
    }
    return lines;
}

int plot_run(const char *dir, const char *path, Err *err) {
    char log_path[PATH_BYTES], title[256];
    Log l;
    if (path_join(log_path, dir, "log.jsonl", err) || read_log(&l, log_path, err)) return -1;
    int n = 2, n_sigma = l.layers * l.heads;
    double *steps[4];
    ChartLine losses[] = {column(steps, 0, &l, l.loss, "training loss"), column(steps, 1, &l, l.mean, "running mean"),
                          column(steps, 2, &l, l.val, "validation loss")};
    ChartLine rate = column(steps, 3, &l, l.lr, NULL);
    losses[0].faint = true;
    losses[2].color = 1;
    rate.color = 2;
    char(*names)[24] = xcalloc((size_t)n_sigma + 1, sizeof *names);
    ChartLine *sigma = n_sigma ? sigma_lines(&l, names) : NULL;
    Chart charts[3] = {{"loss, nats per token", "step", losses, losses[2].n ? 3 : 2},
                       {"learning rate", "step", &rate, 1}};
    if (sigma) charts[n++] = (Chart){"noise: |sigma| of every head", "step", sigma, n_sigma};
    snprintf(title, sizeof title, "training of %.200s", dir);
    int rc = charts_save(charts, n, title, path, err);
    for (size_t i = 0; i < COUNTOF(steps); i++) free(steps[i]);
    free(sigma);
    free(names);
    log_free(&l);
    return rc;
}
