#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/spelling.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

static size_t piece_bytes(const Tokenizer *t, int id) {
    size_t n = 0;
    return tokenizer_piece(t, id, &n) ? n : 0;
}

static int count_alone(const Tokenizer *t, const char *text, size_t n, int *count, Err *err) {
    TokenList list = {0};
    int rc = tokenizer_encode(t, text, n, true, &list, err);
    *count = (int)list.n;
    token_list_free(&list);
    return rc;
}

static size_t start_of(const size_t *ends, int i) { return i ? ends[i - 1] + 1 : 0; }

/* No token of such a tokenizer reaches beyond a space. */
static int encode_one_by_one(const Tokenizer *t, const char *text, const size_t *ends, int n_words, TokenList *out,
                             int *rows, Err *err) {
    size_t first = out->n;
    for (int i = 0; i < n_words; i++) {
        size_t start = start_of(ends, i);
        if (tokenizer_encode(t, text + start, ends[i] - start, true, out, err)) return -1;
        rows[i] = (int)(out->n - first) - 1;
    }
    return 0;
}

/* Where the words end in NFC: no space is part of a composition. NULL when memory runs out. */
static size_t *composed_ends(const char *text, const size_t *ends, int n_words) {
    size_t *out = try_calloc((size_t)n_words + 1, sizeof *out), at = 0;
    for (int i = 0; i < n_words && out; i++) {
        size_t start = start_of(ends, i);
        TokenText word = {.data = text + start, .n = ends[i] - start},
                  spelt = is_ascii(word) ? word : nfc_spelling(word);
        if (!spelt.data) return free(out), NULL;
        out[i] = at += spelt.n + (i > 0);
        if (spelt.data != word.data) free((char *)spelt.data);
    }
    return out;
}

/* Where a token of the whole text ends with a word, nothing was merged across, and the text up to there has the same
 * tokens by itself. Where none does, or the pieces are not the text, it is encoded once more. */
static int find_rows(const Tokenizer *t, const char *text, const size_t *ends, const size_t *spelt, int n_words,
                     int most, const TokenList *all, size_t first, int *rows, Err *err) {
    const int before = tokenizer_bos(t) >= 0;
    const size_t n = n_words ? spelt[n_words - 1] : 0;
    size_t bytes = 0, k = first, at = 0;
    int rc = 0;
    for (size_t i = first; i < all->n; i++) bytes += piece_bytes(t, all->ids[i]);
    const size_t lead = bytes == n + 1; /* a space in front of all */
    for (int i = 0; i < n_words && rc == 0; i++) {
        if (i && rows[i - 1] >= most) {
            rows[i] = most;
            continue;
        }
        while (bytes == n + lead && k < all->n && at < spelt[i] + lead) at += piece_bytes(t, all->ids[k++]);
        int count = (int)(k - first);
        bool told = bytes == n + lead && at == spelt[i] + lead;
        if (!told) rc = count_alone(t, text, ends[i], &count, err);
        rows[i] = before + count - 1;
    }
    return rc;
}

int tokenizer_encode_words(const Tokenizer *t, const char *text, const size_t *ends, int n_words, int most,
                           TokenList *out, int *rows, Err *err) {
    const TokenizerSpec *s = tokenizer_spec(t);
    const int bos = tokenizer_bos(t);
    if (s->style == TOKEN_WORDS) return encode_one_by_one(t, text, ends, n_words, out, rows, err);
    if (bos >= 0) token_list_push(out, bos);
    size_t first = out->n;
    if (tokenizer_encode(t, text, n_words ? ends[n_words - 1] : 0, true, out, err)) return -1;
    size_t *composed = s->nfc ? composed_ends(text, ends, n_words) : NULL;
    if (s->nfc && !composed) return err_set(err, "no memory for the text's words");
    int rc = find_rows(t, text, ends, composed ? composed : ends, n_words, most, out, first, rows, err);
    free(composed);
    return rc;
}
