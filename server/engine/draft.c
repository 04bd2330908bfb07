#include "server/engine/draft.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/footprint.h"
#include "model/shape.h"

#include <stdlib.h>
#include <string.h>

#define ROW_COST (1.0 / 6) /* of a step, for a row that is tried beside the others */
#define RIGHT_AT_FIRST 0.5
enum { LOOK = 32 };                       /* steps without a token that is tried */
enum { MEMORY = 16, MEMORY_OF_ALL = 64 }; /* tokens that `right` is about the mean of */

/* ---- life ---- */

/* Bytes of weights that a row reads. */
static double bytes_read(const Model *m) {
    double sum = 0;
    for (int i = 0; i < m->params.n; i++) {
        const Weight *w = m->params.params[i].weight;
        if (model_looks_up(m, w)) continue;
        sum += (double)weight_count(w) * (double)dtype_size(w->dtype) / (w->dtype == DTYPE_I4 ? 2 : 1);
    }
    return sum;
}

static int context_of(const Model *m, const Model *of) { return MIN(m->cfg.max_positions, of->cfg.max_positions); }

int draft_init(Draft *d, const Model *m, const Model *of, Err *err) {
    int components = config_noise_components(&m->cfg);
    *d = (Draft){.model = m,
                 .context = context_of(m, of),
                 .cost = bytes_read(m) / bytes_read(of) + ROW_COST,
                 .right = RIGHT_AT_FIRST,
                 .components = components && components == config_noise_components(&of->cfg)};
    int blocks = kv_blocks(d->context);
    if (kv_init(&d->kv, &m->cfg, DRAFT_TEXTS * blocks, model_precision(m), config_kv_form(&m->cfg), err)) return -1;
    tape_init(&d->tape, false);
    sample_scratch_init(&d->scratch, m->cfg.vocab_size);
    for (int i = 0; i < DRAFT_TEXTS; i++) {
        DraftText *t = &d->texts[i];
        t->tokens = xcalloc((size_t)d->context, sizeof *t->tokens);
        t->blocks = xcalloc((size_t)blocks, sizeof *t->blocks);
        for (int b = 0; b < blocks; b++) t->blocks[b] = i * blocks + b;
    }
    return 0;
}

size_t draft_memory(const Model *m, const Model *of) {
    size_t tokens = (size_t)(DRAFT_TEXTS * kv_blocks(context_of(m, of)) * KV_BLOCK);
    KvForm form = config_kv_form(&m->cfg);
    return tokens * kv_bytes_per_token(&m->cfg, model_precision(m), form) +
           footprint_serving(m, DRAFT_ROWS, DRAFT_TEXTS, form);
}

void draft_free(Draft *d) {
    if (!d->model) return;
    for (int i = 0; i < DRAFT_TEXTS; i++) {
        free(d->texts[i].tokens);
        free(d->texts[i].blocks);
    }
    sample_scratch_free(&d->scratch);
    tape_free(&d->tape);
    kv_free(&d->kv);
    *d = (Draft){0};
}

static const Mat *forward(Draft *d, const Batch *b) {
    Mat *hidden = model_hidden(d->model, &d->tape, b, &d->kv);
    return b->n_want ? model_logits(d->model, &d->tape, hidden) : NULL;
}

/* The arena grows to what the largest pass takes; what is in the cache behind it is nobody's. */
void draft_warm_up(Draft *d) {
    Segment segments[DRAFT_TEXTS];
    int want[DRAFT_TEXTS];
    Batch b = {.tokens = d->tokens, .segments = segments, .want = want};
    for (int i = 0; i < DRAFT_TEXTS; i++) {
        int n = i ? 1 : MIN(DRAFT_ROWS - DRAFT_TEXTS + 1, d->context);
        segments[b.n_segments++] = (Segment){.row0 = b.n,
                                             .n = n,
                                             .pos0 = d->context - n,
                                             .noise = {.scale = d->components, .means_only = true},
                                             .blocks = d->texts[i].blocks};
        b.n += n;
        want[b.n_want++] = b.n - 1;
    }
    forward(d, &b);
    tape_reset(&d->tape);
    arena_join(&d->tape.arena);
}

/* ---- how many ---- */

/* The length that pays best; 0: none does. */
static int best_length(double right, double cost, int most) {
    double tokens = 1, last = 1, best = 1;
    int length = 0;
    for (int n = 1; n <= most; n++) {
        last *= right;
        tokens += last;
        if (tokens / (1 + n * cost) > best) best = tokens / (1 + n * cost), length = n;
    }
    return length;
}

int draft_plan(const Draft *d, DraftTrust *t, int n_tokens, int most) {
    most = MIN(most, d->context - n_tokens + 1); /* the last is not read */
    int length = best_length(t->right, d->cost, most);
    if (length == 0 && ++t->rest >= LOOK) length = MIN(1, MAX(most, 0));
    if (length > 0) t->rest = 0;
    return length;
}

void draft_learn(Draft *d, DraftTrust *t, int guessed, int right) {
    for (int i = 0; i < MIN(right + 1, guessed); i++) {
        t->right += ((i < right) - t->right) / MEMORY;
        d->right += ((i < right) - d->right) / MEMORY_OF_ALL;
    }
}

/* ---- what comes next ---- */

static NoiseKey noise_of(const Draft *d, const Job *job) {
    NoiseKey key = {0};
    if (d->components) key = job->noise;
    key.means_only = true;
    return key;
}

static bool same_noise(NoiseKey a, NoiseKey b) {
    return a.seed == b.seed && a.scale == b.scale && a.component == b.component;
}

static DraftText *own_place(Draft *d, const void *whose) {
    for (DraftText *t = d->texts; t < d->texts + DRAFT_TEXTS; t++)
        if (t->whose == whose) return t;
    return NULL;
}

static DraftText *oldest_place(Draft *d) {
    DraftText *oldest = d->texts;
    for (DraftText *t = d->texts; t < d->texts + DRAFT_TEXTS; t++)
        if (t->step < oldest->step) oldest = t;
    return oldest;
}

/* What is in the cache of ask's text, but for its last token, whose row gives what comes next. */
static void keep_common(const Draft *d, DraftText *t, const DraftAsk *ask) {
    NoiseKey noise = noise_of(d, ask->job);
    int n = 0, known = same_noise(noise, t->noise) ? MIN(t->n_rows, ask->n_tokens - 1) : 0;
    while (n < known && t->tokens[n] == ask->tokens[n]) n++;
    t->n_rows = n;
    t->noise = noise;
    t->whose = ask->whose;
}

/* Those that have a place first, lest others take it. */
static void take_places(Draft *d, DraftAsk *asks, int n) {
    d->step++;
    for (int i = 0; i < n; i++) {
        asks[i].text = own_place(d, asks[i].whose);
        if (asks[i].text) asks[i].text->step = d->step;
    }
    for (int i = 0; i < n; i++) {
        if (!asks[i].text) asks[i].text = oldest_place(d);
        asks[i].text->step = d->step;
        keep_common(d, asks[i].text, &asks[i]);
    }
}

static void draw(Draft *d, DraftAsk *ask, const float *logits) {
    const Job *job = ask->job;
    int at = ask->n_tokens + ask->n, n_banned = at - job->n_prompt < job->min_tokens ? job->n_ends : 0;
    int id = sample_token(&job->sampling, logits, d->model->cfg.vocab_size, ask->tokens, job->n_prompt, at, job->ends,
                          n_banned, &d->scratch);
    if (id >= 0) ask->tokens[ask->n_tokens + ask->n++] = id;
    ask->over = id < 0 || ask->n == ask->most || job_is_end(job, id);
}

/* One pass over what texts lack of their tokens, known and guessed; of those that lack nothing then the next is drawn.
 * False when there was nothing to do. */
static bool pass(Draft *d, DraftAsk *asks, int n) {
    Segment segments[DRAFT_TEXTS];
    int want[DRAFT_TEXTS], of[DRAFT_TEXTS];
    Batch b = {.tokens = d->tokens, .segments = segments, .want = want};
    for (int i = 0; i < n; i++) {
        DraftText *t = asks[i].text;
        int end = asks[i].n_tokens + asks[i].n, rows = MIN(end - t->n_rows, DRAFT_ROWS - b.n);
        if (asks[i].over || rows == 0) continue;
        const int *from = asks[i].tokens + t->n_rows;
        segments[b.n_segments++] =
            (Segment){.row0 = b.n, .n = rows, .pos0 = t->n_rows, .noise = t->noise, .blocks = t->blocks};
        memcpy(d->tokens + b.n, from, (size_t)rows * sizeof *from);
        memcpy(t->tokens + t->n_rows, from, (size_t)rows * sizeof *from);
        t->n_rows += rows;
        b.n += rows;
        asks[i].over = t->n_rows < end; /* the rest in the next step */
        if (!asks[i].over) of[b.n_want] = i, want[b.n_want++] = b.n - 1;
    }
    if (b.n == 0) return false;
    const Mat *logits = forward(d, &b);
    for (int k = 0; k < b.n_want; k++) draw(d, &asks[of[k]], logits->x + (size_t)k * (size_t)logits->d);
    tape_reset(&d->tape);
    return true;
}

void draft_next(Draft *d, DraftAsk *asks, int n) {
    BUG_ON(n > DRAFT_TEXTS);
    take_places(d, asks, n);
    while (pass(d, asks, n)) continue;
}
