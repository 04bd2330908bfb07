#include "trainer/report/comparison.h"

#include "base/memory.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Takes `what` from the end of name, and the separators in front of it; not if nothing would be left. */
static bool cut_end(char *name, const char *what) {
    size_t n = strlen(name), m = strlen(what);
    if (m >= n || !text_ends(name, what)) return false;
    n -= m;
    while (n > 0 && strchr("-_.", name[n - 1])) n--;
    if (n == 0) return false;
    name[n] = 0;
    return true;
}

static void name_network(char name[NETWORK_NAME], const PastRun *r, bool whole) {
    char path[PATH_BYTES], number[64];
    snprintf(path, sizeof path, "%s", r->dir);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = 0;
    const char *slash = strrchr(path, '/');
    char *base = slash && slash[1] && !whole ? path + (slash + 1 - path) : path;
    snprintf(number, sizeof number, "seed%lld", (long long)r->seed);
    if (!cut_end(base, number)) {
        snprintf(number, sizeof number, "-s%lld", (long long)r->seed);
        cut_end(base, number);
    }
    snprintf(number, sizeof number, "lr%g", r->lr);
    cut_end(base, number);
    size_t n = strlen(base), skipped = n < NETWORK_NAME ? 0 : n - NETWORK_NAME + 1;
    snprintf(name, NETWORK_NAME, "%s", base + skipped);
}

/* ---- arms ---- */

static bool same_rates(const PastRun *a, const PastRun *b) { return a->lr == b->lr && a->min_lr == b->min_lr; }

static Arm *find_arm(Comparison *c, const PastRun *r) {
    int network = c->n_networks;
    for (Arm *a = c->arms; a < c->arms + c->n_arms; a++) {
        if (strcmp(a->runs[0]->network, r->network)) continue;
        if (same_rates(a->runs[0], r)) return a;
        network = a->network;
    }
    c->n_networks += network == c->n_networks;
    Arm *a = &c->arms[c->n_arms++];
    *a = (Arm){.network = network, .lr = r->lr, .min_lr = r->min_lr};
    return a;
}

static int add_run(Comparison *c, const PastRun *r, int most, Err *err) {
    Arm *a = find_arm(c, r);
    if (!a->runs) a->runs = xcalloc((size_t)most, sizeof *a->runs);
    const PastRun *twin = arm_run(a, r->seed);
    if (twin) return err_set(err, "%s and %s are the same training: seed %lld", twin->dir, r->dir, (long long)r->seed);
    int i = a->n++;
    for (; i > 0 && a->runs[i - 1]->seed > r->seed; i--) a->runs[i] = a->runs[i - 1];
    a->runs[i] = r;
    return 0;
}

static int by_network_and_rate(const void *a, const void *b) {
    const Arm *x = a, *y = b;
    if (x->network != y->network) return x->network < y->network ? -1 : 1;
    if (x->lr != y->lr) return x->lr < y->lr ? -1 : 1;
    return x->min_lr < y->min_lr ? -1 : x->min_lr > y->min_lr;
}

const PastRun *arm_run(const Arm *a, int64_t seed) {
    for (int i = 0; i < a->n; i++)
        if (a->runs[i]->seed == seed) return a->runs[i];
    return NULL;
}

static int check_alike(const PastRun *a, const PastRun *b, Err *err) {
    if (!past_run_finished(b))
        return err_set(err, "%s is not finished: %lld of %lld steps", b->dir, (long long)b->done, (long long)b->steps);
    if (strcmp(a->texts, b->texts))
        return err_set(err, "%s and %s are of different texts (sha256 %s and %s): their losses do not compare", a->dir,
                       b->dir, a->texts, b->texts);
    if (strcmp(a->tokenizer, b->tokenizer))
        return err_set(
            err, "%s and %s have different tokens (sha256 of tokenizer.json %s and %s): their losses do not compare",
            a->dir, b->dir, a->tokenizer, b->tokenizer);
    return 0;
}

/* ---- what they say ---- */

static double last_loss(const PastRun *r) { return r->loss[r->n - 1]; }

static void summarize(Arm *a, double *room) {
    for (int i = 0; i < a->n; i++) room[i] = last_loss(a->runs[i]);
    a->mean = sample_mean(room, a->n);
    a->deviation = deviation_of(room, a->n);
}

static void subtract(Arm *a, const Arm *base, double *room) {
    int n = 0;
    for (int i = 0; i < a->n && a != base; i++) {
        const PastRun *other = arm_run(base, a->runs[i]->seed);
        if (other) room[n++] = last_loss(a->runs[i]) - last_loss(other);
    }
    a->difference = interval_of(room, n);
}

/* What the run of this seed is to come down to; NaN: nobody says. */
static double target(const Arm *base, int64_t seed, double loss) {
    const PastRun *r = arm_run(base, seed);
    if (!isnan(loss)) return loss;
    return r ? r->loss[past_run_alike(r) - 1] : NAN;
}

static void reach(Arm *a, const Arm *base, double loss) {
    double steps = 0, seconds = 0;
    for (int i = 0; i < a->n; i++) {
        const PastRun *r = a->runs[i];
        double level = target(base, r->seed, loss);
        if (isnan(level)) continue;
        a->told++;
        int alike = past_run_alike(r);
        double at = reaches(r->step, r->loss, alike, level);
        if (isnan(at)) continue;
        a->reached++;
        steps += at;
        seconds += reaches(r->seconds, r->loss, alike, level);
    }
    a->steps = a->reached ? steps / a->reached : NAN;
    a->seconds = a->reached ? seconds / a->reached : NAN;
}

/* ---- all ---- */

static void choose_best(Comparison *c) {
    for (int k = 0; k < c->n_networks; k++) {
        Arm *best = NULL;
        for (Arm *a = c->arms; a < c->arms + c->n_arms; a++)
            if (a->network == k && (!best || a->mean < best->mean)) best = a;
        BUG_ON(!best);
        best->best = true;
    }
}

static int choose_base(Comparison *c, const char *against, Err *err) {
    int network = 0;
    while (against && network < c->n_networks && strcmp(c->names[network], against)) network++;
    if (network == c->n_networks)
        return err_set(err, "--against %s names none of the networks; the first is %s", against, c->names[0]);
    for (c->base = 0; c->arms[c->base].network != network || !c->arms[c->base].best;) c->base++;
    return 0;
}

static void name_networks(Comparison *c) {
    c->names = xcalloc((size_t)c->n_networks, sizeof *c->names);
    for (int whole = 0; whole < 2; whole++) {
        bool alike = false;
        for (int i = c->n_arms - 1; i >= 0; i--) name_network(c->names[c->arms[i].network], c->arms[i].runs[0], whole);
        for (int i = 0; i < c->n_networks; i++)
            for (int k = 0; k < i; k++) alike |= !strcmp(c->names[i], c->names[k]);
        if (!alike) break;
    }
}

int comparison_make(Comparison *c, const PastRun *runs, int n, const char *against, double loss, Err *err) {
    BUG_ON(n < 1);
    *c = (Comparison){.arms = xcalloc((size_t)n, sizeof *c->arms)};
    double *room = xcalloc((size_t)n, sizeof *room);
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = check_alike(&runs[0], &runs[i], err) || add_run(c, &runs[i], n, err) ? -1 : 0;
    if (rc == 0) {
        qsort(c->arms, (size_t)c->n_arms, sizeof *c->arms, by_network_and_rate);
        name_networks(c);
        for (int i = 0; i < c->n_arms; i++) summarize(&c->arms[i], room);
        choose_best(c);
        rc = choose_base(c, against, err);
    }
    for (int i = 0; i < c->n_arms && rc == 0; i++) {
        subtract(&c->arms[i], &c->arms[c->base], room);
        reach(&c->arms[i], &c->arms[c->base], loss);
    }
    free(room);
    if (rc) comparison_free(c);
    return rc;
}

void comparison_free(Comparison *c) {
    for (int i = 0; i < c->n_arms; i++) free(c->arms[i].runs);
    free(c->arms);
    free(c->names);
    *c = (Comparison){0};
}
