#include "trainer/compare.h"

#include "base/files.h"
#include "base/memory.h"
#include "trainer/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 32, MOST = 64, MOST_STEPS = 4096, PANEL = 5, PANELS = MOST / PANEL + 2 };
static const size_t csv_max = 1 << 24;
static const char header[] = "member,seed,step,train_loss,val_loss\n";
/* Early on all differ by more than at the end, which would then be a line. */
static const double differences_from = 0.25;

typedef struct Curves {
    char members[MOST][NAME];
    int seeds[MOST], n_members, n_seeds, n_steps;
    double steps[MOST_STEPS], *loss; /* [member, seed, step], NaN where there is none */
} Curves;

static double *loss_at(const Curves *c, int member, int seed, int step) {
    return &c->loss[((size_t)member * (size_t)c->n_seeds + (size_t)seed) * (size_t)c->n_steps + (size_t)step];
}

static int find_member(const Curves *c, const char *name) {
    int i = 0;
    while (i < c->n_members && strcmp(c->members[i], name)) i++;
    return i;
}

static int find_seed(const Curves *c, int seed) {
    int i = 0;
    while (i < c->n_seeds && c->seeds[i] != seed) i++;
    return i;
}

static int find_step(const Curves *c, double step) {
    int i = 0;
    while (i < c->n_steps && c->steps[i] != step) i++;
    return i;
}

typedef struct Row {
    char member[NAME];
    int seed;
    double step, loss;
} Row;

/* "mha,1,40,6.36472,5.83586"; what is written into a picture needs no escapes. */
static bool read_row(const char *line, Row *r) {
    double train;
    int end = 0,
        n = sscanf(line, "%31[A-Za-z0-9+._ -],%d,%lf,%lf,%lf%n", r->member, &r->seed, &r->step, &train, &r->loss, &end);
    return n == 5 && (line[end] == '\n' || line[end] == 0);
}

/* Takes down who and when; the losses come in a second pass, when there is room for them. */
static bool note(Curves *c, const Row *r) {
    int member = find_member(c, r->member), seed = find_seed(c, r->seed), step = find_step(c, r->step);
    if (member == MOST || seed == MOST || step == MOST_STEPS) return false;
    if (member == c->n_members) memcpy(c->members[c->n_members++], r->member, NAME);
    if (seed == c->n_seeds) c->seeds[c->n_seeds++] = r->seed;
    if (step == c->n_steps) c->steps[c->n_steps++] = r->step;
    return true;
}

static const char *next_line(const char *line) { return line + strcspn(line, "\n") + (strchr(line, '\n') != NULL); }

static int read_curves(Curves *c, const char *text, const char *csv, Err *err) {
    Row r;
    int number = 1;
    size_t n = sizeof header - 1;
    if (strncmp(text, header, n)) return err_set(err, "%s: line 1 is not %.*s", csv, (int)n - 1, header);
    for (const char *line = text + n; *line; line = next_line(line)) {
        number++;
        if (!read_row(line, &r) || !note(c, &r))
            return err_set(err, "%s: line %d is no member, seed, step and two losses, or one too many", csv, number);
    }
    if (number == 1) return err_set(err, "%s: there is no evaluation in it", csv);
    n = (size_t)c->n_members * (size_t)c->n_seeds * (size_t)c->n_steps;
    c->loss = xmalloc(n * sizeof *c->loss);
    for (size_t i = 0; i < n; i++) c->loss[i] = NAN;
    for (const char *line = text + sizeof header - 1; *line; line = next_line(line)) {
        read_row(line, &r);
        *loss_at(c, find_member(c, r.member), find_seed(c, r.seed), find_step(c, r.step)) = r.loss;
    }
    return 0;
}

/* ---- the picture ---- */

/* A member's line and band from step `first` on, less the first member's of the same seed if `difference`. */
static ChartLine make_line(const Curves *c, int member, int first, bool difference) {
    int n = c->n_steps - first;
    double *y = xcalloc((size_t)n * 3, sizeof *y), *low = y + n, *high = low + n;
    for (int i = 0; i < n; i++) {
        int known = 0;
        low[i] = INFINITY;
        high[i] = -INFINITY;
        for (int s = 0; s < c->n_seeds; s++) {
            double v = *loss_at(c, member, s, first + i) - (difference ? *loss_at(c, 0, s, first + i) : 0);
            if (!isfinite(v)) continue;
            y[i] += (v - y[i]) / ++known;
            low[i] = fmin(low[i], v);
            high[i] = fmax(high[i], v);
        }
        if (known == 0) y[i] = NAN;
    }
    return (ChartLine){.name = c->members[member], .x = c->steps + first, .y = y, .low = low, .high = high, .n = n};
}

static double last_value(const ChartLine *l) { return isfinite(l->y[l->n - 1]) ? l->y[l->n - 1] : INFINITY; }

static int by_last_value(const void *a, const void *b) {
    double x = last_value(a), y = last_value(b);
    return x < y ? -1 : x > y;
}

static void blend_in(ChartLine *l, bool named) {
    l->name = named ? "all others" : NULL;
    l->low = l->high = NULL;
    l->faint = true;
    l->color = 1;
}

static int draw(const Curves *c, const char *path, Err *err) {
    char titles[PANELS][128];
    Chart charts[PANELS];
    ChartLine all[MOST], against[MOST];
    int n = c->n_members, first = find_step(c, c->steps[0]), n_charts = 1;
    while (first + 1 < c->n_steps && c->steps[first] < differences_from * c->steps[c->n_steps - 1]) first++;
    for (int m = 0; m < n; m++) {
        all[n - 1 - m] = make_line(c, m, 0, false); /* the first lies on top */
        if (m > 0) blend_in(&all[n - 1 - m], m == 1);
        against[m] = make_line(c, m, first, true);
    }
    charts[0] = (Chart){"validation loss, nats per token", "step", all, n};
    qsort(against + 1, (size_t)n - 1, sizeof *against, by_last_value);
    for (int m = 1; m < n; m += PANEL, n_charts++) {
        int count = MIN(PANEL, n - m);
        for (int i = 0; i < count; i++) against[m + i].color = i;
        snprintf(titles[n_charts], sizeof *titles,
                 "minus that of %s, mean and range of %d seeds: places %d to %d of %d", c->members[0], c->n_seeds, m,
                 m + count - 1, n - 1);
        charts[n_charts] = (Chart){titles[n_charts], "step", against + m, count};
    }
    int rc = charts_save(charts, n_charts, "validation losses compared", path, err);
    for (int m = 0; m < n; m++) {
        free((void *)all[m].y);
        free((void *)against[m].y);
    }
    return rc;
}

int compare_curves(const char *csv, const char *path, Err *err) {
    size_t n;
    char *text = file_read(csv, csv_max, &n, err);
    if (!text) return -1;
    Curves *c = xcalloc(1, sizeof *c);
    int rc = read_curves(c, text, csv, err);
    if (rc == 0) rc = draw(c, path, err);
    free(c->loss);
    free(c);
    free(text);
    return rc;
}
