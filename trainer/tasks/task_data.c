#include "trainer/tasks/task_data.h"

#include "base/memory.h"
#include "model/shape.h"

#include <stdlib.h>
#include <string.h>

/* ---- texts and sentences ---- */

/* With the tokens around it that a server puts there. */
static int encode(TaskData *d, const Tokenizer *tok, const char *text, size_t n, Err *err) {
    int start = tokenizer_bos(tok), tail = tokenizer_tail(tok);
    if (start >= 0) token_list_push(&d->tokens, start);
    if (tokenizer_encode(tok, text, n, true, &d->tokens, err)) return -1;
    if (tail >= 0) token_list_push(&d->tokens, tail);
    return 0;
}

static int encode_text(TaskData *d, const Tokenizer *tok, int unit, Err *err) {
    const char *text = d->examples->text[unit], *second = d->examples->second[unit];
    if (!second) return encode(d, tok, text, strlen(text), err);
    size_t n = strlen(text) + strlen(second) + 2;
    char *both = xmalloc(n);
    snprintf(both, n, "%s\n%s", text, second);
    int rc = encode(d, tok, both, n - 1, err);
    free(both);
    return rc;
}

static int encode_sentence(TaskData *d, const Tokenizer *tok, int first_unit, int n_units, Err *err) {
    size_t n = 0, at = 0, *ends = xcalloc((size_t)n_units, sizeof *ends);
    for (int u = 0; u < n_units; u++) n += strlen(d->examples->text[first_unit + u]) + 1;
    char *text = xmalloc(n);
    for (int u = 0; u < n_units; u++)
        ends[u] = at += (size_t)snprintf(text + at, n - at, u ? " %s" : "%s", d->examples->text[first_unit + u]);
    int rc =
        tokenizer_encode_words(tok, text, ends, n_units, d->cfg->max_positions, &d->tokens, d->row + first_unit, err);
    free(text);
    free(ends);
    return rc;
}

static int check_length(TaskData *d, int i, bool truncate, Err *err) {
    size_t n = d->tokens.n - d->first[i], most = (size_t)d->cfg->max_positions;
    if (n == 0) return err_set(err, "the text has no tokens");
    if (n <= most) return 0;
    if (!truncate) return err_set(err, "%zu tokens, max_position_embeddings is %zu (--truncate cuts the end)", n, most);
    d->tokens.n = d->first[i] + most;
    d->truncated++;
    return 0;
}

static void move_unit(TaskData *d, Examples *e, int to, int from) {
    e->label[to] = e->label[from];
    e->line[to] = e->line[from];
    e->text[to] = e->text[from];
    e->second[to] = e->second[from];
    if (d->row) d->row[to] = MAX(0, d->row[from]);
}

static int encode_all(TaskData *d, Examples *e, const Tokenizer *tok, bool truncate, Err *err) {
    d->first = xcalloc((size_t)e->n + 1, sizeof *d->first);
    if (e->kind == EXAMPLES_SENTENCES) d->row = xcalloc((size_t)e->n_units, sizeof *d->row);
    int kept = 0;
    for (int i = 0, unit = 0, end; i < e->n; i++, unit = end) {
        char place[300];
        Err why;
        end = e->first[i + 1];
        d->first[i] = d->tokens.n;
        int rc = d->row ? encode_sentence(d, tok, unit, end - unit, &why) : encode_text(d, tok, unit, &why);
        if (rc == 0) rc = check_length(d, i, truncate, &why);
        if (rc) return err_set(err, "%s: %.200s", examples_place(e, unit, place, sizeof place), why.msg);
        e->first[i] = kept;
        for (int u = unit, rows = (int)(d->tokens.n - d->first[i]); u < end; u++)
            if (!d->row || d->row[u] < rows) move_unit(d, e, kept++, u);
        if (kept == e->first[i])
            return err_set(err, "%s: the first word does not end within the %d tokens of max_position_embeddings",
                           examples_place(e, unit, place, sizeof place), d->cfg->max_positions);
    }
    d->cut_words = e->n_units - kept;
    d->first[e->n] = d->tokens.n;
    e->first[e->n] = e->n_units = kept;
    return 0;
}

/* ---- all kinds ---- */

static int check_kind(const Examples *e, const Tokenizer *tok, const Config *c, Err *err) {
    static const char *const names[] = {"texts", "sentences", "images"};
    static const TaskKind tasks[] = {TASK_TEXT_CLASSIFICATION, TASK_TOKEN_CLASSIFICATION, TASK_IMAGE_CLASSIFICATION};
    if (c->task != tasks[e->kind])
        return err_set(err, "%s holds %s, but task is %s", e->path, names[e->kind], task_names[c->task]);
    if (e->kind != EXAMPLES_IMAGES)
        return tok ? 0 : err_set(err, "%s holds texts, and there is no tokenizer.json", e->path);
    if (e->channels == c->input.channels && e->height == c->input.height && e->width == c->input.width) return 0;
    return err_set(err, "%s: images of [%d,%d,%d], input.channels and input.image_size are [%d,%d,%d]", e->path,
                   e->channels, e->height, e->width, c->input.channels, c->input.height, c->input.width);
}

int task_data_encode(TaskData *d, Examples *e, const Tokenizer *tok, const Config *c, bool truncate, Err *err) {
    *d = (TaskData){.examples = e, .cfg = c};
    if (check_kind(e, tok, c, err)) return -1;
    if (e->kind == EXAMPLES_IMAGES || encode_all(d, e, tok, truncate, err) == 0) return 0;
    task_data_free(d);
    return -1;
}

void task_data_free(TaskData *d) {
    token_list_free(&d->tokens);
    free(d->first);
    free(d->row);
    *d = (TaskData){0};
}

int task_data_rows(const TaskData *d, int example) {
    return d->first ? (int)(d->first[example + 1] - d->first[example]) : config_image_rows(d->cfg);
}

static void hash_text(Sha256 *hash, const char *text) { sha256_add(hash, text, strlen(text) + 1); }

void task_data_hash(const Examples *e, Sha256 *hash) {
    int head[] = {e->kind, e->n, e->n_units, e->channels, e->height, e->width, e->labels.n};
    sha256_add(hash, head, sizeof head);
    for (int i = 0; i < e->labels.n; i++) hash_text(hash, labels_name(&e->labels, i));
    sha256_add(hash, e->first, ((size_t)e->n + 1) * sizeof *e->first);
    sha256_add(hash, e->label, (size_t)e->n_units * sizeof *e->label);
    for (int u = 0; u < e->n_units && e->text; u++) {
        hash_text(hash, e->text[u]);
        hash_text(hash, e->second[u] ? e->second[u] : "");
    }
    size_t pixels = (size_t)e->n * (size_t)e->channels * (size_t)e->height * (size_t)e->width;
    if (e->pixels) sha256_add(hash, e->pixels, pixels);
}

/* ---- batches ---- */

/* At least n elements of `size` in array number k. */
static void *reserve(TaskBatch *b, int k, void *array, int n, size_t size) {
    if (n <= b->capacity[k]) return array;
    b->capacity[k] = 2 * n;
    return xrealloc(array, (size_t)b->capacity[k] * size);
}

static void add_images(TaskBatch *b, const Examples *e, int example, int place) {
    int n = e->channels * e->height * e->width;
    const uint8_t *from = e->pixels + (size_t)example * (size_t)n;
    b->images = reserve(b, 1, b->images, (place + 1) * n, sizeof *b->images);
    for (int i = 0; i < n; i++) b->images[(size_t)place * (size_t)n + (size_t)i] = (float)from[i] / 127.5f - 1;
}

static void add_units(TaskBatch *b, const TaskData *d, int example, int row0) {
    const Examples *e = d->examples;
    int first = e->first[example], n = e->first[example + 1] - first;
    if (b->n_units + n > b->capacity[2]) {
        b->targets = reserve(b, 2, b->targets, b->n_units + n, sizeof *b->targets);
        b->want = xrealloc(b->want, (size_t)b->capacity[2] * sizeof *b->want);
    }
    for (int u = first; u < first + n; u++) {
        b->want[b->n_units] = d->row ? row0 + d->row[u] : 0;
        b->targets[b->n_units++] = e->label[u];
    }
}

void task_batch_fill(TaskBatch *b, const TaskData *d, const uint32_t *chosen, int n, NoiseKey noise,
                     bool per_sequence) {
    int rows = 0;
    b->segments = reserve(b, 3, b->segments, n, sizeof *b->segments);
    b->n_units = 0;
    for (int i = 0; i < n; i++) {
        int example = (int)chosen[i], m = task_data_rows(d, example);
        if (per_sequence) noise.sequence = (uint32_t)i;
        b->segments[i] = (Segment){.row0 = rows, .n = m, .noise = noise};
        if (d->first) {
            b->tokens = reserve(b, 0, b->tokens, rows + m, sizeof *b->tokens);
            memcpy(b->tokens + rows, d->tokens.ids + d->first[example], (size_t)m * sizeof *b->tokens);
        } else {
            add_images(b, d->examples, example, i);
        }
        add_units(b, d, example, rows);
        rows += m;
    }
    b->batch = (Batch){.tokens = d->first ? b->tokens : NULL,
                       .images = d->first ? NULL : b->images,
                       .n = rows,
                       .segments = b->segments,
                       .n_segments = n,
                       .want = d->row ? b->want : NULL,
                       .n_want = d->row ? b->n_units : 0};
}

void task_batch_free(TaskBatch *b) {
    free(b->tokens);
    free(b->images);
    free(b->targets);
    free(b->want);
    free(b->segments);
    *b = (TaskBatch){0};
}
