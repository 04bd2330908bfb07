#include "server/engine/scheduler.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/engine/job_kind.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(DECODE_ROWS / (DRAFT_TEXTS + 1) < 2, "more texts than the draft has places for would be guessed for");

int scheduler_chunk(const Config *c, int prefill_chunk) {
    return config_generates(c) ? prefill_chunk : MAX(prefill_chunk, c->max_positions);
}

void scheduler_init(Scheduler *p, const Config *c, int max_batch, int prefill_chunk) {
    int chunk = scheduler_chunk(c, prefill_chunk);
    size_t rows = (size_t)max_batch + (size_t)chunk;
    *p = (Scheduler){.prefill_chunk = chunk,
                     .whole = !config_generates(c),
                     .head_token = config_pools(c)             ? HEAD_OF_SEQUENCES
                                   : c->task == TASK_FILL_MASK ? c->mask_token_id
                                                               : HEAD_OF_ROWS};
    if (c->input.kind == INPUT_PATCHES) {
        p->image_floats = config_image_floats(c);
        p->image_rows = config_image_rows(c);
        p->images = xcalloc((size_t)max_batch * p->image_floats, sizeof *p->images);
    }
    p->tokens = xcalloc(rows, sizeof *p->tokens);
    p->rows = xcalloc(rows, sizeof *p->rows);
    p->wanted = xcalloc(rows, sizeof *p->wanted);
    p->logit_rows = xcalloc(rows, sizeof *p->logit_rows);
    p->segments = xcalloc(rows, sizeof *p->segments);
    p->batch =
        (Batch){.tokens = p->tokens, .images = p->images, .want = p->whole ? NULL : p->rows, .segments = p->segments};
}

void scheduler_free(Scheduler *p) {
    free(p->tokens);
    free(p->rows);
    free(p->wanted);
    free(p->logit_rows);
    free(p->segments);
    free(p->images);
    *p = (Scheduler){0};
}

/* ---- who takes part ---- */

int sequences_of(Sequence *const *running, int n, uint64_t client) {
    int found = 0;
    for (int i = 0; i < n; i++) found += running[i]->job->client == client;
    return found;
}

/* One of many visits goes first, come what may; those of few, no more than one a byte, always go. */
static void rest_forms(Sequence *const *running, int n) {
    int64_t visits = 0;
    for (int i = 0; i < n; i++) {
        Sequence *s = running[i];
        if (s->rests || !s->job->walk) continue;
        int64_t few = s->job->vocabulary->n_bytes, most = VOCABULARY_VISITS * few;
        s->rests = s->form_visits > few && visits > 0 && visits + s->form_visits > most;
        if (!s->rests && s->form_visits > few) visits += s->form_visits;
    }
}

void scheduler_share(Sequence *const *running, int n, int max_batch) {
    bool crowded = n > max_batch;
    int left = max_batch;
    for (int i = 0; i < n; i++) {
        running[i]->rests = crowded;
        if (crowded) running[i]->round = sequences_of(running, i, running[i]->job->client);
    }
    for (int round = 0; crowded && left > 0; round++) {
        for (int i = 0; i < n && left > 0; i++) {
            if (running[i]->round != round) continue;
            running[i]->rests = false;
            left--;
        }
    }
    rest_forms(running, n);
}

/* ---- rows ---- */

static void clear(Scheduler *p) {
    p->batch.n = p->batch.n_segments = p->batch.n_want = 0;
    p->prompt_rows = p->n_logit_rows = 0;
}

static bool has_logits(const Scheduler *p, const Job *job, int token) {
    bool wants = job->kind->draws || job->kind->take_logits;
    return wants && (p->head_token == HEAD_OF_ROWS || p->head_token == token);
}

/* Of the next n rows of s, those in the prompt that something is made of: the last so many. */
static int wanted_rows(const Sequence *s, int n) {
    bool in_prompt = s->n_rows < s->job->n_prompt;
    return in_prompt ? MAX(0, s->n_rows + n - MAX(s->n_rows, job_wants_from(s->job))) : 0;
}

/* Likewise, those whose logits score a token. */
static int scored_rows(const Sequence *s, int n) { return s->job->score_prompt ? wanted_rows(s, n) : 0; }

/* The next n rows of s. The last known token's logits give the next token; scoring wants those of prompt rows too. */
static void add_rows(Scheduler *p, Sequence *s, int n) {
    const Job *job = s->job;
    Batch *b = &p->batch;
    bool in_prompt = s->n_rows < job->n_prompt, to_the_end = s->n_rows + n == s->n_tokens;
    s->step_rows = n;
    s->step_wanted = p->whole || !in_prompt ? n : MAX(wanted_rows(s, n), to_the_end);
    if (p->images)
        memcpy(p->images + (size_t)b->n_segments * p->image_floats, job->image, p->image_floats * sizeof(float));
    p->segments[b->n_segments++] = (Segment){.row0 = b->n,
                                             .n = n,
                                             .pos0 = s->n_rows,
                                             .noise = in_prompt ? job->noise_prompt : job->noise,
                                             .blocks = s->blocks};
    memcpy(p->tokens + b->n, s->tokens + s->n_rows, (size_t)n * sizeof *p->tokens);
    for (int i = n - s->step_wanted; i < n; i++) {
        p->wanted[b->n_want] = (Wanted){.sequence = s, .position = s->n_rows + i + 1};
        if (has_logits(p, job, s->tokens[s->n_rows + i])) p->logit_rows[p->n_logit_rows++] = b->n_want;
        p->rows[b->n_want++] = b->n + i;
    }
    b->n += n;
}

/* All but the last row of the prompt, which is computed again, to the same bits. */
static void skip_ready(Sequence *s, const KvPool *pool) {
    for (int b = s->n_rows / KV_BLOCK; b < s->n_shared / KV_BLOCK && pool->blocks[s->blocks[b]].ready; b++) {
        int end = MIN((b + 1) * KV_BLOCK, s->n_prompt - 1);
        s->n_cached += end - s->n_rows;
        s->n_rows = end;
    }
}

/* How many prompt rows s may compute now: up to the first block that somebody else already computes in this step. */
static int claim_rows(const Scheduler *p, const Sequence *s, const KvPool *pool, int budget) {
    int end = MIN(s->n_rows + budget, s->n_prompt);
    for (int b = s->n_rows / KV_BLOCK; b < s->n_shared / KV_BLOCK && b * KV_BLOCK < end; b++) {
        PoolBlock *k = &pool->blocks[s->blocks[b]];
        if (k->ready) continue;
        if (k->step == p->step) end = MAX(s->n_rows, b * KV_BLOCK);
        k->step = p->step;
    }
    return end - s->n_rows;
}

static bool decodes(const Sequence *s) { return !s->rests && s->n_rows >= s->job->n_prompt; }

/* A job with a choice or a form to keep to draws one token at a time: what may come depends on the one before. */
static int most_ahead(const Sequence *s, int most) {
    const Job *job = s->job;
    if (job->trie || job->walk || job->bad_words) return 0;
    return MIN(most, job->max_tokens - (s->n_tokens - job->n_prompt) - 1); /* the last token is never fed back */
}

/* Writes up to `most` tokens behind those of every sequence that decodes: what is looked up, else what the draft says.
 */
static void guess_ahead(Scheduler *p, Sequence *const *running, int n, int most) {
    DraftAsk asks[DRAFT_TEXTS];
    int n_asks = 0;
    for (int i = 0; i < n && most > 0; i++) {
        Sequence *s = running[i];
        if (!decodes(s)) continue;
        int ahead = most_ahead(s, most);
        if (p->guess) s->step_guessed = guess_next(&s->guess, s->tokens, s->n_tokens, ahead);
        int wanted = p->draft && !s->step_guessed ? draft_plan(p->draft, &s->draft, s->n_tokens, ahead) : 0;
        if (wanted)
            asks[n_asks++] =
                (DraftAsk){.whose = s, .job = s->job, .tokens = s->tokens, .n_tokens = s->n_tokens, .most = wanted};
    }
    if (n_asks) draft_next(p->draft, asks, n_asks);
    for (int i = 0; i < n_asks; i++) {
        Sequence *s = asks[i].whose;
        s->step_guessed = asks[i].n;
        s->step_drafted = asks[i].n > 0;
    }
}

/* The next row of every sequence whose prompt is done, and those of guesses; how many sequences. */
static int add_decode_rows(Scheduler *p, Sequence *const *running, int n) {
    int decoding = 0;
    for (int i = 0; i < n; i++) {
        Sequence *s = running[i];
        s->step_rows = s->step_wanted = s->step_guessed = 0;
        s->step_drafted = false;
        decoding += decodes(s);
    }
    /* Prompts keep a row, or they would never get on. */
    if ((p->guess || p->draft) && decoding)
        guess_ahead(p, running, n, MIN(DECODE_ROWS / decoding - 1, (p->prefill_chunk - 1) / decoding));
    for (int i = 0; i < n; i++)
        if (decodes(running[i])) add_rows(p, running[i], 1 + running[i]->step_guessed);
    return decoding;
}

/* Rows of a whole vocabulary's logits: a job that takes none, of embeddings, has none, whatever its text. */
static int masks(const Scheduler *p, const Sequence *s) {
    int n = 0;
    for (int i = 0; i < s->n_prompt && p->head_token >= 0; i++) n += has_logits(p, s->job, s->tokens[i]);
    return n;
}

/* Of prompts that are not all in the cache. */
static int waiting_rows(Sequence *const *running, int n) {
    int rows = 0;
    for (int i = 0; i < n; i++) rows += running[i]->rests ? 0 : MAX(0, running[i]->n_prompt - running[i]->n_rows);
    return rows;
}

/* How many of them may stand beside so many decode rows. */
static int rows_beside(int decoding, int waiting) {
    int least = LEAST_ROWS + LEAST_ROWS_EACH * decoding, most = MAX(PROMPT_ROWS, PROMPT_ROWS_EACH * decoding);
    return MIN(MAX(least, waiting / PROMPT_STEPS), most);
}

void scheduler_step(Scheduler *p, Sequence *const *running, int n, const KvPool *pool) {
    clear(p);
    p->step++;
    int decoding = add_decode_rows(p, running, n), decode = p->batch.n, guessed = decode - decoding;
    int room = p->prefill_chunk - guessed, score_budget = SCORED_ROWS - guessed;
    int most = decoding ? MIN(rows_beside(decoding, waiting_rows(running, n)), room) : room;
    for (int i = 0; i < n && p->prompt_rows < most; i++) {
        Sequence *s = running[i];
        if (s->rests || s->n_rows >= s->n_prompt) continue;
        skip_ready(s, pool);
        int budget = most - p->prompt_rows;
        int over = scored_rows(s, budget) - score_budget;
        int rows = claim_rows(p, s, pool, budget - MAX(0, over));
        if (p->whole && (rows < s->n_prompt || p->n_logit_rows + masks(p, s) > SCORED_ROWS)) break;
        score_budget -= scored_rows(s, rows);
        if (rows > 0) add_rows(p, s, rows);
        p->prompt_rows = p->batch.n - decode;
    }
}

void scheduler_commit(Sequence *s, const KvPool *pool) {
    int b = s->n_rows / KV_BLOCK;
    s->n_rows += s->step_rows - s->step_guessed;
    for (; b * KV_BLOCK < s->n_shared && MIN((b + 1) * KV_BLOCK, s->n_shared) <= s->n_rows; b++)
        pool->blocks[s->blocks[b]].ready = pool->blocks[s->blocks[b]].shared;
}

static void want_all(Scheduler *p) {
    Batch *b = &p->batch;
    for (int i = 0; i < b->n; i++) p->tokens[i] = 0, p->rows[i] = p->logit_rows[i] = i;
    b->n_want = b->n;
}

/* Many sequences take more than a long one: each begins a block of its own. */
static void largest_whole(Scheduler *p, int max_batch, int context) {
    Batch *b = &p->batch;
    int least = p->images ? p->image_rows : 1;
    for (int n, left = p->prefill_chunk; left >= least && b->n_segments < max_batch; left -= n) {
        int others = MIN(max_batch - b->n_segments - 1, left - 1);
        n = p->images ? p->image_rows : MIN(left - others, context);
        p->segments[b->n_segments++] = (Segment){.row0 = b->n, .n = n, .noise = {.scale = 1}};
        b->n += n;
    }
    want_all(p);
    p->n_logit_rows = p->head_token == HEAD_OF_ROWS        ? b->n
                      : p->head_token == HEAD_OF_SEQUENCES ? 0
                                                           : MIN(b->n, max_batch + SCORED_ROWS);
}

void scheduler_largest(Scheduler *p, int max_batch, int context, const int *blocks) {
    Batch *b = &p->batch;
    clear(p);
    if (p->whole) {
        largest_whole(p, max_batch, context);
        return;
    }
    for (int n, left = max_batch + p->prefill_chunk; left > 0; left -= n) {
        n = left > max_batch ? MIN(left - max_batch, context) : 1;
        p->segments[b->n_segments++] =
            (Segment){.row0 = b->n, .n = n, .pos0 = context - n, .noise = {.scale = 1}, .blocks = blocks};
        b->n += n;
    }
    want_all(p);
    p->n_logit_rows = MIN(b->n, max_batch + SCORED_ROWS);
}
