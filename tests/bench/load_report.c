#include "tests/bench/load_report.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest value that at least the share p of all does not exceed. */
static double percentile(const double *sorted, int n, double p) {
    return n ? sorted[MAX((int)ceil(p * n) - 1, 0)] : NAN;
}

Spread spread_of(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return (Spread){percentile(values, n, 0.5), percentile(values, n, 0.9), percentile(values, n, 0.99)};
}

static void count_error(Figures *f, int status) {
    int k = 0;
    while (k < f->n_errors && f->errors[k].status != status) k++;
    if (k == MOST_ERRORS) return;
    if (k == f->n_errors) f->errors[f->n_errors++].status = status;
    f->errors[k].n++;
}

static bool is_good(const LoadAnswer *a, Slo slo) {
    int n = a->n_events;
    if (n == 0) return false;
    double gap = n > 1 ? (a->events[n - 1] - a->events[0]) / (n - 1) : 0;
    return a->events[0] - a->due <= slo.first && gap <= slo.gap;
}

Figures figures_of(const LoadAnswer *answers, int n, double seconds, Slo slo) {
    Figures f = {0};
    int n_first = 0, n_total = 0, n_gaps = 0, most_gaps = 0;
    for (int i = 0; i < n; i++) most_gaps += answers[i].n_events;
    double *first = xcalloc((size_t)MAX(n, 1), sizeof *first), *total = xcalloc((size_t)MAX(n, 1), sizeof *total);
    double *gaps = xcalloc((size_t)MAX(most_gaps, 1), sizeof *gaps);
    for (int i = 0; i < n; i++) {
        const LoadAnswer *a = &answers[i];
        if (a->status != 200) {
            count_error(&f, a->status);
            continue;
        }
        total[n_total++] = a->ended - a->due;
        if (a->n_events) first[n_first++] = a->events[0] - a->due;
        for (int k = 1; k < a->n_events; k++) gaps[n_gaps++] = a->events[k] - a->events[k - 1];
        f.tokens += load_answer_tokens(a) / seconds;
        f.good += is_good(a, slo) / seconds;
    }
    f.requests = n_total / seconds;
    f.first = spread_of(first, n_first);
    f.gap = spread_of(gaps, n_gaps);
    f.total = spread_of(total, n_total);
    free(first);
    free(total);
    free(gaps);
    return f;
}

int count_distinct(const LoadAnswer *answers, int n) {
    int n_texts = 0, n_distinct = 0, failed = 0;
    char **texts = xcalloc((size_t)MAX(n, 1), sizeof *texts);
    for (int i = 0; i < n; i += 2)
        if (answers[i].status == 200)
            texts[n_texts++] = load_answer_text(&answers[i]);
        else
            failed = 1;
    qsort(texts, (size_t)n_texts, sizeof *texts, text_order);
    for (int i = 0; i < n_texts; i++) n_distinct += i == 0 || strcmp(texts[i - 1], texts[i]);
    for (int i = 0; i < n_texts; i++) free(texts[i]);
    free(texts);
    return n_distinct + failed;
}

/* ---- the table ---- */

void report_head(void) {
    printf("%-22s %-10s %7s %7s %7s  %-20s %-20s %-20s %-8s %s\n", "", "", "", "", "", "first text, ms", "gap, ms",
           "whole answer, s", "distinct", "");
    printf("%-22s %-10s %7s %7s %7s  %6s %6s %6s %6s %6s %6s %6s %6s %6s %-8s %s\n", "server", "load", "tok/s", "req/s",
           "good/s", "p50", "p90", "p99", "p50", "p90", "p99", "p50", "p90", "p99", " of same", "errors");
}

static void print_spread(const Spread *s, double scale, int digits) {
    printf(" %6.*f %6.*f %6.*f", digits, scale * s->p50, digits, scale * s->p90, digits, scale * s->p99);
}

void report_row(const char *server, const char *load, const Figures *f, int n_distinct, int n_same) {
    printf("%-22.22s %-10s %7.1f %7.2f %7.2f ", server, load, f->tokens, f->requests, f->good);
    print_spread(&f->first, 1000, 0);
    print_spread(&f->gap, 1000, 1);
    print_spread(&f->total, 1, 2);
    if (n_same)
        printf(" %d of %-3d", n_distinct, n_same);
    else
        printf(" %-8s", "-");
    for (int k = 0; k < f->n_errors; k++)
        if (f->errors[k].status)
            printf(" %d x %d", f->errors[k].n, f->errors[k].status);
        else
            printf(" %d x no answer", f->errors[k].n);
    printf("\n");
    fflush(stdout);
}
