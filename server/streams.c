#include "server/streams.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "server/post.h"

enum { DIGITS = 6 };

/* Negative: there is none. */
static void put_real(Buffer *b, const char *key, double value) {
    if (value >= 0)
        json_put_rounded(b, key, value, DIGITS);
    else
        json_put_null(b, key);
}

static void put_seed(Buffer *b, const char *key, int64_t seed) {
    if (seed >= 0)
        json_put_int(b, key, seed);
    else
        json_put_null(b, key);
}

static void put_stream(void *out, const PostReport *report) {
    Buffer *b = out;
    const AnswerSummary *a = &report->answer;
    json_open(b, NULL, '{');
    json_put_text(b, "request_id", report->request_id);
    json_put_some(b, "tenant", report->tenant);
    json_put_text(b, "path", report->path);
    json_put_bool(b, "stream", report->stream);
    json_put_int(b, "choices", a->choices);
    json_put_int(b, "running", a->running);
    put_real(b, "age_seconds", now_seconds() - a->submitted);
    put_real(b, "queue_seconds", a->queue_seconds);
    put_real(b, "first_token_seconds", a->first_token_seconds);
    json_put_int(b, "prompt_tokens", a->prompt_tokens);
    json_put_int(b, "tokens", a->tokens);
    put_real(b, "tokens_per_second", answer_tokens_per_second(a));
    put_real(b, "longest_gap_seconds", a->longest_gap);
    put_seed(b, "seed", a->seed);
    put_seed(b, "noise_seed", a->noise_seed);
    json_put_text(b, "system_fingerprint", a->fingerprint);
    json_close(b, '}');
}

void streams_print(const Server *s, Buffer *b) {
    json_open(b, NULL, '{');
    json_put_text(b, "object", "list");
    json_open(b, "data", '[');
    posts_report(s, put_stream, b);
    json_close(b, ']');
    json_close(b, '}');
}
