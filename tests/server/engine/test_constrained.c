/* Draws under a form: those of the logits' own distribution, or of what the filters leave of it, among the tokens that
 * may come, whichever way they were found. */
#include "base/memory.h"
#include "base/random.h"
#include "server/engine/constrained.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 5000 };

typedef struct Bench {
    Tokenizer *tokenizer;
    Vocabulary vocabulary;
    SampleScratch sampling;
    ConstrainedScratch own;
    Job *job;
    int vocab;
    float *logits; /* [vocab] */
    bool *legal;   /* [vocab] */
} Bench;

static bool bench_open(Bench *b, const char *pattern, Sampling sampling) {
    FormError e;
    Err err;
    *b = (Bench){0};
    if (tokenizer_json_load(&b->tokenizer, "weights/demo/tokenizer.json", &err)) return false;
    b->vocab = tokenizer_vocab_size(b->tokenizer);
    bool made = !vocabulary_init(&b->vocabulary, b->tokenizer) && !constrained_scratch_init(&b->own, b->vocab);
    Form *f = form_of_regex(pattern, strlen(pattern), &e);
    if (!made || !f) return false;
    sample_scratch_init(&b->sampling, b->vocab);
    b->job = job_new((int[]){0}, 1, 1, -1, false);
    b->job->sampling = sampling;
    b->job->walk = form_walk_new(f, b->own.form);
    b->job->vocabulary = &b->vocabulary;
    b->logits = xmalloc((size_t)b->vocab * sizeof *b->logits);
    b->legal = xcalloc((size_t)b->vocab, 1);
    for (int i = 0; i < b->vocab; i++) {
        b->logits[i] = (float)(philox4x32((uint32_t)i, 0, 0, 1, 3).v[0] % 1000) / 200;
        b->legal[i] = vocabulary_test(&b->vocabulary, b->job->walk, i, b->own.form);
    }
    form_release(f);
    return true;
}

static void bench_close(Bench *b) {
    free(b->logits);
    free(b->legal);
    job_release(b->job);
    sample_scratch_free(&b->sampling);
    constrained_scratch_free(&b->own);
    vocabulary_free(&b->vocabulary);
    tokenizer_free(b->tokenizer);
}

static int draw(Bench *b, int position) {
    const float *scored;
    int64_t visits;
    return constrained_draw(b->job, b->logits, b->vocab, b->job->prompt, position, false, &b->sampling, &b->own,
                            &scored, &visits);
}

/* Pearson's chi square over tokens that are expected five times, the others together; wanted adds up to 1. */
static void check_distribution(Bench *b, const double *wanted, const char *what) {
    int *seen = xcalloc((size_t)b->vocab, sizeof *seen), bins = 0, few_seen = 0, drawn;
    double chi = 0, few = 0;
    for (int i = 0; i < DRAWS; i++) {
        drawn = draw(b, 1 + i);
        REQUIRE(drawn >= 0);
        CHECK(b->legal[drawn]);
        seen[drawn]++;
    }
    for (int i = 0; i < b->vocab; i++) {
        double n = wanted[i] * DRAWS;
        if (n < 5) {
            few += n;
            few_seen += seen[i];
        } else {
            chi += (seen[i] - n) * (seen[i] - n) / n;
            bins++;
        }
    }
    if (few >= 5) {
        chi += (few_seen - few) * (few_seen - few) / few;
        bins++;
    } else {
        CHECK_MSG(few_seen <= 3 * few + 10, "%s: %d draws where %g were expected", what, few_seen, few);
    }
    CHECK_MSG(bins > 3 && fabs(chi - (bins - 1)) < 4 * sqrt(2.0 * bins), "%s: chi square %.1f over %d bins", what, chi,
              bins);
    free(seen);
}

/* exp(logit) of the legal ones that are kept, by their sum. */
static void expect(const Bench *b, float least, double *wanted) {
    double sum = 0;
    for (int i = 0; i < b->vocab; i++) {
        wanted[i] = b->legal[i] && b->logits[i] >= least ? exp((double)b->logits[i]) : 0;
        sum += wanted[i];
    }
    for (int i = 0; i < b->vocab; i++) wanted[i] /= sum;
}

static int compare(const void *x, const void *y) {
    float a = *(const float *)x, b = *(const float *)y;
    return (a < b) - (a > b);
}

/* The logit of the k-th token, all of them counted. */
static float kth(const Bench *b, int k) {
    float *sorted = xmalloc((size_t)b->vocab * sizeof *sorted);
    memcpy(sorted, b->logits, (size_t)b->vocab * sizeof *sorted);
    qsort(sorted, (size_t)b->vocab, sizeof *sorted, compare);
    float x = sorted[k - 1];
    free(sorted);
    return x;
}

TEST(constrained_draws_have_the_masked_distribution) {
    if (SANITIZED) SKIP("counts 25,000 draws");
    static const struct {
        const char *pattern;
        int top_k;
    } cases[] = {{"[a-z ]+", 0}, {"[^a-m]+", 0}, {"(the|of|and)[ a-d]+", 0}, {"[a-z ]+", 1500}, {"[^a]*", 60}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Bench b;
        Sampling s = {
            .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = 5, .top_k = cases[i].top_k};
        REQUIRE(bench_open(&b, cases[i].pattern, s));
        double *wanted = xmalloc((size_t)b.vocab * sizeof *wanted);
        if (cases[i].top_k) /* of equal logits the lower ids are kept: none of these are equal at the edge */
            for (int k = 0; k < b.vocab; k++) b.logits[k] += (float)k * 1e-5f;
        expect(&b, cases[i].top_k ? kth(&b, cases[i].top_k) : -INFINITY, wanted);
        check_distribution(&b, wanted, cases[i].pattern);
        free(wanted);
        bench_close(&b);
    }
}

/* Where the filters leave nothing that may come, they judge again what may. */
TEST(constrained_draws_behind_filters) {
    Bench b;
    Sampling s = {.temperature = 1, .top_k = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = 5};
    REQUIRE(bench_open(&b, "[qz]+", s));
    int best = -1;
    for (int i = 0; i < b.vocab; i++)
        if (b.legal[i] && (best < 0 || b.logits[i] > b.logits[best])) best = i;
    for (int p = 1; p < 50; p++) CHECK(draw(&b, p) == best);
    b.job->sampling.temperature = 0;
    b.job->sampling.top_k = 0;
    CHECK(draw(&b, 1) == best && constrained_take(b.job, best, &b.own) == false);
    bench_close(&b);
}

/* The end of a text is drawn where the form may end, and nowhere else. */
TEST(constrained_ends) {
    Bench b;
    const Config c = {.eos_token_id = 0, .vocab_size = 4096};
    Sampling s = {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .seed = 5};
    REQUIRE(bench_open(&b, "a(bc)*", s));
    REQUIRE(job_prepare(b.job, &c) == 0);
    b.logits[0] = 100;
    int a = draw(&b, 1), ended = draw(&b, 2);
    CHECK(a != 0 && ended != 0 && b.legal[a]);
    while (!form_may_end(b.job->walk)) CHECK(!constrained_take(b.job, draw(&b, 1), &b.own));
    CHECK(draw(&b, 1) == 0);
    const float *scored;
    int64_t visits;
    CHECK(constrained_draw(b.job, b.logits, b.vocab, b.job->prompt, 1, true, &b.sampling, &b.own, &scored, &visits) !=
          0);
    bench_close(&b);
}

/* Whichever allocation fails. */
TEST(constrained_without_memory) {
    int refused = 0;
    for (bool failed = true; failed; refused += failed) {
        ConstrainedScratch s;
        memory_fail(refused, false);
        int rc = constrained_scratch_init(&s, 64);
        failed = memory_fail(-1, false) > refused;
        CHECK_MSG(rc == (failed ? -1 : 0), "allocation %d: %d", refused, rc);
        constrained_scratch_free(&s);
    }
    CHECK(refused > 1);
}
