#include "trainer/sample.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "model/shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes to text ---- */

typedef struct Text {
    Buffer *out;
    char partial[4]; /* an unfinished code point */
    size_t n_partial;
    bool strip_space;
} Text;

static void push_bytes(Text *t, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        t->partial[t->n_partial++] = bytes[i];
        for (size_t length; t->n_partial > 0;) {
            Utf8 kind = utf8_next(t->partial, t->n_partial, &length);
            if (kind == UTF8_PARTIAL) break;
            bool valid = kind == UTF8_VALID;
            buffer_append(t->out, valid ? t->partial : UTF8_REPLACEMENT, valid ? length : 3);
            t->n_partial -= length;
            memmove(t->partial, t->partial + length, t->n_partial);
        }
    }
}

static void push_token(Text *t, const Tokenizer *tok, int id) {
    size_t n;
    const char *piece = tokenizer_is_special(tok, id) ? NULL : tokenizer_piece(tok, id, &n);
    if (!piece || n == 0) return;
    size_t skip = t->strip_space && piece[0] == ' ';
    t->strip_space = false;
    push_bytes(t, piece + skip, n - skip);
}

/* ---- tokens ---- */

typedef struct State {
    const SampleRun *run;
    Tape tape;
    KvCache kv;
    SampleScratch scratch;
    int *tokens, *blocks; /* [positions], [blocks] */
    int n;
} State;

/* Rows from..n-1 of the tokens, then one more token drawn; -1 when none is left to choose from. */
static int next_token(State *s, int from) {
    const SampleRun *r = s->run;
    int rows = s->n - from, want = rows - 1;
    Segment segment = {.n = rows, .pos0 = from, .noise = r->noise, .blocks = s->blocks};
    Batch batch = {
        .tokens = s->tokens + from, .n = rows, .segments = &segment, .n_segments = 1, .want = &want, .n_want = 1};
    tape_reset(&s->tape);
    const Mat *logits = model_forward(r->model, &s->tape, &batch, &s->kv);
    return sample_token(&r->sampling, logits->x, r->model->cfg.vocab_size, s->tokens, r->n_prompt, s->n, NULL, 0,
                        &s->scratch);
}

static int generate(State *s, Text *t, Err *err) {
    const SampleRun *r = s->run;
    int from = 0;
    for (int i = 0; i < r->max_tokens; i++) {
        size_t shown = t->out->n;
        int id = next_token(s, from);
        if (id < 0) return err_set(err, "the model's logits leave no token to choose from");
        if (config_ends(&r->model->cfg, id)) break;
        from = s->n;
        s->tokens[s->n++] = id;
        push_token(t, r->tokenizer, id);
        if (r->show && !r->show(r->self, t->out->data + shown, t->out->n - shown)) break;
    }
    size_t shown = t->out->n;
    if (t->n_partial) buffer_append(t->out, UTF8_REPLACEMENT, 3);
    if (r->show) r->show(r->self, t->out->data + shown, t->out->n - shown);
    buffer_append(t->out, "", 1);
    t->out->n--;
    return 0;
}

int sample_text(const SampleRun *r, Buffer *out, Err *err) {
    const Config *c = &r->model->cfg;
    int positions = r->n_prompt + MAX(r->max_tokens, 1), n_blocks = kv_blocks(positions);
    if (positions - 1 > c->max_positions)
        return err_set(err, "%d tokens of prompt and %d more need %d positions, the model has %d", r->n_prompt,
                       r->max_tokens, positions - 1, c->max_positions);
    State s = {.run = r, .n = r->n_prompt};
    Dtype dtype = r->model->embed.dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    if (kv_init(&s.kv, c, n_blocks, dtype, config_kv_form(c), err)) return -1;
    s.tokens = xcalloc((size_t)positions, sizeof *s.tokens);
    s.blocks = xcalloc((size_t)n_blocks, sizeof *s.blocks);
    for (int i = 0; i < n_blocks; i++) s.blocks[i] = i;
    memcpy(s.tokens, r->prompt, (size_t)r->n_prompt * sizeof *s.tokens);
    tape_init(&s.tape, false);
    sample_scratch_init(&s.scratch, c->vocab_size);
    Text text = {.out = out, .strip_space = r->from_start && tokenizer_strips_space(r->tokenizer)};
    int rc = generate(&s, &text, err);
    sample_scratch_free(&s.scratch);
    tape_free(&s.tape);
    kv_free(&s.kv);
    free(s.tokens);
    free(s.blocks);
    return rc;
}

size_t sample_sentences(const char *text, size_t n) {
    for (size_t i = n; i-- > 0;) {
        if (!strchr(".!?", text[i])) continue;
        size_t end = i + 1;
        if (end < n && strchr("\"')", text[end])) end++;
        if (end == n || isspace((unsigned char)text[end])) return end;
    }
    return n;
}
