/* bench_model: a checkpoint with the shape of a preset, or of a config.json, and random weights, for measuring how fast
 * it is served.
 *
 *     bench-model noiseformer-v2-124m bf16 runs/bench-124m
 *
 * Its tokenizer has a piece of ASCII for almost every id, so that random tokens are text that can be streamed. */
#include "base/files.h"
#include "base/err.h"
#include "base/machine.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/checkpoint.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>

enum { LETTERS = 64, BYTES = 256, END_OF_TEXT = 0 };

typedef struct Pieces {
    TokenText *texts;   /* [n] */
    TokenMerge *merges; /* [n - 1 - BYTES] */
    char *spelling;     /* four bytes a piece */
    int n;
} Pieces;

static void spell(Pieces *p, int id, const char *text, size_t n) {
    char *at = memcpy(p->spelling + 4 * id, text, n);
    p->texts[id] = (TokenText){at, n};
}

static void append(Pieces *p, int left, int right) {
    char text[4];
    const TokenText *l = &p->texts[left], *r = &p->texts[right];
    BUG_ON(l->n + r->n > sizeof text);
    memcpy(text, l->data, l->n);
    memcpy(text + l->n, r->data, r->n);
    p->merges[p->n - 1 - BYTES] = (TokenMerge){.left = left, .right = right, .result = p->n};
    spell(p, p->n++, text, l->n + r->n);
}

/* Bytes, then pairs of LETTERS characters, then pairs and one more, until there are n. */
static void make_pieces(Pieces *p, int n, int *byte_ids) {
    static const char letters[LETTERS + 1] = "etaoinshrdlucmfwypvbgkqjxzETAOINSHRDLUCMFWYPVBGKQJXZ0123456789.,";
    const char none = 0;
    *p = (Pieces){.n = 1 + BYTES};
    p->texts = xcalloc((size_t)n, sizeof *p->texts);
    p->merges = xcalloc((size_t)n, sizeof *p->merges);
    p->spelling = xcalloc((size_t)n, 4);
    spell(p, END_OF_TEXT, &none, 0);
    p->texts[END_OF_TEXT] = (TokenText){0};
    for (int i = 0; i < BYTES; i++) {
        char byte = (char)byte_level_order(i);
        byte_ids[(unsigned char)byte] = 1 + i;
        spell(p, 1 + i, &byte, 1);
    }
    for (int i = 0; i < LETTERS * LETTERS && p->n < n; i++)
        append(p, byte_ids[(int)letters[i / LETTERS]], byte_ids[(int)letters[i % LETTERS]]);
    for (int i = 0; p->n < n; i++) append(p, 1 + BYTES + i / LETTERS, byte_ids[(int)letters[i % LETTERS]]);
}

static int write_tokenizer(const char *dir, int n, Err *err) {
    static const AddedToken end = {.id = END_OF_TEXT, .text = {"<|endoftext|>", 13}, .special = true};
    char path[PATH_BYTES];
    Pieces p;
    if (path_join(path, dir, "tokenizer.json", err)) return -1;
    if (n <= 1 + BYTES || n > 1 + BYTES + LETTERS * LETTERS * (LETTERS + 1))
        return err_set(err, "there are no pieces for a vocabulary of %d", n);
    TokenizerSpec spec = {.style = TOKEN_BYTE_LEVEL,
                          .added = &end,
                          .n_added = 1,
                          .words = {GPT2_WORDS},
                          .n_words = 1,
                          .bos = -1,
                          .tail = -1};
    make_pieces(&p, n, spec.byte_ids);
    spec.pieces = p.texts;
    spec.n_pieces = n;
    spec.merges = p.merges;
    spec.n_merges = n - 1 - BYTES;
    Tokenizer *t = tokenizer_build(&spec, NULL);
    int rc = tokenizer_json_save(t, path, err);
    tokenizer_free(t);
    free(p.texts);
    free(p.merges);
    free(p.spelling);
    return rc;
}

static int write_model(const char *of, Dtype dtype, const char *dir, Err *err) {
    Config c;
    Labels labels = {0};
    Model m;
    if (preset_or_file(&c, &labels, of, err) || model_init(&m, &c, err)) return -1;
    size_t bytes = params_count(&m.params) * sizeof(float);
    char text[MEMORY_TEXT];
    fprintf(stderr, "bench-model: %zu parameters take %s\n", params_count(&m.params), memory_text(bytes, text));
    if (memory_check(bytes, "the model", "take a smaller preset", err)) return -1;
    float *data = xmalloc(bytes);
    params_bind_flat(&m.params, data, NULL);
    for (int i = 0; i < m.params.n; i++) param_init(&m.params.params[i], 1, weight_f32(m.params.params[i].weight));
    int rc = checkpoint_save(dir, &m, &labels, dtype, 0, err) || write_tokenizer(dir, c.vocab_size, err) ? -1 : 0;
    model_free(&m);
    free(data);
    return rc;
}

int main(int argc, char **argv) {
    Err err;
    bool f32 = argc == 4 && !strcmp(argv[2], "f32");
    if (argc != 4 || (!f32 && strcmp(argv[2], "bf16"))) {
        fprintf(stderr, "usage: bench-model PRESET|config.json f32|bf16 DIR\n");
        return 2;
    }
    if (kernels_init(&err) == 0 && write_model(argv[1], f32 ? DTYPE_F32 : DTYPE_BF16, argv[3], &err) == 0) return 0;
    fprintf(stderr, "bench-model: %s\n", err.msg);
    return 1;
}
