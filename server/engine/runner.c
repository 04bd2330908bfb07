#include "server/engine/runner.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "server/engine/job_kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int runner_init(Runner *r, const Checkpoint *checkpoint, const EngineOptions *o, Err *err) {
    const Model *m = &checkpoint->model;
    const Config *c = &m->cfg;
    *r = (Runner){.model = m, .files = &checkpoint->shards, .max_batch = o->max_batch, .stream_limit = o->stream_limit};
    EngineFootprint needs = engine_footprint(m, o);
    if (memory_check(needs.kv_bytes + needs.work_bytes + needs.draft_bytes, "the cache and the largest batch",
                     "a smaller --kv-tokens takes less, and so do --max-batch and --prefill-chunk", err))
        return -1;
    int n_blocks = needs.kv_tokens / KV_BLOCK, per_context = kv_blocks(c->max_positions);
    if (n_blocks && kv_init(&r->kv, c, n_blocks, o->kv_dtype, o->kv_form, err)) return -1;
    kv_pool_init(&r->pool, n_blocks);
    scheduler_init(&r->scheduler, c, o->max_batch, o->prefill_chunk);
    r->scheduler.guess = o->guess;
    if (o->draft && draft_init(&r->draft, o->draft, m, err)) return -1;
    if (o->draft) r->scheduler.draft = &r->draft;
    tape_init(&r->tape, false);
    r->sequences = xcalloc(2 * (size_t)o->max_batch, sizeof *r->sequences);
    r->running = xcalloc(2 * (size_t)o->max_batch, sizeof(Sequence *));
    for (int i = 0; i < 2 * o->max_batch; i++) {
        r->running[i] = &r->sequences[i];
        r->sequences[i].tokens = xcalloc((size_t)c->max_positions + 1, sizeof(int));
        r->sequences[i].blocks = xcalloc((size_t)per_context, sizeof(int));
    }
    return 0;
}

void runner_free(Runner *r) {
    BUG_ON(r->n_running);
    for (int i = 0; i < 2 * r->max_batch && r->sequences; i++) {
        free(r->sequences[i].tokens);
        free(r->sequences[i].blocks);
    }
    for (int i = 0; i < r->n_scratch && r->scratch; i++) sample_scratch_free(&r->scratch[i]);
    for (int i = 0; i < r->n_scratch && r->constrained; i++) constrained_scratch_free(&r->constrained[i]);
    free(r->scratch);
    free(r->constrained);
    team_size_free(&r->team_size);
    free(r->sequences);
    free(r->running);
    scheduler_free(&r->scheduler);
    draft_free(&r->draft);
    tape_free(&r->tape);
    kv_pool_free(&r->pool);
    kv_free(&r->kv);
    *r = (Runner){0};
}

/* The hidden rows that are wanted; *logits are those of the rows that have some, or of what is pooled. Networks besides
 * the transformer have logits alone. */
static const Mat *forward(Runner *r, const Mat **logits) {
    const Scheduler *p = &r->scheduler;
    const KvCache *kv = p->whole ? NULL : &r->kv;
    if (r->model->cfg.network) {
        *logits = model_forward(r->model, &r->tape, &p->batch, NULL);
        return NULL;
    }
    Mat *hidden = model_hidden(r->model, &r->tape, &p->batch, kv), *rows = hidden;
    if (p->head_token == HEAD_OF_SEQUENCES)
        rows = model_pool(r->model, &r->tape, &p->batch, hidden);
    else if (p->n_logit_rows < p->batch.n_want)
        rows = op_rows(&r->tape, hidden, p->logit_rows, p->n_logit_rows);
    *logits = rows->n ? model_logits(r->model, &r->tape, rows) : NULL;
    return hidden;
}

/* The arena grows to what the largest batch takes; a smaller one never takes more of it. Block 0 gets scribbled on,
 * which is what blocks are for. */
bool runner_warm_up(Runner *r) {
    const Config *c = &r->model->cfg;
    team_size_init(&r->team_size);
    r->n_scratch = config_generates(c) ? r->team_size.most : 0; /* nothing else is drawn; words may be many more */
    r->scratch = xcalloc((size_t)r->n_scratch, sizeof *r->scratch);
    r->constrained = xcalloc((size_t)r->n_scratch, sizeof *r->constrained);
    for (int i = 0; i < r->n_scratch; i++) sample_scratch_init(&r->scratch[i], c->vocab_size);
    for (int i = 0; i < r->n_scratch; i++)
        if (constrained_scratch_init(&r->constrained[i], c->vocab_size)) memory_exhausted(sizeof *r->constrained);
    scheduler_largest(&r->scheduler, r->max_batch, c->max_positions, r->sequences[0].blocks);
    const Mat *logits;
    forward(r, &logits);
    bool finite = true;
    for (size_t i = 0; i < (size_t)logits->n * (size_t)logits->d; i++) finite = finite && isfinite(logits->x[i]);
    arena_join(&r->tape.arena);
    r->arena_blocks = r->tape.arena.grown;
    if (r->scheduler.draft) draft_warm_up(&r->draft);
    return finite;
}

bool runner_holds(const Runner *r, int64_t positions) {
    return positions <= r->model->cfg.max_positions && (r->scheduler.whole || kv_blocks(positions) <= r->pool.n);
}

/* ---- admission ---- */

bool runner_has_slot(const Runner *r, uint64_t client) {
    int clients = 0;
    if (r->n_running < r->max_batch) return true;
    if (sequences_of(r->running, r->n_running, client) > 0) return false;
    for (int i = 0; i < r->n_running; i++) clients += sequences_of(r->running, i, r->running[i]->job->client) == 0;
    return clients < r->max_batch;
}

bool runner_spares(const Runner *r, uint64_t client) {
    int blocks = r->pool.n - r->pool.n_used, context = kv_blocks(r->model->cfg.max_positions);
    bool last = !r->scheduler.whole && blocks <= MIN(2 * context, r->pool.n / 4);
    return !last || sequences_of(r->running, r->n_running, client) == 0;
}

bool runner_admit(Runner *r, Job *job) {
    BUG_ON(r->n_running == 2 * r->max_batch);
    Sequence *s = r->running[r->n_running];
    bool noise = config_noise_acts(&r->model->cfg, job->noise_prompt.scale);
    PrefixKey key = {.tenant = job->tenant,
                     .noise_seed = noise ? job->noise_prompt.seed : 0,
                     .noise_scale = noise ? job->noise_prompt.scale : 0,
                     .component = noise ? job->noise_prompt.component : 0};
    PoolPrefix found;
    *s = (Sequence){
        .tokens = s->tokens, .blocks = s->blocks, .n_tokens = job->n_prompt, .draft = {.right = r->draft.right}};
    bool whole = job->max_tokens > 0 || !job->kind->draws;
    s->n_prompt = whole ? job->n_prompt : job->score_prompt ? job->n_prompt - 1 : 0;
    s->n_shared = r->scheduler.whole ? 0 : MIN(s->n_prompt, job_wants_from(job));
    s->n_blocks = s->n_prompt && !r->scheduler.whole ? kv_blocks(job_positions(s->n_prompt, job->max_tokens)) : 0;
    if (!kv_pool_take(&r->pool, s->blocks, s->n_blocks, job->prompt, s->n_shared, &key, &found)) return false;
    s->copy_from = found.copy_rows ? found.copy_from : -1;
    /* Rows to copy are ready, so all before them are. */
    if (found.copy_rows) s->n_rows = s->n_cached = found.n_blocks * KV_BLOCK + found.copy_rows;
    memcpy(s->tokens, job->prompt, (size_t)job->n_prompt * sizeof(int));
    s->job = job;
    if (job->trie) s->node = trie_root(job->trie);
    r->n_running++;
    return true;
}

/* ---- the end of a job ---- */

void runner_finish(Runner *r, Job *job, Finish finish, const char *error) {
    *(finish == FINISH_CANCELLED ? &r->jobs_cancelled : &r->jobs_done) += 1;
    job_finish(job, finish, error);
}

/* Its place in running[] stays until sweep(). */
static void retire(Runner *r, Sequence *s, Finish finish, const char *error) {
    kv_pool_release(&r->pool, s->blocks, s->n_blocks);
    runner_finish(r, s->job, finish, error);
    s->job = NULL;
}

static void sweep(Runner *r) {
    int kept = 0;
    for (int i = 0; i < r->n_running; i++) {
        Sequence *s = r->running[i];
        if (!s->job) continue;
        r->running[i] = r->running[kept];
        r->running[kept++] = s;
    }
    r->n_running = kept;
}

static void cut(Runner *r, double now) {
    for (int i = 0; i < r->n_running; i++) {
        Sequence *s = r->running[i];
        const Job *job = s->job;
        double limit = r->stream_limit > 0 ? job->progress.started + r->stream_limit : 0;
        if (atomic_load(&job->cancelled))
            retire(r, s, FINISH_CANCELLED, NULL);
        else if ((job->deadline > 0 && now >= job->deadline) || (limit > 0 && now >= limit))
            retire(r, s, FINISH_DEADLINE, NULL);
    }
    sweep(r);
}

void runner_end_all(Runner *r, Finish finish) {
    for (int i = 0; i < r->n_running; i++) retire(r, r->running[i], finish, NULL);
    sweep(r);
}

/* ---- one step ---- */

/* Draws the token behind the first n_tokens into the slot; its id is -1 when there is none. */
static void draw(const Sequence *s, int n_tokens, const float *logits, int vocab, SampleScratch *scratch,
                 JobToken *slot) {
    const Job *job = s->job;
    int n_banned = n_tokens - job->n_prompt < job->min_tokens ? job->n_ends : 0;
    const int *banned = job->ends;
    if (job->n_allowed_ids) logits = mask_logits(logits, vocab, job->allowed_ids, job->n_allowed_ids, scratch);
    if (job->bad_words) {
        if (n_banned) memcpy(job->banned, job->ends, (size_t)n_banned * sizeof *banned);
        n_banned +=
            bad_words_next(job->bad_words, s->tokens + job->n_prompt, n_tokens - job->n_prompt, job->banned + n_banned);
        banned = job->banned;
    }
    slot->id =
        sample_token(&job->sampling, logits, vocab, s->tokens, job->n_prompt, n_tokens, banned, n_banned, scratch);
    if (job->score_sampled && slot->id >= 0)
        sampled_logprobs(&job->sampling, logits, vocab, s->tokens, job->n_prompt, n_tokens, banned, n_banned, scratch,
                         slot->id, &slot->logprob, slot->top, MAX(job->n_top, 0));
}

/* Writes beyond what the job has published, so nobody else looks there yet. */
static void sample_row(const Runner *r, const Wanted *w, const float *logits, int member) {
    SampleScratch *scratch = &r->scratch[member];
    Sequence *s = w->sequence;
    const Job *job = s->job;
    int vocab = r->model->cfg.vocab_size, generated = w->position - job->n_prompt;
    JobToken *slot = generated < 0 ? &job->prompt_scores[w->position] : &job->tokens[generated];
    if (generated >= 0 && job->trie) {
        int n = trie_next(job->trie, s->node, job->ends, job->n_ends, job->allowed);
        logits = mask_logits(logits, vocab, job->allowed, n, scratch);
    }
    if (generated < 0)
        slot->id = job->prompt[w->position];
    else if (job->walk)
        slot->id = constrained_draw(job, logits, vocab, s->tokens, s->n_tokens, generated < job->min_tokens, scratch,
                                    &r->constrained[member], &logits, &s->form_visits);
    else
        draw(s, w->position, logits, vocab, scratch, slot);
    if (slot->id >= 0 && (generated < 0 || (job->n_top >= 0 && !job->score_sampled)))
        token_logprobs(logits, vocab, slot->id, &slot->logprob, slot->top, MAX(job->n_top, 0));
}

static void sample(const Runner *r, const Mat *logits) {
    const Scheduler *p = &r->scheduler;
#pragma omp parallel for schedule(dynamic) if (p->n_logit_rows > 1 &&                                                  \
                                               team_pays((size_t)p->n_logit_rows * (size_t)logits->d, TEAM_ELEMENTS))
    for (int k = 0; k < p->n_logit_rows; k++)
        sample_row(r, &p->wanted[p->logit_rows[k]], logits->x + (size_t)k * (size_t)logits->d, team_member());
}

static void read_rows(const Runner *r, const Mat *hidden) {
    const Scheduler *p = &r->scheduler;
    for (int k = 0; k < p->batch.n_want; k++) {
        Job *job = p->wanted[k].sequence->job;
        if (job->kind->take_row)
            job->kind->take_row(job, p->wanted[k].position, hidden->x + (size_t)k * (size_t)hidden->d, hidden->d);
    }
}

/* Rows of logits go to their jobs in order: one of each sequence, or those of its rows. */
static void read_logits(const Runner *r, const Mat *logits) {
    const Scheduler *p = &r->scheduler;
    bool pooled = p->head_token == HEAD_OF_SEQUENCES;
    for (int k = 0; k < logits->n; k++) {
        Sequence *s = p->wanted[pooled ? p->segments[k].row0 : p->logit_rows[k]].sequence;
        if (s->job->kind->take_logits)
            s->job->kind->take_logits(s->job, s->n_read++, logits->x + (size_t)k * (size_t)logits->d, logits->d);
    }
}

/* Takes the token that was drawn behind those that are known; what the job ends with, or FINISH_NONE. */
static Finish take_drawn(Runner *r, Sequence *s) {
    Job *job = s->job;
    JobToken *token = &job->tokens[s->n_tokens - job->n_prompt];
    if (token->id == CONSTRAINED_NONE && job->walk && form_is_over(job->walk)) return FINISH_STOP; /* it began so */
    if (token->id < 0) return FINISH_ERROR;
    bool last = job_is_end(job, token->id);
    s->tokens[s->n_tokens++] = token->id;
    r->generated_tokens++;
    r->step_tokens++;
    if (!last && job->trie) {
        s->node = trie_step(job->trie, s->node, token->id);
        last = trie_is_leaf(job->trie, s->node);
    }
    if (!last && job->walk) last = constrained_take(job, token->id, &r->constrained[0]);
    token->finish = last ? FINISH_STOP : s->n_tokens - job->n_prompt == job->max_tokens ? FINISH_LENGTH : FINISH_NONE;
    return token->finish;
}

/* Takes what was drawn, and goes on with what was drawn behind a guess as long as the guess was right: the rows of the
 * others are written again. */
static Finish take_all_drawn(Runner *r, Sequence *s) {
    int right = 0;
    Finish finish;
    for (;; right++) {
        int guessed = right < s->step_guessed ? s->tokens[s->n_tokens] : -1;
        finish = take_drawn(r, s);
        if (finish != FINISH_NONE || s->tokens[s->n_tokens - 1] != guessed) break;
        s->n_rows++;
    }
    if (s->step_drafted)
        draft_learn(&r->draft, &s->draft, s->step_guessed, right);
    else if (s->step_guessed)
        guess_learn(&s->guess, s->step_guessed, right);
    r->step_guessed += s->step_guessed;
    r->step_right += right;
    return finish;
}

/* Publishes what the step brought: whether it brought any. */
static bool push(Runner *r, Sequence *s) {
    const Job *job = s->job;
    Finish finish = FINISH_NONE;
    bool drew = job->kind->draws && s->step_wanted && s->n_rows == s->n_tokens;
    if (s->n_tokens == job->n_prompt && s->n_rows >= s->n_prompt) r->step_tokens += job->n_prompt;
    if (drew) finish = take_all_drawn(r, s);
    int generated = s->n_tokens - job->n_prompt;
    if (finish == FINISH_NONE && generated == job->max_tokens && s->n_rows >= s->n_prompt) finish = FINISH_LENGTH;
    s->step_finish = finish;
    bool news = (s->step_wanted && job->kind->draws) || finish != FINISH_NONE;
    if (news) job_publish(s->job, job->score_prompt ? MIN(s->n_rows + 1, job->n_prompt) : 0, generated, s->n_cached);
    return news;
}

/* Of a job without a next token. */
static const char *no_token(const Job *job, int id) {
    if (id == CONSTRAINED_TOO_LONG) return "the form takes too long: its next token cannot be told";
    return job->walk            ? "no token goes on with the form"
           : job_is_masked(job) ? "allowed_token_ids and bad_words leave no token to choose from"
                                : "the model's logits leave no token to choose from";
}

/* Nobody is woken before all is published: whoever is takes a core from the others. */
static void push_all(Runner *r) {
    for (int i = 0; i < r->n_running; i++) {
        Sequence *s = r->running[i];
        s->step_news = false;
        if (!s->step_rows && s->n_prompt) continue;
        scheduler_commit(s, &r->pool);
        s->step_news = push(r, s);
    }
    for (int i = 0; i < r->n_running; i++) {
        Sequence *s = r->running[i];
        if (!s->step_news) continue;
        if (s->step_finish == FINISH_ERROR)
            retire(r, s, FINISH_ERROR, no_token(s->job, s->job->tokens[s->n_tokens - s->job->n_prompt].id));
        else if (s->step_finish != FINISH_NONE)
            retire(r, s, s->step_finish, NULL);
        else
            job_wake(s->job);
    }
    sweep(r);
}

static void copy_prefixes(Runner *r) {
    for (int i = 0; i < r->n_running; i++) {
        Sequence *s = r->running[i];
        if (s->copy_from < 0) continue;
        kv_copy_block(&r->kv, s->copy_from, s->blocks[s->n_rows / KV_BLOCK]);
        kv_pool_release(&r->pool, &s->copy_from, 1);
        s->copy_from = -1;
    }
}

int runner_step(Runner *r) {
    copy_prefixes(r);
    cut(r, now_seconds());
    scheduler_share(r->running, r->n_running, r->max_batch);
    scheduler_step(&r->scheduler, r->running, r->n_running, &r->pool);
    phase_ends(&r->phases, TIME_STEP_PLAN);
    int rows = r->scheduler.batch.n;
    const Mat *logits = NULL, *hidden = rows > 0 ? forward(r, &logits) : NULL;
    bool intact = shards_intact(r->files);
    phase_ends(&r->phases, TIME_STEP_FORWARD);
    if (logits && intact && !r->scheduler.whole) sample(r, logits);
    if (logits && intact && r->scheduler.whole) read_logits(r, logits);
    if (hidden && intact) read_rows(r, hidden);
    phase_ends(&r->phases, TIME_STEP_SAMPLE);
    tape_reset(&r->tape);
    if (!intact) return -1;
    r->prompt_tokens += (uint64_t)r->scheduler.prompt_rows;
    r->step_tokens = r->step_guessed = r->step_right = 0;
    push_all(r);
    if (r->tape.arena.grown != r->arena_blocks) {
        log_warning("memory grew to %zu blocks while serving a batch of %d rows", r->tape.arena.grown, rows);
        r->arena_blocks = r->tape.arena.grown;
    }
    phase_ends(&r->phases, TIME_STEP_PUBLISH);
    return rows;
}
