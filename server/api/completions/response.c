#include "server/api/completions/response.h"

#include "base/err.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void response_head_init(ResponseHead *h, const ResponseForm *form, const char *model, const char *fingerprint) {
    uint64_t random[2];
    BUG_ON(getrandom(random, sizeof random, 0) != sizeof random);
    *h = (ResponseHead){.created = (int64_t)time(NULL), .form = form, .model = model, .fingerprint = fingerprint};
    snprintf(h->id, sizeof h->id, "%s-%016" PRIx64 "%08" PRIx32, form->id, random[0], (uint32_t)random[1]);
}

void response_open(Buffer *b, const ResponseHead *h, bool event) {
    buffer_print(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", h->id,
                 event ? h->form->event : h->form->object, h->created);
    buffer_json(b, h->model, strlen(h->model));
    buffer_print(b, ",\"system_fingerprint\":\"%s\",\"choices\":[", h->fingerprint);
}

/* Tokens that are no text by themselves are spelled in bytes, as OpenAI does. */
static void print_token(Buffer *b, const Tokenizer *t, int id) {
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);
    if (!piece) {
        buffer_print(b, "\"token_id:%d\"", id);
        return;
    }
    if (utf8_is_valid(piece, n)) {
        buffer_json(b, piece, n);
        return;
    }
    buffer_text(b, "\"bytes:");
    for (size_t i = 0; i < n; i++) buffer_print(b, "\\\\x%02x", (unsigned char)piece[i]);
    buffer_text(b, "\"");
}

/* {"token":logprob,...}: the alternatives, best first, and the token itself. Two tokens may be spelled alike (a byte
 * and a character): the more probable one has the key. */
static void print_top(Buffer *b, const Tokenizer *t, const JobToken *token, int n_top) {
    enum { MAX_TOP = 21 };
    Buffer keys = {0};
    size_t start[MAX_TOP + 1] = {0};
    int n_keys = 0;
    buffer_text(b, "{");
    for (int i = 0; i <= n_top; i++) {
        bool own = i == n_top;
        TokenLogprob top = own ? (TokenLogprob){token->id, token->logprob} : token->top[i];
        if (top.id < 0) continue; /* there were no more tokens to choose from */
        print_token(&keys, t, top.id);
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
        if (n_keys > 0) buffer_text(b, ",");
        buffer_append(b, key, n);
        buffer_text(b, ":");
        buffer_float(b, top.logprob);
        start[++n_keys] = keys.n;
    }
    buffer_text(b, "}");
    b->failed |= keys.failed;
    buffer_free(&keys);
}

static void print_slot_token(Buffer *b, const Choice *c, const Slot *s) { print_token(b, c->rules->tokenizer, s->id); }

static void print_slot_logprob(Buffer *b, const Choice *c, const Slot *s) {
    (void)c;
    if (s->token)
        buffer_float(b, s->token->logprob);
    else
        buffer_text(b, "null");
}

static void print_slot_top(Buffer *b, const Choice *c, const Slot *s) {
    if (s->token)
        print_top(b, c->rules->tokenizer, s->token, c->rules->n_top);
    else
        buffer_text(b, "null");
}

static void print_slot_offset(Buffer *b, const Choice *c, const Slot *s) {
    buffer_print(b, "%zu", MIN(s->offset, c->text.chars));
}

/* Four arrays side by side, one entry a slot. */
void response_logprobs(Buffer *b, const Choice *c, int n) {
    static const struct {
        const char *opening;
        void (*print)(Buffer *b, const Choice *c, const Slot *s);
    } arrays[] = {{"{\"tokens\":[", print_slot_token},
                  {"],\"token_logprobs\":[", print_slot_logprob},
                  {"],\"top_logprobs\":[", print_slot_top},
                  {"],\"text_offset\":[", print_slot_offset}};
    for (size_t a = 0; a < COUNTOF(arrays); a++) {
        buffer_text(b, arrays[a].opening);
        for (int i = 0; i < n; i++) {
            if (i) buffer_text(b, ",");
            arrays[a].print(b, c, &c->slots[c->slots_sent + i]);
        }
    }
    buffer_text(b, "]}");
}

static void print_token_ids(Buffer *b, const Choice *c, int n) {
    int n_prompt = c->rules->echo && c->rules->logprobs ? c->job->n_prompt : 0; /* slots that were not generated */
    int first = MAX(c->slots_sent, n_prompt);
    buffer_text(b, ",\"token_ids\":[");
    for (int i = first; i < c->slots_sent + n; i++) buffer_print(b, "%s%d", i > first ? "," : "", c->slots[i].id);
    buffer_text(b, "]");
}

static void print_prompt_ids(Buffer *b, const Job *job) {
    buffer_text(b, ",\"prompt_token_ids\":[");
    for (int i = 0; i < job->n_prompt; i++) buffer_print(b, "%s%d", i ? "," : "", job->prompt[i]);
    buffer_text(b, "]");
}

/* vLLM's: {"id":{"logprob":...,"rank":...,"decoded_token":...}}. The rank of a token beyond the alternatives is null.
 */
static void print_prompt_token(Buffer *b, const Choice *c, const JobToken *token) {
    const Tokenizer *t = c->rules->tokenizer;
    int own = 0, n = c->rules->prompt_top;
    while (own < n && token->top[own].id != token->id) own++;
    buffer_text(b, "{");
    for (int i = own < n ? 0 : -1; i < n; i++) {
        TokenLogprob top = i < 0 ? (TokenLogprob){token->id, token->logprob} : token->top[i];
        if (top.id < 0) break; /* no more tokens in the vocabulary */
        buffer_print(b, "%s\"%d\":{\"logprob\":", b->data[b->n - 1] == '{' ? "" : ",", top.id);
        buffer_float(b, top.logprob);
        if (i < 0)
            buffer_text(b, ",\"rank\":null,\"decoded_token\":");
        else
            buffer_print(b, ",\"rank\":%d,\"decoded_token\":", i + 1);
        print_token(b, t, top.id);
        buffer_text(b, "}");
    }
    buffer_text(b, "}");
}

/* A job cut by its deadline may have fewer scores than prompt tokens. */
static void print_prompt_logprobs(Buffer *b, const Choice *c) {
    const Job *job = c->job;
    buffer_text(b, ",\"prompt_logprobs\":[");
    for (int i = 0; i < job->n_prompt; i++) {
        if (i) buffer_text(b, ",");
        if (i > 0 && i < c->n_scored)
            print_prompt_token(b, c, &job->prompt_scores[i]);
        else
            buffer_text(b, "null");
    }
    buffer_text(b, "]");
}

void response_choice_text(Buffer *b, const Choice *c) {
    size_t n = c->text.settled - c->text_sent;
    buffer_json(b, n ? c->text.text.data + c->text_sent : "", n);
}

void response_noise_seed(Buffer *b, const Choice *c, bool has_noise) {
    if (has_noise)
        buffer_print(b, "\"noise_seed\":%" PRIu64, c->job->noise.seed);
    else
        buffer_text(b, "\"noise_seed\":null");
}

void response_choice_end(Buffer *b, const Choice *c, int n, bool has_noise) {
    const Job *job = c->job;
    bool done = c->finish != FINISH_NONE;
    buffer_print(b, ",\"finish_reason\":%s", !done ? "null" : c->finish == FINISH_STOP ? "\"stop\"" : "\"length\"");
    if (c->finish == FINISH_DEADLINE) buffer_text(b, ",\"deadline\":true");
    buffer_print(b, ",\"seed\":%" PRIu64 ",", job->sampling.seed);
    response_noise_seed(b, c, has_noise);
    if (c->rules->token_ids && !c->begun) print_prompt_ids(b, job);
    if (c->rules->token_ids) print_token_ids(b, c, n);
    if (c->rules->prompt_top >= 0) print_prompt_logprobs(b, c);
    buffer_text(b, "}");
}

static void print_choice(Buffer *b, const Choice *c, int index, bool has_noise, bool event) {
    int n = choice_settled_slots(c);
    (void)event;
    buffer_text(b, "{\"text\":");
    response_choice_text(b, c);
    buffer_print(b, ",\"index\":%d,\"logprobs\":", index);
    if (c->rules->logprobs)
        response_logprobs(b, c, n);
    else
        buffer_text(b, "null");
    response_choice_end(b, c, n, has_noise);
}

const ResponseForm response_text = {
    .id = "cmpl", .object = "text_completion", .event = "text_completion", .choice = print_choice};

void response_close(Buffer *b, const Usage *usage, bool usage_null, const Buffer *more) {
    buffer_text(b, "]");
    if (more) buffer_append(b, more->data, more->n);
    if (more && more->failed) b->failed = true;
    if (usage)
        buffer_print(b,
                     ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                     usage->prompt_tokens, usage->completion_tokens, usage->prompt_tokens + usage->completion_tokens,
                     usage->cached_tokens);
    else if (usage_null)
        buffer_text(b, ",\"usage\":null");
    buffer_text(b, "}");
}
