#include "trainer/text/sample_tokenizer.h"

#include "base/memory.h"
#include "trainer/text/pieces.h"

#include <stdlib.h>

enum { SAMPLE = 1 << 24, WORD_BYTES = 1 << 21 };

typedef struct Sample {
    BpeText *texts; /* [n] */
    size_t n, bytes;
} Sample;

/* By a tokenizer that knows bytes alone: its ids spell the texts, whatever they were wrapped in. */
static int add_piece(Sample *s, const Piece *p, const Tokenizer *bytes, Err *err) {
    TokenList ids = {0};
    uint64_t length = 0;
    int rc = piece_encode(p, bytes, 0, &ids, &length, err);
    if (rc == 0) {
        s->texts = xrealloc(s->texts, (s->n + 1) * sizeof *s->texts);
        BpeText *text = &s->texts[s->n++];
        text->data = tokenizer_decode(bytes, ids.ids, ids.n, &text->n);
        s->bytes += length;
    }
    token_list_free(&ids);
    return rc;
}

static int add_file(Sample *s, const char *path, const char *field, const Tokenizer *bytes, bool hold_out, size_t share,
                    Err *err) {
    PieceReader r;
    Piece p;
    size_t until = s->bytes + share;
    int rc = piece_reader_open(&r, path, field, bytes, hold_out, TEXT_START, err) ? -1 : 1;
    while (rc > 0 && s->bytes < until && (rc = piece_next(&r, &p, err)) > 0) {
        bool held_out = p.held_out;
        if (!held_out && add_piece(s, &p, bytes, err)) rc = -1;
        free(p.data);
        if (held_out) break;
    }
    piece_reader_close(&r);
    return rc < 0 ? -1 : 0;
}

int sample_tokenizer(Tokenizer **out, const char *const *files, int n_files, const char *field, bool hold_out,
                     int vocab_size, Err *err) {
    Tokenizer *bytes;
    Sample s = {0};
    int step = (n_files + SAMPLE / PIECE - 1) / (SAMPLE / PIECE), taken = (n_files + step - 1) / step, rc = 0;
    if (bpe_train(&bytes, &(BpeCorpus){0}, BPE_FIRST_MERGE, err)) return -1;
    for (int i = 0; i < n_files && rc == 0; i += step)
        rc = add_file(&s, files[i], field, bytes, hold_out, (size_t)(SAMPLE / taken), err);
    if (rc == 0)
        rc = bpe_train(out, &(BpeCorpus){.texts = s.texts, .n = s.n, .word_bytes = WORD_BYTES}, vocab_size, err);
    for (size_t i = 0; i < s.n; i++) free((char *)s.texts[i].data);
    free(s.texts);
    tokenizer_free(bytes);
    return rc;
}
