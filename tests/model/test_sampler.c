#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "model/sampler.h"
#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Sampling plain = {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};

/* ---- the definition, by sorting everything ---- */

typedef struct Candidate {
    int id;
    float logit, weight, typical;
} Candidate;

static int by_probability(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static int by_typicality(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->typical != y->typical) return x->typical > y->typical ? -1 : 1;
    return x->id - y->id;
}

static double total_of(const Candidate *c, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)c[i].weight;
    return sum;
}

/* How many of the sorted candidates it takes to reach share of the mass. */
static int prefix(const Candidate *c, int n, float share) {
    double target = (double)share * total_of(c, n), sum = 0;
    if (share >= 1) return n;
    for (int i = 0; i < n; i++)
        if ((sum += (double)c[i].weight) >= target) return i + 1;
    return n;
}

static int keep_typical(Candidate *c, int n, float share) {
    if (share >= 1) return n;
    double sum = 0, total = total_of(c, n);
    for (int i = 0; i < n; i++) {
        double term = -(double)c[i].weight * log((double)c[i].weight);
        sum += term + 0x1p19 - 0x1p19;
    }
    for (int i = 0; i < n; i++) c[i].typical = (float)-fabs(log((double)c[i].weight) + sum / total);
    qsort(c, (size_t)n, sizeof *c, by_typicality);
    n = prefix(c, n, share);
    qsort(c, (size_t)n, sizeof *c, by_probability);
    return n;
}

/* What the filters leave, the most probable first: its number. Bias, penalties and bans are written out by hand in
 * their own test. */
static int reference_kept(const Sampling *s, const float *logits, int vocab, Candidate *c) {
    float *w = xmalloc((size_t)vocab * sizeof *w), max = -INFINITY;
    for (int i = 0; i < vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < vocab; i++) w[i] = (logits[i] - max) / s->temperature;
    kernels->exp_sum_row(vocab, w, w, 0);
    int n = 0, kept = 0;
    for (int i = 0; i < vocab; i++) {
        float weight = (float)((double)w[i] + 0x1p19 - 0x1p19);
        if (weight > 0) c[n++] = (Candidate){.id = i, .logit = logits[i], .weight = weight};
    }
    qsort(c, (size_t)n, sizeof *c, by_probability);
    if (s->top_k > 0) n = MIN(n, s->top_k);
    n = MAX(1, prefix(c, n, s->top_p));
    n = keep_typical(c, n, s->typical_p);
    for (int i = 0; i < n; i++)
        if ((double)c[i].weight >= (double)s->min_p * (double)c[0].weight) c[kept++] = c[i];
    free(w);
    return kept;
}

static int reference(const Sampling *s, const float *logits, int vocab, int position) {
    Candidate *c = xmalloc((size_t)vocab * sizeof *c);
    int kept = reference_kept(s, logits, vocab, c), chosen = 0;
    double u = (philox4x32((uint32_t)position, 0, 0, 0x53414D50, s->seed).v[0] + 0.5) / 4294967296.0;
    double target = u * total_of(c, kept), sum = 0;
    while (chosen < kept - 1 && (sum += (double)c[chosen].weight) <= target) chosen++;
    int id = c[chosen].id;
    free(c);
    return id;
}

/* Some rows are flat, some peaked, some full of ties. */
static void draw_logits(Draws *d, float *logits, int vocab) {
    static const float spreads[] = {0, 0.01f, 1, 3, 10, 40};
    float spread = spreads[draw_below(d, COUNTOF(spreads))];
    bool ties = draw_below(d, 3) == 0;
    for (int i = 0; i < vocab; i++) {
        logits[i] = spread * (float)draw_normal(d);
        if (ties) logits[i] = rintf(logits[i]);
    }
}

static Sampling draw_sampling(Draws *d, int vocab) {
    static const float temperatures[] = {0.01f, 0.5f, 1, 1.7f}, shares[] = {0, 0.1f, 0.5f, 0.95f, 1, 1};
    Sampling s = plain;
    s.temperature = temperatures[draw_below(d, COUNTOF(temperatures))];
    s.top_k = draw_below(d, 2) ? (int)draw_below(d, (uint64_t)(draw_below(d, 2) ? vocab : vocab / 100) + 2) : 0;
    s.top_p = shares[draw_below(d, COUNTOF(shares))];
    s.typical_p = draw_below(d, 3) ? 1 : shares[draw_below(d, COUNTOF(shares))];
    s.min_p = draw_below(d, 2) ? 0 : (float)draw_uniform(d);
    s.seed = draw_u32(d);
    return s;
}

TEST(sampler_equals_sorting_everything) {
    static const int vocabs[] = {1, 2, 19, 255, 1024, 5003};
    for (size_t v = 0; v < COUNTOF(vocabs); v++) {
        int vocab = vocabs[v], wrong = 0;
        float *logits = xmalloc((size_t)vocab * sizeof *logits);
        SampleScratch scratch;
        sample_scratch_init(&scratch, vocab);
        Draws d = draws_open(7, DRAW_TEST, (uint32_t)vocab);
        for (int round = 0; round < 400; round++) {
            draw_logits(&d, logits, vocab);
            Sampling s = draw_sampling(&d, vocab);
            int got = sample_token(&s, logits, vocab, NULL, 0, round, NULL, 0, &scratch);
            wrong += got != reference(&s, logits, vocab, round);
        }
        CHECK_MSG(wrong == 0, "vocab %d: %d of 400 draws differ", vocab, wrong);
        sample_scratch_free(&scratch);
        free(logits);
    }
}

/* ---- against the text of the specification, in float64 and with the C library's exp ---- */

TEST(sampler_draws_by_the_specification) {
    enum { V = 97 };
    float logits[V];
    int order[V], wrong = 0;
    double p[V];
    SampleScratch scratch;
    sample_scratch_init(&scratch, V);
    Draws d = draws_open(8, DRAW_TEST, 0);
    for (int i = 0; i < V; i++) logits[i] = 2 * (float)draw_normal(&d), order[i] = i;
    for (int i = 0; i < V; i++)
        for (int j = i + 1; j < V; j++)
            if (logits[order[j]] > logits[order[i]]) {
                int t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
    double total = 0;
    for (int i = 0; i < V; i++) total += p[i] = exp((double)logits[order[i]] / 0.8f);
    Sampling s = plain;
    s.temperature = 0.8f;
    s.seed = 9007199254740991;
    for (int position = 0; position < 20000; position++) {
        double u = (philox4x32((uint32_t)position, 0, 0, 0x53414D50, s.seed).v[0] + 0.5) / 4294967296.0, sum = 0;
        int k = 0;
        while ((sum += p[k]) <= u * total) k++;
        wrong += sample_token(&s, logits, V, NULL, 0, position, NULL, 0, &scratch) != order[k];
    }
    CHECK_MSG(wrong == 0, "%d of 20000 draws differ", wrong);
    sample_scratch_free(&scratch);
}

/* Two equally probable tokens: the lower id is drawn exactly when u < 1/2, so the draws show the first bit of u. */
TEST(sampler_u_known_answer) {
    static const uint32_t bits = 0x8793011D; /* positions 0..31 of seed 42, first position highest */
    float logits[2] = {0};
    SampleScratch scratch;
    sample_scratch_init(&scratch, 2);
    Sampling s = plain;
    s.seed = 42;
    uint32_t got = 0;
    for (int p = 0; p < 32; p++) got = got << 1 | (uint32_t)sample_token(&s, logits, 2, NULL, 0, p, NULL, 0, &scratch);
    CHECK_MSG(got == bits, "drew %08x", got);
    sample_scratch_free(&scratch);
}

/* ---- what happens before the draw ---- */

TEST(sampler_greedy_takes_the_lower_of_equals) {
    float logits[] = {1, 5, 5, -2};
    SampleScratch scratch;
    sample_scratch_init(&scratch, 4);
    Sampling s = plain;
    s.temperature = 0;
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, NULL, 0, &scratch) == 1);
    int banned[] = {1};
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, banned, 1, &scratch) == 2);
    LogitBias bias[] = {{2, -INFINITY}, {3, 10}};
    s.bias = bias;
    s.n_bias = 2;
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, NULL, 0, &scratch) == 3);
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, (int[]){3, 1}, 2, &scratch) == 0);
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, (int[]){0, 1, 2, 3}, 4, &scratch) == -1);
    s.temperature = 1;
    CHECK(sample_token(&s, logits, 4, NULL, 0, 0, (int[]){0, 1, 2, 3}, 4, &scratch) == -1);
    sample_scratch_free(&scratch);
}

TEST(sampler_penalties) {
    float logits[] = {4, 3.5f, -1, -1.5f};
    int history[] = {0, 2, 1, 1}; /* prompt 0 2, generated 1 1 */
    SampleScratch scratch;
    sample_scratch_init(&scratch, 4);
    Sampling s = plain;
    s.temperature = 0;
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 0);
    s.repetition_penalty = 2; /* 2, 1.75, -2, -1.5 */
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 0);
    CHECK(sample_token(&s, logits, 4, history, 2, 4, (int[]){0, 1}, 2, &scratch) == 3);
    float close[] = {3, 3.5f, -1, -1.5f};
    CHECK(sample_token(&s, close, 4, history, 2, 4, NULL, 0, &scratch) == 1);
    s.repetition_window = 2; /* 3, 1.75 */
    CHECK(sample_token(&s, close, 4, history, 2, 4, NULL, 0, &scratch) == 0);
    s.frequency_penalty = 1; /* 3, -0.25, of both that were generated */
    s.repetition_window = 1;
    CHECK(sample_token(&s, close, 4, history, 2, 4, (int[]){0}, 1, &scratch) == 1);
    s.repetition_penalty = 1;
    s.frequency_penalty = -1; /* only the generated one, twice: 4, 5.5 */
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 1);
    s.frequency_penalty = 0;
    s.presence_penalty = -0.4f; /* once: 4, 3.9 */
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 0);
    s.presence_penalty = -0.6f;
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 1);
    for (int i = 0; i < 4; i++) CHECK(scratch.counts[i] == 0);
    const LogitBias bias = {.id = 2, .bias = 6.5f}; /* comes first: 5.5 becomes 2.75, not -1 -2 and 4.5 */
    s = plain;
    s.temperature = 0;
    s.bias = &bias;
    s.n_bias = 1;
    CHECK(sample_token(&s, logits, 4, history, 2, 4, NULL, 0, &scratch) == 2);
    s.repetition_penalty = 2;
    CHECK(sample_token(&s, logits, 4, history + 1, 1, 1, NULL, 0, &scratch) == 0);
    sample_scratch_free(&scratch);
}

TEST(sampler_survives_nan_and_infinity) {
    static const Sampling settings[] = {
        {.temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 1e-30f, .top_p = 0.5f, .typical_p = 0.5f, .repetition_penalty = 1.5f, .top_k = 3},
        {.temperature = 1e30f, .top_p = 0, .typical_p = 0, .repetition_penalty = 0.5f, .min_p = 1},
    };
    float nan_only[] = {NAN, NAN, NAN}, none[] = {-INFINITY, -INFINITY, NAN};
    float infinite[] = {NAN, 1, INFINITY, FLT_MAX, -INFINITY, -FLT_MAX};
    int history[] = {0, 2, 4};
    SampleScratch scratch;
    sample_scratch_init(&scratch, 6);
    for (size_t k = 0; k < COUNTOF(settings); k++) {
        CHECK(sample_token(&settings[k], nan_only, 3, NULL, 0, 0, NULL, 0, &scratch) == -1);
        CHECK(sample_token(&settings[k], none, 3, NULL, 0, 0, NULL, 0, &scratch) == -1);
        for (int p = 3; p < 50; p++) {
            int id = sample_token(&settings[k], infinite, 6, history, 1, MIN(p, 3), NULL, 0, &scratch);
            CHECK_MSG(id == 1 || id == 2 || id == 3 || id == 5, "setting %zu drew %d", k, id);
        }
    }
    TokenLogprob top[8];
    float chosen;
    token_logprobs(infinite, 6, 1, &chosen, top, 8);
    token_logprobs(nan_only, 3, 1, &chosen, top, 8);
    CHECK(isnan(chosen) && top[0].id == -1);
    sample_scratch_free(&scratch);
}

/* Of the few that top_k leaves of many. */
TEST(sampler_again_draws_what_may_come) {
    enum { V = 1500 };
    static const int first[] = {1300, 40, 700}; /* the most probable */
    float logits[V] = {0}, within[V];
    SampleScratch scratch;
    sample_scratch_init(&scratch, V);
    Sampling s = plain;
    s.top_k = COUNTOF(first);
    for (size_t i = 0; i < COUNTOF(first); i++) logits[first[i]] = 9;
    for (size_t i = 0; i < COUNTOF(first); i++) {
        for (int k = 0; k < V; k++) within[k] = k == first[i] ? 0 : -INFINITY;
        int id = sample_again(&s, (Attempt){1, within}, logits, V, NULL, 0, 0, NULL, 0, &scratch);
        CHECK_MSG(id == first[i], "%d, not %d", id, first[i]);
    }
    for (int k = 0; k < V; k++) within[k] = logits[k] > 0 ? -INFINITY : 0;
    CHECK(sample_again(&s, (Attempt){1, within}, logits, V, NULL, 0, 0, NULL, 0, &scratch) == -1);
    sample_scratch_free(&scratch);
}

/* ---- log-probabilities and seeds ---- */

TEST(sampler_logprobs) {
    enum { V = 3000, TOP = 20 };
    static float logits[V];
    Draws d = draws_open(9, DRAW_TEST, 0);
    for (int i = 0; i < V; i++) logits[i] = rintf(8 * (float)draw_normal(&d)) / 4;
    TokenLogprob top[TOP];
    float chosen;
    token_logprobs(logits, V, 77, &chosen, top, TOP);
    double sum = 0;
    for (int i = 0; i < V; i++) sum += exp((double)logits[i]);
    CHECK_MSG(fabs((double)chosen - ((double)logits[77] - log(sum))) < 2e-6, "logprob %g", (double)chosen);
    static Candidate all[V];
    for (int i = 0; i < V; i++) all[i] = (Candidate){.id = i, .logit = logits[i]};
    qsort(all, V, sizeof *all, by_probability);
    for (int k = 0; k < TOP; k++) {
        token_logprobs(logits, V, all[k].id, &chosen, NULL, 0);
        CHECK_MSG(top[k].id == all[k].id && top[k].logprob == chosen, "rank %d: %d %g, expected %d %g", k, top[k].id,
                  (double)top[k].logprob, all[k].id, (double)chosen);
    }
    token_logprobs(logits, 2, 0, &chosen, top, 3);
    CHECK(top[1].id >= 0 && top[2].id == -1 && isinf(top[2].logprob));
}

/* Of what is drawn from: probabilities of what the filters leave, and what they drop behind it. */
TEST(sampler_sampled_logprobs) {
    enum { V = 255, TOP = 20 };
    float logits[V], chosen;
    Candidate c[V];
    TokenLogprob top[TOP];
    SampleScratch scratch;
    sample_scratch_init(&scratch, V);
    Draws d = draws_open(11, DRAW_TEST, 0);
    for (int round = 0; round < 400; round++) {
        draw_logits(&d, logits, V);
        Sampling s = draw_sampling(&d, V);
        int id = sample_token(&s, logits, V, NULL, 0, round, NULL, 0, &scratch);
        int n = reference_kept(&s, logits, V, c), wrong = 0;
        double total = total_of(c, n), own = -1;
        sampled_logprobs(&s, logits, V, NULL, 0, round, NULL, 0, &scratch, id, &chosen, top, TOP);
        for (int k = 0; k < TOP; k++) {
            double p = k < n ? (double)c[k].weight / total : 0;
            wrong += !(fabs(exp((double)top[k].logprob) - p) < 1e-6) || (k >= n && top[k].logprob != -INFINITY);
            for (int j = 0; j < k; j++) wrong += top[j].id == top[k].id;
            for (int j = n; j < MIN(k, TOP); j++) wrong += logits[top[j].id] < logits[top[k].id];
        }
        for (int k = 0; k < n; k++)
            if (c[k].id == id) own = (double)c[k].weight / total;
        CHECK_MSG(wrong == 0 && fabs(exp((double)chosen) - own) < 1e-6, "round %d: %d wrong, %g for %g", round, wrong,
                  exp((double)chosen), own);
    }
    /* Bias and bans have acted; with temperature 0 the drawn token has it all. */
    const float four[] = {1, 2, 3, 4};
    const LogitBias bias = {.id = 0, .bias = 9};
    Sampling greedy = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .bias = &bias, .n_bias = 1};
    int id = sample_token(&greedy, four, 4, NULL, 0, 0, (int[]){3}, 1, &scratch);
    sampled_logprobs(&greedy, four, 4, NULL, 0, 0, (int[]){3}, 1, &scratch, id, &chosen, top, 4);
    CHECK(id == 0 && chosen == 0 && top[0].id == 0 && top[0].logprob == 0);
    CHECK(top[1].id == 2 && top[2].id == 1 && top[2].logprob == -INFINITY && top[3].id == -1);
    sample_scratch_free(&scratch);
}

TEST(sampler_choice_seeds) {
    CHECK(choice_seed(42, 0) == 42);
    Philox p = philox4x32(3, 0, 0, 0x43484F49, 42);
    CHECK(choice_seed(42, 3) == (((uint64_t)p.v[1] << 32 | p.v[0]) & 0x1FFFFFFFFFFFFF));
    for (int c = 1; c < 100; c++) CHECK(choice_seed(42, c) >> 53 == 0 && choice_seed(42, c) != choice_seed(43, c));
}

/* Masked logits are drawn from and scored as if there were no other tokens. */
TEST(sampler_mask) {
    enum { V = 1500 };
    static const int allowed[] = {3, 700, 701, 1499};
    float logits[V], few[COUNTOF(allowed)];
    TokenLogprob top[6];
    SampleScratch scratch;
    sample_scratch_init(&scratch, V);
    for (int i = 0; i < V; i++) logits[i] = (float)((i * 37) % 101) / 10;
    for (size_t i = 0; i < COUNTOF(allowed); i++) few[i] = logits[allowed[i]];
    const float *masked = mask_logits(logits, V, allowed, COUNTOF(allowed), &scratch);
    int seen[COUNTOF(allowed)] = {0};
    for (int p = 0; p < 400; p++) {
        const Sampling s = {.temperature = 2, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = 5};
        int id = sample_token(&s, masked, V, NULL, 0, p, NULL, 0, &scratch), k = 0;
        while (k < (int)COUNTOF(allowed) && allowed[k] != id) k++;
        REQUIRE(k < (int)COUNTOF(allowed));
        CHECK(sample_token(&s, few, COUNTOF(allowed), NULL, 0, p, NULL, 0, &scratch) == k);
        seen[k]++;
    }
    double sum = 0;
    for (size_t i = 0; i < COUNTOF(allowed); i++) {
        float own, alone;
        token_logprobs(masked, V, allowed[i], &own, top, 6);
        token_logprobs(few, COUNTOF(allowed), (int)i, &alone, NULL, 0);
        CHECK_MSG(fabsf(own - alone) < 1e-6f && seen[i] > 0, "%.9g, %.9g, seen %d", (double)own, (double)alone,
                  seen[i]);
        sum += exp((double)own);
    }
    CHECK(fabs(sum - 1) < 1e-6 && top[3].id >= 0 && top[4].id == -1 && top[5].id == -1);
    sample_scratch_free(&scratch);
}
