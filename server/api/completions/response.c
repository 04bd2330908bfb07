#include "server/api/completions/response.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/utf8.h"
#include "server/api/answer.h"
#include "server/api/completions/request.h"

#include <string.h>
#include <time.h>

void response_head_init(ResponseHead *h, const CompletionRequest *request, const ApiContext *api) {
    *h = (ResponseHead){.created = (int64_t)time(NULL), .request = request, .api = api};
    answer_draw_id(h->id, request->form->id);
}

void response_open(Buffer *b, const ResponseHead *h, bool event) {
    json_open(b, NULL, '{');
    json_put_text(b, "id", h->id);
    const ResponseForm *form = h->request->form;
    json_put_text(b, "object", event ? form->event : form->object);
    json_put_int(b, "created", h->created);
    json_put_text(b, "model", h->api->models.name);
    json_put_text(b, "system_fingerprint", h->request->fingerprint);
    json_open(b, "choices", '[');
}

/* Tokens that are no text by themselves are spelled in bytes, as OpenAI does. */
static void spell_token(Buffer *out, const ChoiceRules *rules, int id) {
    size_t n;
    const char *piece = rules->tokens_as_ids ? NULL : tokenizer_piece(rules->tokenizer, id, &n);
    if (!piece) {
        buffer_print(out, "token_id:%d", id);
    } else if (utf8_is_valid(piece, n)) {
        buffer_append(out, piece, n);
    } else {
        buffer_text(out, "bytes:");
        for (size_t i = 0; i < n; i++) buffer_print(out, "\\x%02x", (unsigned char)piece[i]);
    }
}

static void put_token(Buffer *b, const char *key, const ChoiceRules *rules, int id) {
    Buffer text = {0};
    spell_token(&text, rules, id);
    json_put_bytes(b, key, text.data, text.n);
    b->failed |= text.failed;
    buffer_free(&text);
}

/* {"token":logprob,...}: the alternatives, best first, and the token itself. Two tokens may be spelled alike (a byte
 * and a character): the more probable one has the key. */
static void put_top(Buffer *b, const ChoiceRules *rules, const JobToken *token, int n_top) {
    enum { MAX_TOP = 21 };
    Buffer keys = {0};
    size_t start[MAX_TOP + 1] = {0};
    int n_keys = 0;
    json_open(b, NULL, '{');
    for (int i = 0; i <= n_top; i++) {
        bool own = i == n_top;
        TokenLogprob top = own ? (TokenLogprob){token->id, token->logprob} : token->top[i];
        if (top.id < 0) continue; /* there were no more tokens to choose from */
        spell_token(&keys, rules, top.id);
        if (keys.failed) break;
        size_t n = keys.n - start[n_keys];
        const char *key = keys.data + start[n_keys];
        bool known = false;
        for (int j = 0; j < n_keys && !known; j++)
            known = start[j + 1] - start[j] == n && !memcmp(keys.data + start[j], key, n);
        if (known) {
            keys.n = start[n_keys];
            continue;
        }
        json_key(b, key, n);
        json_put_float(b, NULL, top.logprob);
        start[++n_keys] = keys.n;
    }
    json_close(b, '}');
    b->failed |= keys.failed;
    buffer_free(&keys);
}

static void put_slot_token(Buffer *b, const Choice *c, const Slot *s) { put_token(b, NULL, c->rules, s->id); }

static void put_slot_logprob(Buffer *b, const Choice *c, const Slot *s) {
    (void)c;
    if (s->token)
        json_put_float(b, NULL, s->token->logprob);
    else
        json_put_null(b, NULL);
}

static void put_slot_top(Buffer *b, const Choice *c, const Slot *s) {
    if (s->token)
        put_top(b, c->rules, s->token, c->rules->n_top);
    else
        json_put_null(b, NULL);
}

static void put_slot_offset(Buffer *b, const Choice *c, const Slot *s) {
    json_put_uint(b, NULL, MIN(s->offset, c->text.chars));
}

void response_logprobs(Buffer *b, const Choice *c, int n) {
    static const struct {
        const char *key;
        void (*put)(Buffer *b, const Choice *c, const Slot *s);
    } arrays[] = {{"tokens", put_slot_token},
                  {"token_logprobs", put_slot_logprob},
                  {"top_logprobs", put_slot_top},
                  {"text_offset", put_slot_offset}};
    json_open(b, "logprobs", '{');
    for (size_t a = 0; a < COUNTOF(arrays); a++) {
        json_open(b, arrays[a].key, '[');
        for (int i = 0; i < n; i++) arrays[a].put(b, c, &c->slots[c->slots_sent + i]);
        json_close(b, ']');
    }
    json_close(b, '}');
}

static void put_token_ids(Buffer *b, const Choice *c, int n) {
    int n_prompt = c->rules->echo && c->rules->logprobs ? c->job->n_prompt : 0; /* slots that were not generated */
    json_open(b, "token_ids", '[');
    for (int i = MAX(c->slots_sent, n_prompt); i < c->slots_sent + n; i++) json_put_int(b, NULL, c->slots[i].id);
    json_close(b, ']');
}

/* vLLM's: {"id":{"logprob":...,"rank":...,"decoded_token":...}}. The rank of a token beyond the alternatives is null.
 */
static void put_prompt_token(Buffer *b, const Choice *c, const JobToken *token) {
    char key[16];
    int own = 0, n = c->rules->prompt_top;
    while (own < n && token->top[own].id != token->id) own++;
    json_open(b, NULL, '{');
    for (int i = own < n ? 0 : -1; i < n; i++) {
        TokenLogprob top = i < 0 ? (TokenLogprob){token->id, token->logprob} : token->top[i];
        if (top.id < 0) break; /* no more tokens in the vocabulary */
        snprintf(key, sizeof key, "%d", top.id);
        json_open(b, key, '{');
        json_put_float(b, "logprob", top.logprob);
        if (i < 0)
            json_put_null(b, "rank");
        else
            json_put_int(b, "rank", i + 1);
        put_token(b, "decoded_token", c->rules, top.id);
        json_close(b, '}');
    }
    json_close(b, '}');
}

/* A job cut by its deadline may have fewer scores than prompt tokens. */
void response_prompt_logprobs(Buffer *b, const Choice *c) {
    const Job *job = c->job;
    if (c->rules->prompt_top < 0) {
        json_put_null(b, "prompt_logprobs");
        return;
    }
    json_open(b, "prompt_logprobs", '[');
    for (int i = 0; i < job->n_prompt; i++)
        if (i > 0 && i < c->n_scored)
            put_prompt_token(b, c, &job->prompt_scores[i]);
        else
            json_put_null(b, NULL);
    json_close(b, ']');
}

void response_choice_text(Buffer *b, const char *key, const Choice *c) {
    size_t n = c->text.settled - c->text_sent;
    json_put_bytes(b, key, n ? c->text.text.data + c->text_sent : "", n);
}

void response_choice_end(Buffer *b, const ResponseHead *head, const Choice *c, int n, Part part) {
    const Job *job = c->job;
    bool done = c->finish != FINISH_NONE && part != PART_BEGIN && part != PART_TEXT;
    bool begins = part == PART_WHOLE || part == PART_BEGIN || (part == PART_NEWS && !c->begun);
    json_put_text(b, "finish_reason", done ? choice_finish_name(c) : NULL);
    if (done && c->finish == FINISH_DEADLINE) json_put_bool(b, "deadline", true);
    json_put_uint(b, "seed", job->sampling.seed);
    answer_put_noise(b, head->api->config, &job->noise);
    if (c->rules->token_ids && begins) json_put_ints(b, "prompt_token_ids", job->prompt, job->n_prompt);
    if (c->rules->token_ids) put_token_ids(b, c, n);
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    int n = choice_settled_slots(c);
    json_open(b, NULL, '{');
    response_choice_text(b, "text", c);
    json_put_int(b, "index", index);
    if (c->rules->logprobs)
        response_logprobs(b, c, n);
    else
        json_put_null(b, "logprobs");
    response_choice_end(b, head, c, n, part);
    if (part == PART_WHOLE) response_prompt_logprobs(b, c);
    json_close(b, '}');
}

const ResponseForm response_text = {
    .id = "cmpl", .object = "text_completion", .event = "text_completion", .choice = print_choice};

static void put_usage(Buffer *b, const Usage *usage) {
    json_open(b, "usage", '{');
    json_put_int(b, "prompt_tokens", usage->prompt_tokens);
    json_put_int(b, "completion_tokens", usage->completion_tokens);
    json_put_int(b, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    json_open(b, "prompt_tokens_details", '{');
    json_put_int(b, "cached_tokens", usage->cached_tokens);
    json_close(b, '}');
    json_close(b, '}');
}

void response_close(Buffer *b, const Usage *usage, bool usage_null) {
    if (usage)
        put_usage(b, usage);
    else if (usage_null)
        json_put_null(b, "usage");
    json_close(b, '}');
}
