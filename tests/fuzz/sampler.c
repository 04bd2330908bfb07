/* The sampler over any logits and any settings of a request: the drawn token is one of the vocabulary, neither banned
 * nor impossible, the same when drawn again, the most probable one without temperature, and the probabilities of all
 * tokens add up to 1. */
#include "base/memory.h"
#include "model/sampler.h"
#include "tests/fuzz/fuzz.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 48, MOST_HISTORY = 16, MOST_BANNED = 3 };

typedef struct Case {
    Sampling s;
    LogitBias bias[2];
    float logits[MOST_TOKENS];
    int vocab, n_prompt, n_history, n_banned, history[MOST_HISTORY], banned[MOST_BANNED];
} Case;

static float between(FuzzInput *in, float low, float high) { return low + (high - low) * (float)fuzz_byte(in) / 255; }

/* In the ranges that a request may ask for. */
static Sampling read_sampling(FuzzInput *in) {
    Sampling s = {.temperature = between(in, 0, 2),
                  .top_k = fuzz_below(in, 60),
                  .top_p = between(in, 0, 1),
                  .min_p = between(in, 0, 1),
                  .typical_p = between(in, 0, 1),
                  .repetition_penalty = between(in, 0.05f, 2),
                  .repetition_window = fuzz_below(in, 8),
                  .frequency_penalty = between(in, -2, 2),
                  .presence_penalty = between(in, -2, 2),
                  .seed = fuzz_u32(in)};
    int off = fuzz_byte(in); /* a bit for each filter */
    if (off & 1) s.top_p = 1;
    if (off & 2) s.min_p = 0;
    if (off & 4) s.typical_p = 1;
    if (off & 8) s.repetition_penalty = 1;
    if (off & 16) s.frequency_penalty = s.presence_penalty = 0;
    if (off & 32) s.temperature = 0;
    if (off & 64) s.temperature = 1e-3f;
    s.top_p = s.top_p > 0 ? s.top_p : 1e-6f;
    s.typical_p = s.typical_p > 0 ? s.typical_p : 1e-6f;
    return s;
}

static Case read_case(FuzzInput *in) {
    Case c = {.s = read_sampling(in), .vocab = 1 + fuzz_below(in, MOST_TOKENS)};
    c.n_history = fuzz_below(in, MOST_HISTORY + 1);
    c.n_prompt = fuzz_below(in, c.n_history + 1);
    for (int i = 0; i < c.n_history; i++) c.history[i] = fuzz_below(in, c.vocab);
    c.n_banned = fuzz_below(in, MOST_BANNED + 1);
    for (int i = 0; i < c.n_banned; i++) c.banned[i] = fuzz_below(in, c.vocab);
    c.s.n_bias = fuzz_below(in, MIN(3, c.vocab + 1));
    for (int i = 0; i < c.s.n_bias; i++) c.bias[i] = (LogitBias){.id = i, .bias = between(in, -100, 100)};
    bool any = fuzz_byte(in) & 1;
    for (int i = 0; i < c.vocab; i++) c.logits[i] = any ? fuzz_float(in) : (float)(fuzz_byte(in) - 128) / 8;
    return c;
}

static bool is_banned(const Case *c, int id) {
    for (int i = 0; i < c->n_banned; i++)
        if (c->banned[i] == id) return true;
    return false;
}

static bool is_impossible(float logit) { return isnan(logit) || logit == -INFINITY; }

static void check_draw(const Case *c, SampleScratch *scratch) {
    Sampling s = c->s;
    s.bias = c->bias;
    bool any = false, surely = false; /* a penalty may take what is near -FLT_MAX to -INFINITY */
    int best = -1;
    for (int i = 0; i < c->vocab; i++) {
        if (is_banned(c, i) || is_impossible(c->logits[i])) continue;
        any = true;
        surely |= c->logits[i] > -1e30f;
        if (best < 0 || fminf(c->logits[i], FLT_MAX) > fminf(c->logits[best], FLT_MAX)) best = i;
    }
    int id =
        sample_token(&s, c->logits, c->vocab, c->history, c->n_prompt, c->n_history, c->banned, c->n_banned, scratch);
    CHECK_MSG(id < 0 ? !surely : any, "drawn %d", id);
    if (id < 0) return;
    CHECK_MSG(id < c->vocab && !is_banned(c, id) && !is_impossible(c->logits[id]), "drawn %d", id);
    CHECK(id == sample_token(&s, c->logits, c->vocab, c->history, c->n_prompt, c->n_history, c->banned, c->n_banned,
                             scratch));
    s = (Sampling){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    CHECK(best == sample_token(&s, c->logits, c->vocab, c->history, c->n_prompt, c->n_history, c->banned, c->n_banned,
                               scratch));
}

static void check_probabilities(const Case *c) {
    TokenLogprob top[MOST_TOKENS];
    float chosen;
    double sum = 0;
    token_logprobs(c->logits, c->vocab, 0, &chosen, top, c->vocab);
    for (int i = 0; i < c->vocab; i++)
        if (!isfinite(c->logits[i]) || fabsf(c->logits[i]) > 1e4f) return;
    for (int i = 0; i < c->vocab; i++) {
        CHECK(top[i].id >= 0 && top[i].id < c->vocab && top[i].logprob <= 1e-6f);
        if (i) CHECK(top[i - 1].logprob >= top[i].logprob);
        if (top[i].id == 0) CHECK(top[i].logprob == chosen);
        sum += exp((double)top[i].logprob);
    }
    CHECK_MSG(fabs(sum - 1) < 1e-2, "the probabilities add up to %.9g", sum);
}

/* Of some tokens only those are drawn. */
static void check_masked(const Case *c, SampleScratch *scratch) {
    Sampling s = c->s;
    s.n_bias = 0;
    const float *masked = mask_logits(c->logits, c->vocab, c->history, c->n_history, scratch);
    float copy[MOST_TOKENS];
    memcpy(copy, masked, (size_t)c->vocab * sizeof *copy);
    int id = sample_token(&s, copy, c->vocab, NULL, 0, 0, NULL, 0, scratch);
    bool allowed = id < 0;
    for (int i = 0; i < c->n_history; i++) allowed |= c->history[i] == id;
    CHECK_MSG(allowed, "drawn %d, which is masked", id);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    Case c = read_case(&in);
    SampleScratch scratch;
    sample_scratch_init(&scratch, c.vocab);
    check_draw(&c, &scratch);
    check_masked(&c, &scratch);
    check_probabilities(&c);
    sample_scratch_free(&scratch);
}

TEST(fuzz_sampler) { fuzz_run("sampler", look); }
