#include "trainer/text/conversation.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void add(Conversation *c, ChatRole role, const char *text) {
    c->messages = xrealloc(c->messages, (size_t)(c->n + 1) * sizeof *c->messages);
    c->messages[c->n++] = (ChatMessage){.role = role, .content = xstrdup(text)};
}

/* Messages first..first+n-1. */
static void drop(Conversation *c, int first, int n) {
    for (int i = first; i < first + n; i++) free((char *)c->messages[i].content);
    c->n -= n;
    if (c->n > first)
        memmove(c->messages + first, c->messages + first + n, (size_t)(c->n - first) * sizeof *c->messages);
}

static int first_said(const Conversation *c) { return c->n > 0 && c->messages[0].role == CHAT_SYSTEM; }

void conversation_open(Conversation *c, const Checkpoint *checkpoint, const Chat *chat, const char *system,
                       int max_tokens) {
    *c = (Conversation){.checkpoint = checkpoint, .chat = chat, .max_tokens = max_tokens};
    c->n_ends = chat_ends(chat, checkpoint->tokenizer, c->ends);
    if (chat->form->stop && stop_set_add(&c->stops, chat->form->stop)) memory_exhausted(strlen(chat->form->stop));
    if (system) add(c, CHAT_SYSTEM, system);
}

void conversation_forget(Conversation *c) { drop(c, first_said(c), c->n - first_said(c)); }

void conversation_close(Conversation *c) {
    drop(c, 0, c->n);
    free(c->messages);
    stop_set_free(&c->stops);
}

static int encode(const Conversation *c, TokenList *ids, Err *err) {
    ChatFault fault;
    ChatWords words = c->chat->words;
    words.think = true;
    ids->n = 0;
    int rc = chat_encode(c->chat, &words, c->messages, c->n, false, c->checkpoint->tokenizer, ids, &fault, err);
    return rc && fault.why ? err_set(err, "the template %s: %s", c->chat->form->name, fault.why) : rc;
}

/* The prompt, with room behind it for an answer. */
static int fit(Conversation *c, TokenList *ids, int *gone, Err *err) {
    int most = c->checkpoint->model.cfg.max_positions - c->max_tokens + 1, first = first_said(c);
    while (encode(c, ids, err) == 0) {
        if ((int)ids->n <= most) return 0;
        if (c->n - first <= 2)
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
    add(c, CHAT_USER, text);
    int rc = fit(c, &ids, gone, err);
    SampleRun r = {.model = &c->checkpoint->model,
                   .tokenizer = c->checkpoint->tokenizer,
                   .prompt = ids.ids,
                   .n_prompt = (int)ids.n,
                   .max_tokens = c->max_tokens,
                   .sampling = draws_sampling(draws, seed),
                   .noise = {.seed = seed, .scale = (float)draws->noise_scale},
                   .ends = c->ends,
                   .n_ends = c->n_ends,
                   .stops = &c->stops,
                   .show = show};
    if (rc == 0) rc = sample_text(&r, &answer, err);
    if (rc == 0)
        add(c, CHAT_ASSISTANT, answer.data);
    else
        drop(c, c->n - 1, 1);
    buffer_free(&answer);
    token_list_free(&ids);
    return rc;
}
