#include "trainer/text/sample.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

typedef struct State {
    const SampleRun *run;
    Tape tape;
    KvCache kv;
    SampleScratch scratch;
    int *tokens, *blocks; /* [positions], [blocks] */
    int n;
    TextStream text;
    size_t shown;     /* bytes of it */
    bool strip_space; /* of the next token */
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

static bool is_end(const SampleRun *r, int id) {
    bool end = config_ends(&r->model->cfg, id);
    for (int i = 0; i < r->n_ends; i++) end = end || id == r->ends[i];
    return end;
}

static void push_token(State *s, int id) {
    size_t n;
    const Tokenizer *tok = s->run->tokenizer;
    const char *piece = tokenizer_is_special(tok, id) ? NULL : tokenizer_piece(tok, id, &n);
    if (!piece || n == 0) return;
    size_t skip = s->strip_space && piece[0] == ' ';
    s->strip_space = false;
    text_stream_push(&s->text, piece + skip, n - skip, true);
}

/* What will stay of the text and is not shown yet. False when nobody wants more. */
static bool show(State *s) {
    const SampleRun *r = s->run;
    size_t from = s->shown;
    s->shown = s->text.settled;
    return !r->show || r->show(r->self, s->text.text.data ? s->text.text.data + from : "", s->shown - from);
}

static int generate(State *s, Err *err) {
    int from = 0;
    for (int i = 0; i < s->run->max_tokens && !s->text.stopped; i++) {
        int id = next_token(s, from);
        if (id < 0) return err_set(err, "the model's logits leave no token to choose from");
        if (is_end(s->run, id)) break;
        from = s->n;
        s->tokens[s->n++] = id;
        push_token(s, id);
        if (!show(s)) break;
    }
    text_stream_end(&s->text);
    show(s);
    return 0;
}

static int positions_of(const SampleRun *r) { return r->n_prompt + MAX(r->max_tokens, 1); }

int sample_check(const SampleRun *r, Err *err) {
    int needed = positions_of(r) - 1, most = r->model->cfg.max_positions;
    if (needed <= most) return 0;
    return err_set(err, "%d tokens of prompt and %d more need %d positions, the model has %d", r->n_prompt,
                   r->max_tokens, needed, most);
}

int sample_text(const SampleRun *r, Buffer *out, Err *err) {
    const Config *c = &r->model->cfg;
    int positions = positions_of(r), n_blocks = kv_blocks(positions);
    if (sample_check(r, err)) return -1;
    State s = {.run = r, .n = r->n_prompt};
    Dtype dtype = r->model->embed.dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    if (kv_init(&s.kv, c, n_blocks, dtype, config_kv_form(c), err)) return -1;
    s.tokens = xcalloc((size_t)positions, sizeof *s.tokens);
    s.blocks = xcalloc((size_t)n_blocks, sizeof *s.blocks);
    for (int i = 0; i < n_blocks; i++) s.blocks[i] = i;
    memcpy(s.tokens, r->prompt, (size_t)r->n_prompt * sizeof *s.tokens);
    tape_init(&s.tape, false);
    sample_scratch_init(&s.scratch, c->vocab_size);
    static const StopSet none;
    if (text_stream_open(&s.text, r->stops ? r->stops : &none)) memory_exhausted(sizeof(int));
    s.strip_space = r->from_start && tokenizer_strips_space(r->tokenizer);
    int rc = generate(&s, err);
    buffer_append(out, s.text.text.data ? s.text.text.data : "", s.text.text.n);
    buffer_append(out, "", 1);
    out->n--;
    text_stream_free(&s.text);
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
