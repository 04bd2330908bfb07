#include "base/json_write.h"
#include "base/err.h"
#include "server/api/completions/response.h"

#include <string.h>

void response_token(Buffer *b, const ChoiceRules *rules, int id, float logprob) {
    char name[24];
    size_t n;
    const char *piece = tokenizer_piece(rules->tokenizer, id, &n);
    bool spelled = piece && !rules->tokens_as_ids;
    snprintf(name, sizeof name, "token_id:%d", id);
    json_put_bytes(b, "token", spelled ? piece : name, spelled ? n : strlen(name));
    json_put_float(b, "logprob", logprob);
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
        response_token(b, c->rules, token->id, token->logprob);
        json_open(b, "top_logprobs", '[');
        for (int k = 0; k < c->rules->n_top && token->top[k].id >= 0; k++) {
            json_open(b, NULL, '{');
            response_token(b, c->rules, token->top[k].id, token->top[k].logprob);
            json_close(b, '}');
        }
        json_close(b, ']');
        json_close(b, '}');
    }
    json_close(b, ']');
    json_put_null(b, "refusal");
    json_close(b, '}');
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    bool has_text = part == PART_WHOLE || part == PART_TEXT;
    int n = has_text ? choice_settled_slots(c) : 0;
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    json_open(b, part == PART_WHOLE ? "message" : "delta", '{');
    if (part == PART_WHOLE || part == PART_BEGIN) json_put_text(b, "role", "assistant");
    if (part == PART_BEGIN) json_put_null(b, "content");
    if (has_text) response_choice_text(b, "content", c);
    if (part == PART_WHOLE) json_put_null(b, "refusal");
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
