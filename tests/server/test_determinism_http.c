/* Same request, same body: seen by clients of the real daemon. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/answers.h"

#include <stdlib.h>
#include <string.h>

static char *url_of(const Daemon *d) { return xstrdup(test_text("http://127.0.0.1:%d/v1/completions", d->port)); }

/* Sends bodies[0..n), `most` at once; the essences of the answers. Each must be a whole completion. */
static char **ask(const Daemon *d, char *const *bodies, int n, int most) {
    char *url = url_of(d), **essences = xcalloc((size_t)n, sizeof *essences);
    LoadRequest *requests = xcalloc((size_t)n, sizeof *requests);
    LoadAnswer *answers = xcalloc((size_t)n, sizeof *answers);
    for (int i = 0; i < n; i++) requests[i] = (LoadRequest){.url = url, .body = bodies[i]};
    load_run(requests, answers, n, most);
    for (int i = 0; i < n; i++) {
        essences[i] = answer_essence(&answers[i]);
        CHECK_MSG(essences[i], "request %d: status %d %s, %.300s\n%.500s", i, answers[i].status,
                  answers[i].error ? answers[i].error : "", bodies[i], answers[i].body);
    }
    load_answers_free(answers, n);
    free(answers);
    free(requests);
    free(url);
    return essences;
}

static void free_all(char **texts, int n) {
    for (int i = 0; i < n; i++) free(texts[i]);
    free(texts);
}

/* ---- everything a request may ask for ---- */

#define LONG_PROMPT                                                                                                    \
    "The river runs below the mill, and the miller counts the stones. Every stone was a word once, every word a "      \
    "stone; "
static const char *const prompts[] = {
    "\"The river\"",
    "\"" LONG_PROMPT LONG_PROMPT "the river\"",
    "\"" LONG_PROMPT LONG_PROMPT "again and again\"",
    "\"\xE4\xBD\xA0\xE5\xA5\xBD, K\xC3\xB6ln\"",
    "[70,71,72,300,17,18,19]",
    "[\"He said\",\"" LONG_PROMPT "\"]",
};

static const char *pick(Draws *d, const char *a, const char *b, const char *c) {
    const char *const all[] = {a, b, c};
    return all[draw_below(d, 3)];
}

static char *make_body(int index, bool stream) {
    char *body;
    size_t size;
    Draws d = draws_open(41, DRAW_TEST, (uint32_t)index);
    FILE *f = open_memstream(&body, &size);
    fprintf(f, "{\"prompt\":%s,\"max_tokens\":%d,\"seed\":%u,\"noise_seed\":%d",
            prompts[draw_below(&d, COUNTOF(prompts))], (int)draw_below(&d, 60), draw_u32(&d), (int)draw_below(&d, 3));
    fprintf(f, ",\"temperature\":%s", pick(&d, "0", "1", "1.5"));
    fputs(pick(&d, ",\"top_k\":20", ",\"top_p\":0.9", ""), f);
    fputs(pick(&d, ",\"min_p\":0.02", ",\"frequency_penalty\":0.5", ""), f);
    fputs(pick(&d, ",\"logprobs\":3", ",\"logprobs\":0", ""), f);
    fputs(pick(&d, ",\"echo\":true", "", ""), f);
    fputs(pick(&d, ",\"noise_scale\":0", ",\"noise_scale\":2.5", ""), f);
    fputs(pick(&d, ",\"noise_prompt_seed\":9", "", ""), f);
    fputs(pick(&d, ",\"n\":3", "", ""), f);
    fputs(pick(&d, ",\"stop\":[\"er\",\"\xC3\xBC\"]", ",\"stop_token_ids\":[80,81,200]", ""), f);
    fputs(pick(&d, ",\"return_token_ids\":true", ",\"ignore_eos\":true", ""), f);
    if (stream) fputs(",\"stream\":true,\"stream_options\":{\"include_usage\":true}", f);
    fputc('}', f);
    BUG_ON(fclose(f));
    return body;
}

TEST(determinism_http_bodies_are_the_same_in_a_crowd) {
    enum { N = 100 };
    Daemon d;
    char **bodies = xcalloc(N, sizeof *bodies), **again = xcalloc(N, sizeof *again);
    for (int i = 0; i < N; i++) bodies[i] = make_body(i, false), again[i] = make_body(i, i % 2);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    char **alone = ask(&d, bodies, N, 1);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--threads 2 --prefill-chunk 16 --max-batch 40"));
    for (int round = 0; round < 2; round++) { /* once more with what the first left in the cache */
        char **crowd = ask(&d, again, N, 16);
        for (int i = 0; i < N; i++)
            CHECK_MSG(alone[i] && crowd[i] && !strcmp(alone[i], crowd[i]), "%s\n%.900s\n%.900s", again[i], alone[i],
                      crowd[i]);
        free_all(crowd, N);
    }
    daemon_stop(&d);
    free_all(alone, N);
    free_all(bodies, N);
    free_all(again, N);
}

/* No event lost, doubled or out of order: each stream adds up to what one request alone was told. */
TEST(determinism_http_256_streams) {
    enum { KINDS = 8, N = 256 };
    Daemon d;
    char *plain[KINDS], *streams[N];
    static const char form[] =
        "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true,\"seed\":%d,\"logprobs\":1,"
        "\"noise_seed\":%d%s}";
    for (int i = 0; i < N; i++) {
        if (i < KINDS) plain[i] = xstrdup(test_text(form, i % KINDS, i % KINDS, ""));
        streams[i] = xstrdup(
            test_text(form, i % KINDS, i % KINDS, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"));
    }
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-batch 256"));
    char **alone = ask(&d, plain, KINDS, 1), **together = ask(&d, streams, N, N);
    for (int i = 0; i < N; i++)
        CHECK_MSG(alone[i % KINDS] && together[i] && !strcmp(alone[i % KINDS], together[i]),
                  "stream %d: %.900s\n%.900s", i, alone[i % KINDS], together[i]);
    daemon_stop(&d);
    free_all(alone, KINDS);
    free_all(together, N);
    for (int i = 0; i < N; i++) free(streams[i]);
    for (int i = 0; i < KINDS; i++) free(plain[i]);
}
