#include "tokenizer/diversity.h"

#include "base/fixed_math.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 4 }; /* of BLEU */

typedef struct Gram {
    uint64_t key; /* rank of its first n - 1 tokens, its last token */
    int text, at; /* where: its first token in all texts joined */
} Gram;

typedef struct Work {
    const TokenSpan *texts;
    int n_texts, n_tokens;
    Gram *grams;         /* [n_tokens] */
    int *rank;           /* [n_tokens] of the n-gram that begins there among the different ones */
    double *matches;     /* [n_texts][ORDERS] n-grams of a text that its references have, clipped */
    int *symbols;        /* [n_tokens] ranks of the tokens */
    uint64_t *bits;      /* [n_tokens] by symbol, zero between calls */
    signed char *deltas; /* [n_tokens] */
} Work;

/* ---- n-grams ---- */

static int compare_grams(const void *a, const void *b) {
    const Gram *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->text - y->text;
}

/* An n-gram is known by the rank of its beginning, from the pass before, and its last token. */
static int list_grams(Work *w, int order) {
    int n = 0, start = 0;
    for (int t = 0; t < w->n_texts; start += w->texts[t++].n)
        for (int i = 0; i + order <= w->texts[t].n; i++) {
            uint64_t front = order > 1 ? (uint64_t)w->rank[start + i] : 0;
            uint64_t last = (uint32_t)w->texts[t].ids[i + order - 1];
            w->grams[n++] = (Gram){.key = front << 32 | last, .text = t, .at = start + i};
        }
    qsort(w->grams, (size_t)n, sizeof *w->grams, compare_grams);
    return n;
}

/* The end of grams[from...] that are the same n-gram (of the same text). */
static int run_end(const Gram *g, int from, int n, bool same_text) {
    int end = from + 1;
    while (end < n && g[end].key == g[from].key && (!same_text || g[end].text == g[from].text)) end++;
    return end;
}

/* Adds min(count in the text, most in any other) for every text that has the n-gram of grams[from..end). */
static void add_matches(const Work *w, int from, int end, int order) {
    const Gram *g = w->grams;
    int most = 0, second = 0; /* counts of the two texts that have most */
    for (int i = from, next; i < end; i = next) {
        next = run_end(g, i, end, true);
        int count = next - i;
        second = MAX(second, MIN(most, count));
        most = MAX(most, count);
    }
    for (int i = from, next; i < end; i = next) {
        next = run_end(g, i, end, true);
        int count = next - i, others = count == most ? second : most;
        w->matches[g[i].text * ORDERS + order - 1] += MIN(count, others);
    }
}

/* Counts the n-grams of one order; returns how many different ones there are, *all of all. */
static int count_grams(Work *w, int order, int *all) {
    int n = list_grams(w, order), different = 0;
    for (int i = 0, end; i < n; i = end, different++) {
        end = run_end(w->grams, i, n, false);
        add_matches(w, i, end, order);
        for (int k = i; k < end; k++) w->rank[w->grams[k].at] = different;
    }
    *all = n;
    return different;
}

/* ---- BLEU ---- */

static int nearest_length(const Work *w, int t) {
    int own = w->texts[t].n, best = -1;
    for (int i = 0; i < w->n_texts; i++) {
        int n = w->texts[i].n;
        if (i == t) continue;
        if (best < 0 || abs(n - own) < abs(best - own) || (abs(n - own) == abs(best - own) && n < best)) best = n;
    }
    return best;
}

static double bleu(const Work *w, int t) {
    static const double EPSILON = 0.1;
    const double *matches = w->matches + t * ORDERS;
    int n = w->texts[t].n, reference = nearest_length(w, t);
    double sum = 0;
    if (matches[0] == 0) return 0;
    for (int order = 1; order <= ORDERS; order++) {
        double m = matches[order - 1];
        sum += fixed_log((m > 0 ? m : EPSILON) / MAX(n - order + 1, 1)) / ORDERS;
    }
    return fixed_exp(sum + (n < reference ? 1 - (double)reference / n : 0));
}

/* ---- Levenshtein ---- */

/* Myers' bit vectors (1999) in Hyyroe's form (2003): 64 rows of the table at a time, as their vertical differences, are
 * carried through all columns. deltas[j] is the horizontal difference in column j of the row above, and becomes that of
 * the last of these rows. */
static void advance_rows(uint64_t *bits, const int *a, int rows, const int *b, int n, signed char *deltas) {
    uint64_t up = ~UINT64_C(0), down = 0, last = UINT64_C(1) << (rows - 1);
    for (int i = 0; i < rows; i++) bits[a[i]] |= UINT64_C(1) << i;
    for (int j = 0; j < n; j++) {
        uint64_t equal = bits[b[j]], above_down = deltas[j]<0, above_up = deltas[j]> 0;
        uint64_t vertical = equal | down;
        equal |= above_down;
        uint64_t horizontal = (((equal & up) + up) ^ up) | equal;
        uint64_t right_up = down | ~(horizontal | up), right_down = up & horizontal;
        deltas[j] = (signed char)(!!(right_up & last) - !!(right_down & last));
        right_up = right_up << 1 | above_up;
        right_down = right_down << 1 | above_down;
        up = right_down | ~(vertical | right_up);
        down = right_up & vertical;
    }
    for (int i = 0; i < rows; i++) bits[a[i]] = 0;
}

static int edit_distance(const Work *w, const int *a, int m, const int *b, int n) {
    int distance = m;
    memset(w->deltas, 1, (size_t)n);
    for (int i = 0; i < m; i += 64) advance_rows(w->bits, a + i, MIN(m - i, 64), b, n, w->deltas);
    for (int j = 0; j < n; j++) distance += w->deltas[j];
    return distance;
}

static double mean_distance(const Work *w) {
    double sum = 0;
    int pairs = w->n_texts * (w->n_texts - 1) / 2;
    const int *a = w->symbols;
    for (int i = 0; i < w->n_texts; a += w->texts[i++].n) {
        const int *b = w->symbols;
        int m = w->texts[i].n;
        for (int j = 0; j < i; b += w->texts[j++].n) {
            int n = w->texts[j].n;
            if (m + n > 0) sum += (double)edit_distance(w, a, m, b, n) / MAX(m, n);
        }
    }
    return sum / pairs;
}

/* ---- all of it ---- */

static void measure(Work *w, Diversity *out) {
    double sum = 0;
    for (int order = 1; order <= ORDERS; order++) {
        int all, different = count_grams(w, order, &all);
        if (order <= DISTINCT) out->distinct[order - 1] = all ? (double)different / all : NAN;
        if (order == 1) memcpy(w->symbols, w->rank, (size_t)w->n_tokens * sizeof *w->symbols);
    }
    for (int t = 0; t < w->n_texts; t++) sum += bleu(w, t);
    bool pairs = w->n_texts > 1 && w->n_tokens > 0;
    out->self_bleu = pairs ? sum / w->n_texts : NAN;
    out->edit_distance = pairs ? mean_distance(w) : NAN;
}

int diversity_measure(const TokenSpan *texts, int n, Diversity *out) {
    Work w = {.texts = texts, .n_texts = n};
    for (int t = 0; t < n; t++) w.n_tokens += texts[t].n;
    size_t all = (size_t)w.n_tokens;
    w.grams = try_malloc(all * sizeof *w.grams);
    w.rank = try_malloc(all * sizeof *w.rank);
    w.symbols = try_malloc(all * sizeof *w.symbols);
    w.bits = try_calloc(all, sizeof *w.bits);
    w.deltas = try_malloc(all);
    w.matches = try_calloc((size_t)n * ORDERS, sizeof *w.matches);
    bool whole = w.grams && w.rank && w.symbols && w.bits && w.deltas && w.matches;
    if (whole) measure(&w, out);
    free(w.grams);
    free(w.rank);
    free(w.symbols);
    free(w.bits);
    free(w.deltas);
    free(w.matches);
    return whole ? 0 : -1;
}
