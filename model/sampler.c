#include "sampler.h"

#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void sample_scratch_init(SampleScratch *s, int vocab) {
    size_t v = (size_t)vocab;
    BUG_ON(v > 1 << 20); /* beyond it sums of weights would not be exact */
    *s = (SampleScratch){.logits = xmalloc(v * sizeof *s->logits),
                         .weights = xmalloc(v * sizeof *s->weights),
                         .typical = xmalloc(v * sizeof *s->typical),
                         .candidates = xmalloc(v * sizeof *s->candidates),
                         .counts = xcalloc(v, sizeof *s->counts)};
}

void sample_scratch_free(SampleScratch *s) {
    free(s->logits);
    free(s->weights);
    free(s->typical);
    free(s->candidates);
    free(s->counts);
    *s = (SampleScratch){0};
}

/* ---- logits: bias, penalties ---- */

static void penalise(const Sampling *s, float *x, const int *history, int n_prompt, int n_history, int *counts) {
    if (s->repetition_penalty == 1 && s->frequency_penalty == 0 && s->presence_penalty == 0) return;
    for (int i = n_prompt; i < n_history; i++) counts[history[i]]++;
    for (int i = 0; i < n_history; i++) {
        int id = history[i], count = counts[id];
        if (count < 0) continue;
        x[id] = x[id] > 0 ? x[id] / s->repetition_penalty : x[id] * s->repetition_penalty;
        x[id] -= s->frequency_penalty * (float)count + (count > 0 ? s->presence_penalty : 0);
        counts[id] = -1; /* done */
    }
    for (int i = 0; i < n_history; i++) counts[history[i]] = 0;
}

static void adjust(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt, int n_history,
                   const int *banned, int n_banned, SampleScratch *scratch) {
    float *x = scratch->logits;
    memcpy(x, logits, (size_t)vocab * sizeof *x);
    for (int i = 0; i < s->n_bias; i++) x[s->bias[i].id] += s->bias[i].bias;
    penalise(s, x, history, n_prompt, n_history, scratch->counts);
    for (int i = 0; i < n_banned; i++) x[banned[i]] = -INFINITY;
    for (int i = 0; i < vocab; i++) {
        x[i] = x[i] > -INFINITY ? x[i] : -INFINITY; /* NaN too */
        x[i] = x[i] < FLT_MAX ? x[i] : FLT_MAX;
    }
}

/* ---- weights: probabilities times a common factor ---- */

/* x in [0, 2^19) to the nearest multiple of 2^-33. At most 2^20 of such numbers not above 1 add up without rounding. */
static double exact(double x) { return x + 0x1p19 - 0x1p19; }

/* w = exp((x - max) / temperature); returns their sum. */
static double make_weights(const float *x, int n, float max, float temperature, float *w) {
    enum { LANES = 8 };
    double sum[LANES] = {0};
    for (int i = 0; i < n; i++) w[i] = (x[i] - max) / temperature;
    kernels->exp_sum_row(n, w, w, 0);
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double weight = exact((double)w[i + l]);
            w[i + l] = (float)weight;
            sum[l] += weight;
        }
    for (; i < n; i++) sum[0] += w[i] = (float)exact((double)w[i]);
    for (int l = 1; l < LANES; l++) sum[0] += sum[l];
    return sum[0];
}

static double mass_of(const float *w, const int *ids, int n) {
    double mass = 0;
    for (int i = 0; i < n; i++) mass += (double)w[ids[i]];
    return mass;
}

/* ---- selection ---- */

/* Larger key first, ties by lower id: a total order, so the partitions below always make progress. */
static bool before(const float *key, int a, int b) { return key[a] > key[b] || (key[a] == key[b] && a < b); }

static void swap(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}

/* Walking the candidates from the best on, the sum of their weights (of ones, when w is NULL) exceeds target at some
 * candidate. Moves that one to ids[r - 1] and those before it to ids[0..r - 1), in any order; returns r, or n when the
 * sum never does. Expected time is linear. */
static int take(const float *key, const float *w, int *ids, int n, double target) {
    int lo = 0, hi = n;
    double mass = 0; /* of ids[0..lo) */
    while (lo < hi) {
        swap(&ids[lo + (hi - lo) / 2], &ids[hi - 1]);
        int pivot = ids[hi - 1], mid = lo;
        double inside = 0; /* mass of ids[lo..mid) */
        for (int i = lo; i < hi - 1; i++)
            if (before(key, ids[i], pivot)) {
                inside += w ? (double)w[ids[i]] : 1;
                swap(&ids[i], &ids[mid++]);
            }
        swap(&ids[mid], &ids[hi - 1]);
        if (mass + inside > target) {
            hi = mid;
            continue;
        }
        mass += inside + (w ? (double)w[pivot] : 1);
        if (mass > target) return mid + 1;
        lo = mid + 1;
    }
    return n;
}

/* The smallest set of best candidates that holds at least `share` of total, their sum. */
static int take_share(const float *key, const float *w, int *ids, int n, float share, double total) {
    return take(key, w, ids, n, fmax(0, nextafter((double)share * total, -INFINITY)));
}

/* Locally typical sampling: those whose surprise -log p is nearest to its mean. */
static int take_typical(float share, const float *w, int *ids, int n, double total, float *key) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exact(-(double)w[ids[i]] * log((double)w[ids[i]]));
    for (int i = 0; i < n; i++) key[ids[i]] = (float)-fabs(log((double)w[ids[i]]) + sum / total);
    return take_share(key, w, ids, n, share, total);
}

static int take_min_p(float min_p, const float *w, int *ids, int n) {
    float max = 0;
    for (int i = 0; i < n; i++) max = w[ids[i]] > max ? w[ids[i]] : max;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if ((double)w[ids[i]] >= (double)min_p * (double)max) ids[kept++] = ids[i];
    return kept;
}

/* ---- finding the candidates ---- */

/* Ids of positive weight whose logit is at least floor. Blocks without any are passed over quickly. */
static int at_least(float floor, const float *x, const float *w, int vocab, int *ids) {
    enum { BLOCK = 64 };
    int n = 0;
    for (int i = 0; i < vocab; i += BLOCK) {
        int end = MIN(i + BLOCK, vocab), any = 0;
        for (int j = i; j < end; j++) any |= x[j] >= floor;
        for (int j = i; any && j < end; j++)
            if (x[j] >= floor && w[j] > 0) ids[n++] = j;
    }
    return n;
}

/* A logit that about one token in 32 reaches: the second best of 64. */
static float high_logit(const float *x, int vocab) {
    enum { PROBES = 64 };
    float best = -INFINITY, second = -INFINITY;
    for (int p = 0; p < PROBES; p++) {
        float probe = x[(int64_t)p * vocab / PROBES];
        second = fmaxf(second, fminf(best, probe));
        best = fmaxf(best, probe);
    }
    return second;
}

/* All candidates, or only the best of them when these contain whatever the first filter (or the draw) can choose. */
static int gather(const Sampling *s, double u, double total, const float *x, const float *w, int vocab, int *ids) {
    enum { SMALL = 1024 };
    bool others = s->typical_p < 1 || s->min_p > 0;
    if (vocab >= SMALL && (s->top_k > 0 || s->top_p < 1 || !others)) {
        int n = at_least(high_logit(x, vocab), x, w, vocab, ids);
        double mass = mass_of(w, ids, n);
        if (s->top_k > 0 ? n >= s->top_k : s->top_p < 1 ? mass >= (double)s->top_p * total : mass > u * total) return n;
    }
    return at_least(-INFINITY, x, w, vocab, ids);
}

int sample_token(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt, int n_history,
                 const int *banned, int n_banned, SampleScratch *scratch) {
    BUG_ON(!(s->temperature >= 0 && s->temperature <= FLT_MAX));
    adjust(s, logits, vocab, history, n_prompt, n_history, banned, n_banned, scratch);
    const float *x = scratch->logits;
    float *w = scratch->weights, max = kernels->max_row(vocab, x);
    int *ids = scratch->candidates;
    if (max == -INFINITY) return -1;
    if (s->temperature == 0) {
        int best = 0;
        while (x[best] != max) best++;
        return best;
    }
    double u = (philox4x32((uint32_t)n_history, 0, 0, 0x53414D50, s->seed).v[0] + 0.5) * 0x1p-32;
    double total = make_weights(x, vocab, max, s->temperature, w);
    int n = gather(s, u, total, x, w, vocab, ids);
    if (s->top_k > 0) {
        if (s->top_k < n) n = take(x, NULL, ids, n, s->top_k - 0.5);
        total = mass_of(w, ids, n);
    }
    if (s->top_p < 1) {
        n = take_share(x, w, ids, n, s->top_p, total);
        total = mass_of(w, ids, n);
    }
    if (s->typical_p < 1) n = take_typical(s->typical_p, w, ids, n, total, scratch->typical);
    if (s->min_p > 0) n = take_min_p(s->min_p, w, ids, n);
    if (s->typical_p < 1 || s->min_p > 0) total = mass_of(w, ids, n);
    return ids[take(x, w, ids, n, u * total) - 1];
}

/* ---- log-probabilities ---- */

static double log_sum_exp(const float *x, int n, float max) {
    enum { CHUNK = 1024 };
    float y[CHUNK];
    double sum = 0;
    for (int i = 0; i < n; i += CHUNK) sum += (double)kernels->exp_sum_row(MIN(CHUNK, n - i), x + i, y, max);
    return (double)max + log(sum);
}

static void best_tokens(const float *x, int vocab, TokenLogprob *top, int n_top) {
    for (int k = 0; k < n_top; k++) top[k] = (TokenLogprob){.id = -1, .logprob = -INFINITY};
    for (int i = 0; n_top && i < vocab; i++) {
        if (!(x[i] > top[n_top - 1].logprob)) continue;
        int k = n_top - 1;
        for (; k > 0 && x[i] > top[k - 1].logprob; k--) top[k] = top[k - 1];
        top[k] = (TokenLogprob){.id = i, .logprob = x[i]};
    }
}

void token_logprobs(const float *logits, int vocab, int id, float *chosen, TokenLogprob *top, int n_top) {
    double lse = log_sum_exp(logits, vocab, kernels->max_row(vocab, logits));
    *chosen = (float)((double)logits[id] - lse);
    best_tokens(logits, vocab, top, n_top);
    for (int k = 0; k < n_top; k++) top[k].logprob = (float)((double)top[k].logprob - lse);
}

uint64_t choice_seed(uint64_t request_seed, int c) {
    if (c == 0) return request_seed;
    Philox p = philox4x32((uint32_t)c, 0, 0, 0x43484F49, request_seed);
    return (p.v[0] | (uint64_t)p.v[1] << 32) & ((UINT64_C(1) << SEED_BITS) - 1);
}
