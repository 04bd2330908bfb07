#include "model/sampler.h"

#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/kernels/kernels.h"

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
                         .masked = xmalloc(v * sizeof *s->masked),
                         .buckets = xmalloc(v * sizeof *s->buckets),
                         .logs = xmalloc(v * sizeof *s->logs),
                         .candidates = xmalloc(v * sizeof *s->candidates),
                         .shortlist = xmalloc(v * sizeof *s->shortlist),
                         .counts = xcalloc(v, sizeof *s->counts)};
}

void sample_scratch_free(SampleScratch *s) {
    free(s->logits);
    free(s->weights);
    free(s->typical);
    free(s->masked);
    free(s->buckets);
    free(s->logs);
    free(s->candidates);
    free(s->shortlist);
    free(s->counts);
    *s = (SampleScratch){0};
}

/* ---- logits: bias, penalties ---- */

static bool penalises(const Sampling *s) {
    return s->repetition_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
}

static void penalise(const Sampling *s, float *x, const int *history, int n_prompt, int n_history, int *counts) {
    int first = s->repetition_window > 0 && s->repetition_window < n_history ? n_history - s->repetition_window : 0;
    for (int i = n_prompt; i < n_history; i++) counts[history[i]]++;
    for (int i = n_history - 1; i >= 0; i--) {
        int id = history[i], count = counts[id];
        if (count < 0) continue;
        if (i >= first) x[id] = x[id] > 0 ? x[id] / s->repetition_penalty : x[id] * s->repetition_penalty;
        x[id] -= s->frequency_penalty * (float)count + (count > 0 ? s->presence_penalty : 0);
        counts[id] = -1; /* done */
    }
    for (int i = 0; i < n_history; i++) counts[history[i]] = 0;
}

static void adjust(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt, int n_history,
                   const int *banned, int n_banned, SampleScratch *scratch) {
    float *x = scratch->logits;
    if (s->n_bias == 0 && n_banned == 0 && !penalises(s)) return kernels->clean_row(vocab, logits, x);
    memcpy(x, logits, (size_t)vocab * sizeof *x);
    for (int i = 0; i < s->n_bias; i++) x[s->bias[i].id] += s->bias[i].bias;
    if (penalises(s)) penalise(s, x, history, n_prompt, n_history, scratch->counts);
    for (int i = 0; i < n_banned; i++) x[banned[i]] = -INFINITY;
    kernels->clean_row(vocab, x, x);
}

const float *mask_logits(const float *logits, int vocab, const int *allowed, int n, SampleScratch *scratch) {
    float *x = scratch->masked;
    for (int i = 0; i < vocab; i++) x[i] = -INFINITY;
    for (int i = 0; i < n; i++) x[allowed[i]] = logits[allowed[i]];
    return x;
}

enum { BLOCK = 64 }; /* tokens that are looked over at once, and one by one where something is found */

/* The first element of x [n] that equals value; there is one. */
static int index_of(const float *x, int n, float value) {
    int i = 0;
    for (int any = 0; i + BLOCK <= n; i += BLOCK) {
        for (int j = i; j < i + BLOCK; j++) any |= x[j] == value;
        if (any) break;
    }
    while (x[i] != value) i++;
    return i;
}

/* ---- the ranking: candidates from the most probable on, never sorted ---- */

/* Weights are probabilities times a common factor, multiples of 2^-33 not above 1: at most 2^20 of them add up without
 * rounding. Candidates fall into buckets by logit, best first, so that a place in the ranking is found by walking the
 * buckets and then selecting within one. */
typedef double Tally __attribute__((vector_size(2 * sizeof(double)))); /* sum of weights; number of candidates */
enum { MASS, NUMBER };
typedef struct Ranking {
    const float *x;   /* [V] logits */
    float *w;         /* [V] exp((x - max) / temperature) */
    uint16_t *bucket; /* [V] */
    int vocab, *ids;  /* [V] scratch */
    Tally tally[BUCKETS];
} Ranking;

/* x in [0, 2^19) to the nearest multiple of 2^-33. */
static double exact(double x) { return x + 0x1p19 - 0x1p19; }

static void rank(Ranking *r, float max, float temperature) {
    double candidates = kernels->weigh_row(r->vocab, r->x, max, temperature, r->w, r->bucket);
    for (int i = 0; i < r->vocab; i++) r->tally[r->bucket[i]] += (Tally){(double)r->w[i], 1};
    Tally *last = &r->tally[BUCKETS_LAST];
    for (int b = BUCKETS_LAST + 1; b < BUCKETS; b++) *last += r->tally[b];
    for (int b = 0; b < BUCKETS_LAST; b++) candidates -= r->tally[b][NUMBER];
    (*last)[NUMBER] = candidates; /* it alone has tokens of no weight */
}

/* Larger key first, ties by lower id: a total order, so partitions always make progress. */
static bool before(const float *key, int a, int b) { return key[a] > key[b] || (a < b && key[a] == key[b]); }

static double sum_of(const float *w, const int *ids, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)w[ids[i]];
    return sum;
}

static void swap(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}

/* Walking ids[0..n) from the best on, sum plus their weights (ones, when w is NULL) exceeds target at some candidate.
 * Moves that one to ids[k - 1] and those before it to ids[0..k - 1), in any order; returns k, or n when the sum never
 * does. Expected time is linear. */
static int take(const float *key, const float *w, int *ids, int n, double sum, double target) {
    int lo = 0, hi = n; /* sum includes ids[0..lo) */
    while (lo < hi) {
        swap(&ids[lo + (hi - lo) / 2], &ids[hi - 1]);
        int pivot = ids[hi - 1], mid = lo;
        double inside = 0; /* of ids[lo..mid) */
        for (int i = lo; i < hi - 1; i++)
            if (before(key, ids[i], pivot)) {
                inside += w ? (double)w[ids[i]] : 1;
                swap(&ids[i], &ids[mid++]);
            }
        swap(&ids[mid], &ids[hi - 1]);
        if (sum + inside > target) {
            hi = mid;
            continue;
        }
        sum += inside + (w ? (double)w[pivot] : 1);
        if (sum > target) return mid + 1;
        lo = mid + 1;
    }
    return n;
}

/* The candidates of one bucket, in order of id. */
static int bucket_ids(const Ranking *r, int bucket) {
    int n = 0;
    for (int i = 0; i < r->vocab; i += BLOCK) {
        int end = MIN(i + BLOCK, r->vocab), any = 0;
        for (int j = i; j < end; j++) any |= MIN(r->bucket[j], BUCKETS_LAST) == bucket;
        for (int j = i; any && j < end; j++)
            if (MIN(r->bucket[j], BUCKETS_LAST) == bucket && r->w[j] > 0) r->ids[n++] = j;
    }
    return n;
}

/* The candidate at which the running sum of weights (by_number: of ones) first exceeds target, the last one when it
 * never does; *mass is the weight of the ranking up to and including it. */
static int cross(const Ranking *r, bool by_number, double target, double *mass) {
    int what = by_number ? NUMBER : MASS, b = 0, last = BUCKETS_LAST;
    Tally sum = {0};
    while (last > 0 && r->tally[last][NUMBER] == 0) last--;
    for (; b < last && sum[what] + r->tally[b][what] <= target; b++) sum += r->tally[b];
    int n = bucket_ids(r, b);
    n = take(r->x, by_number ? NULL : r->w, r->ids, n, sum[what], target);
    *mass = sum[MASS] + sum_of(r->w, r->ids, n);
    return r->ids[n - 1];
}

/* The sum that is exceeded exactly when at least `share` of mass is reached. */
static double share_target(float share, double mass) { return fmax(0, nextafter((double)share * mass, -INFINITY)); }

/* ---- the first of the ranking, before there is one ---- */

/* Keeps in x [n], in order of id, the first k of the ranking and few others; their ids go to scratch->shortlist. Of the
 * largest logits of all blocks the k-th largest is one that k candidates reach, and few blocks have any such. */
static int keep_first(float *x, int n, int k, const SampleScratch *scratch) {
    float *largest = scratch->weights;
    int *order = scratch->candidates, *ids = scratch->shortlist, blocks = (n + BLOCK - 1) / BLOCK, kept = 0;
    for (int b = 0; b < blocks; b++) {
        largest[b] = kernels->max_row(MIN(BLOCK, n - b * BLOCK), x + b * BLOCK);
        order[b] = b;
    }
    float least = largest[order[take(largest, NULL, order, blocks, 0, k - 0.5) - 1]];
    for (int b = 0; b < blocks; b++)
        for (int i = b * BLOCK; largest[b] >= least && i < MIN((b + 1) * BLOCK, n); i++)
            if (x[i] >= least) ids[kept] = i, x[kept++] = x[i];
    return kept;
}

/* ---- filters that do not keep the beginning of the ranking ---- */

/* Candidates up to `last` (-1: all) with a weight of at least floor. */
static int list_candidates(const Ranking *r, int last, float floor) {
    int n = 0;
    for (int i = 0; i < r->vocab; i++)
        if (r->w[i] > 0 && r->w[i] >= floor && (last < 0 || !before(r->x, last, i))) r->ids[n++] = i;
    return n;
}

/* Locally typical sampling: those whose surprise -log p is nearest to its mean. mass is the sum of all n. */
static int keep_typical(float share, const float *w, int *ids, int n, double mass, const SampleScratch *scratch) {
    double sum = 0, *logs = scratch->logs;
    float *key = scratch->typical;
    for (int i = 0; i < n; i++) {
        logs[i] = fixed_log((double)w[ids[i]]);
        sum += exact(-(double)w[ids[i]] * logs[i]);
    }
    for (int i = 0; i < n; i++) key[ids[i]] = (float)-fabs(logs[i] + sum / mass);
    return take(key, w, ids, n, 0, share_target(share, mass));
}

static int keep_min_p(float min_p, const float *w, int *ids, int n) {
    float max = 0;
    for (int i = 0; i < n; i++) max = w[ids[i]] > max ? w[ids[i]] : max;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if ((double)w[ids[i]] >= (double)min_p * (double)max) ids[kept++] = ids[i];
    return kept;
}

/* ---- the draw ---- */

static int keep_within(const float *within, int *ids, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (within[ids[i]] != -INFINITY) ids[kept++] = ids[i];
    return kept;
}

/* What top_k and top_p leave: up to which candidate (-1: all), and its weight. */
static int cut_ranking(const Sampling *s, const Ranking *r, double *mass) {
    Tally all = {0};
    int last = -1;
    for (int b = 0; b <= BUCKETS_LAST; b++) all += r->tally[b];
    *mass = all[MASS];
    if (s->top_k > 0 && s->top_k < all[NUMBER]) last = cross(r, true, s->top_k - 0.5, mass);
    if (s->top_p < 1) last = cross(r, false, share_target(s->top_p, *mass), mass);
    return last;
}

/* Of these what the other filters leave, into r->ids. */
static int list_kept(const Sampling *s, const Ranking *r, int last, double mass, const SampleScratch *scratch) {
    /* The most probable candidate weighs 1, so before typical_p has taken its pick min_p is a floor. */
    int n = list_candidates(r, last, s->typical_p < 1 ? 0 : s->min_p);
    if (s->typical_p < 1) n = keep_typical(s->typical_p, r->w, r->ids, n, mass, scratch);
    return keep_min_p(s->min_p, r->w, r->ids, n);
}

static int draw(const Sampling *s, const Ranking *r, double u, const float *within, const SampleScratch *scratch) {
    double mass;
    int last = cut_ranking(s, r, &mass);
    if (!(s->typical_p < 1 || s->min_p > 0 || within)) return cross(r, false, u * mass, &mass);
    int n = list_kept(s, r, last, mass, scratch);
    if (within) n = keep_within(within, r->ids, n);
    if (n == 0) return -1;
    return r->ids[take(r->x, r->w, r->ids, n, 0, u * sum_of(r->w, r->ids, n)) - 1];
}

int sample_token(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt, int n_history,
                 const int *banned, int n_banned, SampleScratch *scratch) {
    return sample_again(s, (Attempt){0}, logits, vocab, history, n_prompt, n_history, banned, n_banned, scratch);
}

int sample_again(const Sampling *s, Attempt attempt, const float *logits, int vocab, const int *history, int n_prompt,
                 int n_history, const int *banned, int n_banned, SampleScratch *scratch) {
    BUG_ON(!(s->temperature >= 0 && s->temperature <= FLT_MAX));
    adjust(s, logits, vocab, history, n_prompt, n_history, banned, n_banned, scratch);
    const float *x = scratch->logits, *within = attempt.within;
    for (int i = 0; i < vocab && within && s->temperature == 0; i++)
        if (within[i] == -INFINITY) scratch->logits[i] = -INFINITY;
    float max = kernels->max_row(vocab, x);
    if (max == -INFINITY) return -1;
    if (s->temperature == 0) return index_of(x, vocab, max);
    bool few = !within && s->top_k > 0 && s->top_k <= vocab / BLOCK / 2;
    if (few) vocab = keep_first(scratch->logits, vocab, s->top_k, scratch);
    Ranking r = {.x = x, .w = scratch->weights, .bucket = scratch->buckets, .vocab = vocab, .ids = scratch->candidates};
    rank(&r, max, s->temperature);
    uint32_t word = philox4x32((uint32_t)n_history, (uint32_t)attempt.number, 0, 0x53414D50, s->seed).v[0];
    int drawn = draw(s, &r, (word + 0.5) * 0x1p-32, within, scratch);
    return few && drawn >= 0 ? scratch->shortlist[drawn] : drawn;
}

/* ---- log-probabilities ---- */

static double log_sum_exp(const float *x, int n, float max) {
    enum { CHUNK = 1024 };
    float y[CHUNK];
    double sum = 0;
    int i = 0;
    do {
        sum += (double)kernels->exp_sum_row(MIN(CHUNK, n - i), x + i, y, max);
    } while ((i += CHUNK) < n);
    return (double)max + fixed_log(sum);
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

void sampled_logprobs(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt,
                      int n_history, const int *banned, int n_banned, SampleScratch *scratch, int id, float *chosen,
                      TokenLogprob *top, int n_top) {
    adjust(s, logits, vocab, history, n_prompt, n_history, banned, n_banned, scratch);
    float *x = scratch->logits, *kept = scratch->typical, max = kernels->max_row(vocab, x);
    Ranking r = {.x = x, .w = scratch->weights, .bucket = scratch->buckets, .vocab = vocab, .ids = scratch->candidates};
    int n = 1, found = 0;
    if (s->temperature > 0) {
        double mass;
        rank(&r, max, s->temperature);
        int last = cut_ranking(s, &r, &mass);
        n = list_kept(s, &r, last, mass, scratch);
    } else {
        r.ids[0] = id;
    }
    for (int i = 0; i < vocab; i++) kept[i] = -INFINITY;
    for (int i = 0; i < n; i++) {
        kept[r.ids[i]] = s->temperature > 0 ? (x[r.ids[i]] - max) / s->temperature : 0;
        x[r.ids[i]] = -INFINITY;
    }
    token_logprobs(kept, vocab, id, chosen, top, n_top);
    while (found < n_top && top[found].id >= 0) found++;
    best_tokens(x, vocab, top + found, n_top - found);
    for (int k = found; k < n_top; k++) top[k].logprob = -INFINITY;
}

uint64_t choice_seed(uint64_t request_seed, int c) {
    if (c == 0) return request_seed;
    Philox p = philox4x32((uint32_t)c, 0, 0, 0x43484F49, request_seed);
    return (p.v[0] | (uint64_t)p.v[1] << 32) & ((UINT64_C(1) << SEED_BITS) - 1);
}
