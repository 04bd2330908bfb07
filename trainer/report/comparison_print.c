#include "trainer/report/comparison.h"

#include "base/atomic_file.h"
#include "base/buffer.h"

#include <math.h>
#include <string.h>

enum { NAME_WIDTH = 21, CELL = 40 };

/* ---- the table ---- */

/* Text in `width` columns; a character of UTF-8 takes one. */
static void print_cell(FILE *f, const char *text, int width) {
    int columns = 0;
    for (const char *p = text; *p; p++) columns += ((unsigned char)*p & 0xc0) != 0x80;
    fprintf(f, "%*s%s", MAX(width - columns, 0), "", text);
}

static void write_difference(const Comparison *c, const Arm *a, char out[CELL]) {
    const Interval *d = &a->difference;
    if (a == &c->arms[c->base])
        snprintf(out, CELL, "base ");
    else if (d->n == 0)
        snprintf(out, CELL, "no such seed ");
    else if (d->n == 1)
        snprintf(out, CELL, "%+.3f ", d->mean);
    else
        snprintf(out, CELL, "%+.3f ± %.3f%s", d->mean, d->half, interval_is_clear(d) ? "*" : " ");
}

/* The mean where all seeds reach the loss, else how many do. */
static void write_reached(const Arm *a, double value, int digits, char out[CELL]) {
    if (a->told == 0 || (a->reached == a->told && isnan(value)))
        snprintf(out, CELL, "-");
    else if (a->reached == 0)
        snprintf(out, CELL, "never");
    else if (a->reached < a->told)
        snprintf(out, CELL, "%d of %d", a->reached, a->told);
    else
        snprintf(out, CELL, "%.*f", digits, value);
}

static void print_row(const Comparison *c, const Arm *a, FILE *f) {
    const char *name = c->names[a->network];
    char text[CELL];
    fprintf(f, "%-*s", NAME_WIDTH, name);
    if (strlen(name) > NAME_WIDTH) fprintf(f, "\n%*s", NAME_WIDTH, "");
    fprintf(f, " %6g%c %2d", a->lr, a->best ? '<' : ' ', a->n);
    if (a->n > 1)
        snprintf(text, sizeof text, "%.3f ± %.3f", a->mean, a->deviation);
    else
        snprintf(text, sizeof text, "%.3f        ", a->mean);
    print_cell(f, text, 14);
    write_difference(c, a, text);
    print_cell(f, text, 17);
    write_reached(a, a->steps, 0, text);
    print_cell(f, text, 7);
    write_reached(a, a->seconds, 1, text);
    print_cell(f, text, 8);
    fputc('\n', f);
}

void comparison_print(const Comparison *c, double loss, FILE *f) {
    const Arm *base = &c->arms[c->base];
    fprintf(f, "%-*s %6s   n%14s%17s%7s%8s\n", NAME_WIDTH, "network", "lr", "loss    ", "difference ", "steps",
            "seconds");
    for (int i = 0; i < c->n_arms; i++) print_row(c, &c->arms[i], f);
    fprintf(f,
            "\n"
            "lr          < is the best rate of its network, by the mean loss\n"
            "loss        at the end, nats per held-out token: mean, deviation of n seeds\n"
            "difference  from %s, lr %g, of the same seeds: mean and\n"
            "            Student's 95%% interval, * where it is clear of 0\n",
            c->names[base->network], base->lr);
    if (isnan(loss))
        fputs("steps       until the loss stays below the last one that the base's run of the\n"
              "            same seed had on as many held-out tokens; seconds of training by\n"
              "            the clock\n",
              f);
    else
        fprintf(f, "steps       until the loss stays below %g; seconds of training by the clock\n", loss);
}

/* ---- CSV ---- */

static void add_name(Buffer *b, const char *name) {
    bool plain = !strpbrk(name, ",\"\r\n");
    if (plain) {
        buffer_text(b, name);
        return;
    }
    buffer_text(b, "\"");
    for (const char *p = name; *p; p++) buffer_print(b, *p == '"' ? "\"%c" : "%c", *p);
    buffer_text(b, "\"");
}

static void add_run(Buffer *b, const char *name, const PastRun *r) {
    for (int i = 0; i < r->n; i++) {
        add_name(b, name);
        buffer_print(b, ",%g,%lld,%.0f,", r->lr, (long long)r->seed, r->step[i]);
        if (isfinite(r->seconds[i])) buffer_print(b, "%.2f", r->seconds[i]);
        buffer_print(b, ",%.5f,%.0f\n", r->loss[i], r->tokens[i]);
    }
}

int comparison_save_csv(const Comparison *c, const char *path, Err *err) {
    Buffer b = {0};
    buffer_text(&b, "network,lr,seed,step,seconds,val_loss,val_tokens\n");
    for (const Arm *a = c->arms; a < c->arms + c->n_arms; a++)
        for (int i = 0; i < a->n; i++) add_run(&b, c->names[a->network], a->runs[i]);
    int rc = b.failed ? err_set(err, "%s: out of memory", path) : file_write(path, b.data, b.n, err);
    buffer_free(&b);
    return rc;
}
