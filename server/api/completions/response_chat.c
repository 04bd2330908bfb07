#include "base/err.h"
#include "server/api/completions/response.h"

static void print_token(Buffer *b, const Tokenizer *t, int id, float logprob) {
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);
    buffer_text(b, "\"token\":");
    if (piece)
        buffer_json(b, piece, n);
    else
        buffer_print(b, "\"token_id:%d\"", id);
    buffer_text(b, ",\"logprob\":");
    buffer_float(b, logprob);
    buffer_text(b, ",\"bytes\":");
    for (size_t i = 0; piece && i < n; i++) buffer_print(b, "%c%d", i ? ',' : '[', (unsigned char)piece[i]);
    buffer_text(b, !piece ? "null" : n ? "]" : "[]");
}

static void print_logprobs(Buffer *b, const Choice *c, int n) {
    const Tokenizer *t = c->rules->tokenizer;
    buffer_text(b, "{\"content\":[");
    for (int i = 0; i < n; i++) {
        const JobToken *token = c->slots[c->slots_sent + i].token;
        buffer_text(b, i ? ",{" : "{");
        print_token(b, t, token->id, token->logprob);
        buffer_text(b, ",\"top_logprobs\":[");
        for (int k = 0; k < c->rules->n_top && token->top[k].id >= 0; k++) {
            buffer_text(b, k ? ",{" : "{");
            print_token(b, t, token->top[k].id, token->top[k].logprob);
            buffer_text(b, "}");
        }
        buffer_text(b, "]}");
    }
    buffer_text(b, "],\"refusal\":null}");
}

static void print_choice(Buffer *b, const Choice *c, int index, bool has_noise, bool event) {
    int n = choice_settled_slots(c);
    buffer_print(b, "{\"index\":%d,\"%s\":{", index, event ? "delta" : "message");
    if (!event || !c->begun) buffer_text(b, "\"role\":\"assistant\",");
    buffer_text(b, "\"content\":");
    response_choice_text(b, c);
    if (!event) buffer_text(b, ",\"refusal\":null");
    buffer_text(b, "},\"logprobs\":");
    if (c->rules->logprobs)
        print_logprobs(b, c, n);
    else
        buffer_text(b, "null");
    response_choice_end(b, c, n, has_noise);
}

const ResponseForm response_chat = {
    .id = "chatcmpl", .object = "chat.completion", .event = "chat.completion.chunk", .choice = print_choice};
