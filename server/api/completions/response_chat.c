#include "base/json_write.h"
#include "base/err.h"
#include "base/sha256.h"
#include "server/api/completions/response.h"

#include <string.h>

void response_token(Buffer *b, const ChoiceRules *rules, int id, const char *key, float value) {
    char name[24];
    size_t n;
    const char *piece = tokenizer_piece(rules->tokenizer, id, &n);
    bool spelled = piece && !rules->tokens_as_ids;
    snprintf(name, sizeof name, "token_id:%d", id);
    json_put_bytes(b, "token", spelled ? piece : name, spelled ? n : strlen(name));
    json_put_float(b, key, value);
    if (!piece) {
        json_put_null(b, "bytes");
        return;
    }
    json_open(b, "bytes", '[');
    for (size_t i = 0; i < n; i++) json_put_int(b, NULL, (unsigned char)piece[i]);
    json_close(b, ']');
}

static void put_logprobs(Buffer *b, const Choice *c, int n) {
    json_open(b, "logprobs", '{');
    json_open(b, "content", '[');
    for (int i = 0; i < n; i++) {
        const JobToken *token = c->slots[c->slots_sent + i].token;
        json_open(b, NULL, '{');
        response_token(b, c->rules, token->id, "logprob", token->logprob);
        json_open(b, "top_logprobs", '[');
        for (int k = 0; k < c->rules->n_top && token->top[k].id >= 0; k++) {
            json_open(b, NULL, '{');
            response_token(b, c->rules, token->top[k].id, "logprob", token->top[k].logprob);
            json_close(b, '}');
        }
        json_close(b, ']');
        json_close(b, '}');
    }
    json_close(b, ']');
    json_put_null(b, "refusal");
    json_close(b, '}');
}

/* ---- calls ---- */

void response_call_id(char id[CALL_ID], const Choice *c, int number) {
    enum { DIGITS = 24 };
    const Job *job = c->job;
    const uint64_t rest[] = {job->sampling.seed, job->noise.seed, (uint64_t)number};
    unsigned char digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    Sha256 sum;
    sha256_init(&sum);
    sha256_add(&sum, job->prompt, (size_t)job->n_prompt * sizeof *job->prompt);
    sha256_add(&sum, rest, sizeof rest);
    sha256_peek(&sum, digest);
    sha256_print(digest, hex);
    snprintf(id, CALL_ID, "call_%.*s", DIGITS, hex);
}

static void put_call_head(Buffer *b, const Choice *c, int number) {
    char id[CALL_ID];
    response_call_id(id, c, number);
    json_put_text(b, "id", id);
    json_put_text(b, "type", "function");
}

/* What is new of a call: first whom it calls. */
static void put_call(Buffer *b, const Choice *c, int number, bool whole) {
    const Call *call = &c->calls.items[number];
    if (!call_has_news(call)) return;
    json_open(b, NULL, '{');
    if (!whole) json_put_int(b, "index", number);
    if (!call->told) put_call_head(b, c, number);
    json_open(b, "function", '{');
    if (!call->told) json_put_bytes(b, "name", call->name.data, call->name.n);
    size_t n = call->arguments.n - call->sent;
    json_put_bytes(b, "arguments", n ? call->arguments.data + call->sent : "", n);
    json_close(b, '}');
    json_close(b, '}');
}

static void put_calls(Buffer *b, const Choice *c, bool whole) {
    bool news = false;
    for (int i = 0; i < c->calls.n; i++) news = news || call_has_news(&c->calls.items[i]);
    if (!news) return;
    json_open(b, "tool_calls", '[');
    for (int i = 0; i < c->calls.n; i++) put_call(b, c, i, whole);
    json_close(b, ']');
}

/* Of an answer that may call: what is no call. */
static void put_content(Buffer *b, const Choice *c, bool whole) {
    const Calls *calls = &c->calls;
    size_t n = calls->content.n - calls->content_sent;
    if (!c->rules->style)
        response_choice_text(b, "content", c);
    else if (n > 0 || (whole && calls->n == 0))
        json_put_bytes(b, "content", n ? calls->content.data + calls->content_sent : "", n);
    else if (whole)
        json_put_null(b, "content");
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    bool has_text = part == PART_WHOLE || part == PART_TEXT;
    int n = has_text ? choice_settled_slots(c) : 0;
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    json_open(b, part == PART_WHOLE ? "message" : "delta", '{');
    if (part == PART_WHOLE || part == PART_BEGIN) json_put_text(b, "role", "assistant");
    if (part == PART_BEGIN) json_put_null(b, "content");
    if (has_text) put_content(b, c, part == PART_WHOLE);
    if (part == PART_WHOLE) json_put_null(b, "refusal");
    if (has_text) put_calls(b, c, part == PART_WHOLE);
    json_close(b, '}');
    if (c->rules->logprobs && part != PART_END)
        put_logprobs(b, c, n);
    else
        json_put_null(b, "logprobs");
    response_choice_end(b, head, c, n, part);
    if (part == PART_WHOLE && index > 0 && c->rules->prompt_top >= 0) response_prompt_logprobs(b, c);
    json_close(b, '}');
}

/* As vLLM's: one for all choices. Here they differ where noise acts, and all but the first keep their own. */
static void print_more(Buffer *b, const ResponseHead *head, const Choice *first, const Choice *choices, int n) {
    (void)head, (void)choices, (void)n;
    response_prompt_logprobs(b, first);
}

const ResponseForm response_chat = {.id = "chatcmpl",
                                    .object = "chat.completion",
                                    .event = "chat.completion.chunk",
                                    .begins = true,
                                    .ends = true,
                                    .choice = print_choice,
                                    .more = print_more};
