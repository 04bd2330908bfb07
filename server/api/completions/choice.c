#include "server/api/completions/choice.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "server/engine/job.h"

#include <stdlib.h>
#include <string.h>

int choice_open(Choice *c, Job *job, const ChoiceRules *rules, int n_hidden) {
    *c = (Choice){.job = job, .rules = rules, .n_hidden = n_hidden};
    bool from_start = rules->echo || job->n_prompt == n_hidden;
    c->strip_space = from_start && tokenizer_strips_space(rules->tokenizer);
    size_t most = (size_t)job->max_tokens + (rules->echo && rules->logprobs ? (size_t)job->n_prompt : 0);
    bool slots = rules->logprobs || rules->token_ids;
    if (slots) c->slots = try_calloc(most + 1, sizeof *c->slots);
    int rc = text_stream_open(&c->text, rules->stop);
    if (rules->style) calls_open(&c->calls, rules->style, rules->prefix);
    c->text.keep_stop = rules->keep_stop;
    if (rules->scratch) {
        c->walk = form_walk_clone(job->walk);
        c->text.ends = &c->ends;
        if (!c->walk) return -1;
    }
    return rc || (slots && !c->slots) ? -1 : 0;
}

void choice_close(Choice *c) {
    if (!c->job) return;
    job_cancel(c->job);
    job_release(c->job);
    text_stream_free(&c->text);
    calls_free(&c->calls);
    form_walk_free(c->walk);
    buffer_free(&c->ends);
    free(c->slots);
    *c = (Choice){0};
}

static void note_end(Choice *c, bool may) {
    buffer_append(&c->ends, &(char){may}, 1);
    c->text.text.failed |= c->ends.failed;
}

/* In front of what is generated no stop string ends the text. An unfinished code point there becomes U+FFFD. */
static void begin_ends(Choice *c) {
    size_t before = c->text.text.n + (c->text.n_partial ? strlen(UTF8_REPLACEMENT) : 0);
    for (size_t i = 0; i < before; i++) note_end(c, false);
    note_end(c, form_may_end(c->walk));
}

/* The piece of a token that the engine has drawn; the text lacks its first `skip` bytes. */
static void note_ends(Choice *c, const char *piece, size_t n, size_t skip) {
    for (size_t i = 0; i < n; i++) {
        bool legal = form_take(c->walk, piece + i, 1, c->rules->scratch);
        if (i >= skip) note_end(c, legal && form_may_end(c->walk));
    }
}

static void push_piece(Choice *c, int id, bool match) {
    size_t n;
    const char *piece = tokenizer_piece(c->rules->tokenizer, id, &n);
    if (!piece || n == 0) return;
    size_t skip = c->strip_space && piece[0] == ' ';
    c->strip_space = false;
    if (c->walk && c->prompt_done) note_ends(c, piece, n, skip);
    text_stream_push(&c->text, piece + skip, n - skip, match);
}

static void push_slot(Choice *c, int id, const JobToken *token) {
    if (c->slots) c->slots[c->n_slots++] = (Slot){.id = id, .token = token, .offset = c->text.chars};
}

/* A job cut by its deadline may have fewer scores than prompt tokens. */
static void echo_prompt(Choice *c, int n_scored) {
    const Job *job = c->job;
    for (int i = c->rules->only_scored ? job->score_from : 0; i < job->n_prompt; i++) {
        if (c->rules->logprobs) push_slot(c, job->prompt[i], i > 0 && i < n_scored ? &job->prompt_scores[i] : NULL);
        if (i >= c->n_hidden) push_piece(c, job->prompt[i], false);
    }
}

static void read_calls(Choice *c) {
    if (!c->rules->style) return;
    calls_read(&c->calls, c->text.text.data, c->text.settled, c->finish != FINISH_NONE);
    c->text.text.failed |= c->calls.failed;
}

static void skip_settled(Choice *c) {
    c->slots_sent += choice_settled_slots(c);
    c->text_sent = c->text.settled;
    read_calls(c);
    calls_mark_sent(&c->calls);
}

/* The tokens alone say when a text is complete: its last piece need not wait for the engine to say so. */
static void read_token(Choice *c, const JobToken *token) {
    const ChoiceRules *r = c->rules;
    bool last = job_is_end(c->job, token->id);
    push_slot(c, token->id, token);
    c->n_read++;
    bool shown = (r->special || !tokenizer_is_special(r->tokenizer, token->id)) && (r->keep_stop || !last);
    if (shown) push_piece(c, token->id, c->n_read > r->min_tokens);
    if (c->n_read == r->from) skip_settled(c);
    if (c->text.stopped) job_cancel(c->job);
    c->finish = c->text.stopped ? FINISH_STOP : token->finish;
}

void choice_advance(Choice *c) {
    if (c->finish != FINISH_NONE) return;
    Job *job = c->job;
    JobProgress now = job_progress(job);
    if (now.finish == FINISH_ERROR || now.finish == FINISH_CANCELLED || now.finish == FINISH_DAMAGED ||
        now.finish == FINISH_DISPLACED) {
        c->finish = now.finish;
        return;
    }
    if (!c->prompt_done) {
        if (job->score_prompt && now.n_scored < job->n_prompt && now.finish == FINISH_NONE) return;
        if (c->rules->echo) echo_prompt(c, now.n_scored);
        if (c->rules->prefix) text_stream_push(&c->text, c->rules->prefix, strlen(c->rules->prefix), false);
        if (job->trie) c->strip_space = c->rules->answer_spaced;
        if (c->walk) begin_ends(c);
        c->n_scored = now.n_scored;
        c->prompt_done = true;
    }
    int end = c->rules->one_by_one ? MIN(c->n_read + 1, now.n_tokens) : now.n_tokens;
    while (c->n_read < end && c->finish == FINISH_NONE) read_token(c, &job->tokens[c->n_read]);
    bool with_last = c->finish != FINISH_NONE; /* what is held back goes out beside the last token */
    if (c->finish == FINISH_NONE && c->n_read == now.n_tokens) c->finish = now.finish;
    if (c->finish != FINISH_NONE) text_stream_end(&c->text);
    read_calls(c);
    if (with_last && c->n_read == c->rules->from) skip_settled(c);
}

int choice_settled_slots(const Choice *c) {
    int n = c->slots_sent;
    while (n < c->n_slots && (c->finish != FINISH_NONE || c->slots[n].offset <= c->text.settled_chars)) n++;
    return n - c->slots_sent;
}

bool choice_has_text(const Choice *c) {
    bool text = c->rules->style ? calls_have_news(&c->calls) : c->text.settled > c->text_sent;
    return text || choice_settled_slots(c) > 0;
}

const char *choice_finish_name(const Choice *c) {
    if (c->finish == FINISH_NONE) return NULL;
    return c->finish != FINISH_STOP ? "length" : c->calls.n > 0 ? "tool_calls" : "stop";
}

bool choice_has_news(const Choice *c) {
    if (c->n_read < c->rules->from && c->finish == FINISH_NONE) return false;
    return choice_has_text(c) || (c->finish != FINISH_NONE && !c->finish_sent);
}

void choice_mark_sent(Choice *c) {
    skip_settled(c);
    c->begun = true;
    c->finish_sent = c->finish != FINISH_NONE;
}

double choice_mean_logprob(const Choice *c) {
    double sum = 0;
    for (int i = 0; i < c->n_read; i++) sum += (double)c->job->tokens[i].logprob;
    return c->n_read ? sum / c->n_read : 0;
}
