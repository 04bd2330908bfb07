#include "trainer/text/conversation.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void add(Conversation *c, const char *role, const char *text) {
    cJSON *message = cJSON_CreateObject();
    if (!message || !cJSON_AddStringToObject(message, "role", role) ||
        !cJSON_AddStringToObject(message, "content", text) || !cJSON_AddItemToArray(c->messages, message))
        memory_exhausted(strlen(text));
}

static int count(const Conversation *c) { return cJSON_GetArraySize(c->messages); }

/* Messages first..first+n-1. */
static void drop(Conversation *c, int first, int n) {
    while (n-- > 0) cJSON_DeleteItemFromArray(c->messages, first);
}

static int first_said(const Conversation *c) {
    return json_is_text(json_field(cJSON_GetArrayItem(c->messages, 0), "role"), "system");
}

void conversation_open(Conversation *c, const Checkpoint *checkpoint, const Chat *chat, const char *system,
                       int max_tokens) {
    *c = (Conversation){.checkpoint = checkpoint, .chat = chat, .max_tokens = max_tokens};
    c->messages = cJSON_CreateArray();
    if (!c->messages || (*chat->stop && stop_set_add(&c->stops, chat->stop))) memory_exhausted(strlen(chat->stop));
    if (system) add(c, "system", system);
}

void conversation_forget(Conversation *c) { drop(c, first_said(c), count(c)); }

void conversation_close(Conversation *c) {
    cJSON_Delete(c->messages);
    stop_set_free(&c->stops);
}

static int encode(const Conversation *c, TokenList *ids, Err *err) {
    const ChatRequest request = {.messages = c->messages};
    ids->n = 0;
    return chat_encode(c->chat, &request, false, c->checkpoint->tokenizer, ids, err);
}

/* The prompt, with room behind it for an answer. */
static int fit(Conversation *c, TokenList *ids, int *gone, Err *err) {
    int most = c->checkpoint->model.cfg.max_positions - c->max_tokens + 1, first = first_said(c);
    while (encode(c, ids, err) == 0) {
        if ((int)ids->n <= most) return 0;
        if (count(c) - first <= 2)
            return err_set(err, "%zu tokens and an answer of %d are more than the %d that the model has room for",
                           ids->n, c->max_tokens, most - 1 + c->max_tokens);
        drop(c, first, 2);
        *gone += 2;
    }
    return -1;
}

int conversation_ask(Conversation *c, const char *text, const DrawOptions *draws, uint64_t seed,
                     bool (*show)(void *self, const char *text, size_t n), int *gone, Err *err) {
    TokenList ids = {0};
    Buffer answer = {0};
    *gone = 0;
    if (!utf8_is_valid(text, strlen(text))) return err_set(err, "message %d is no valid UTF-8", count(c));
    add(c, "user", text);
    int rc = fit(c, &ids, gone, err);
    SampleRun r = {.model = &c->checkpoint->model,
                   .tokenizer = c->checkpoint->tokenizer,
                   .prompt = ids.ids,
                   .n_prompt = (int)ids.n,
                   .max_tokens = c->max_tokens,
                   .sampling = draws_sampling(draws, seed),
                   .noise = {.seed = seed, .scale = (float)draws->noise_scale},
                   .ends = &c->chat->end,
                   .n_ends = c->chat->end >= 0,
                   .stops = &c->stops,
                   .show = show};
    if (rc == 0) rc = sample_text(&r, &answer, err);
    if (rc == 0)
        add(c, "assistant", answer.data);
    else
        drop(c, count(c) - 1, 1);
    buffer_free(&answer);
    token_list_free(&ids);
    return rc;
}
