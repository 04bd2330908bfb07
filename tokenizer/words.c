#include "base/err.h"
#include "tokenizer/tokenizer.h"

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

/* Where a token of the whole text ends with a word, nothing was merged across, and the text up to there has the same
 * tokens by itself. Where none does, or the pieces are not the text, as after NFC, it is encoded once more. */
int tokenizer_encode_words(const Tokenizer *t, const char *text, const size_t *ends, int n_words, TokenList *out,
                           int *rows, Err *err) {
    const int bos = tokenizer_bos(t), before = bos >= 0;
    if (before) token_list_push(out, bos);
    size_t first = out->n, n = n_words ? ends[n_words - 1] : 0, bytes = 0, k = first, at = 0;
    if (tokenizer_encode(t, text, n, true, out, err)) return -1;
    for (size_t i = first; i < out->n; i++) bytes += piece_bytes(t, out->ids[i]);
    const size_t lead = bytes == n + 1; /* a space in front of all */
    for (int i = 0; i < n_words; i++) {
        while (bytes == n + lead && k < out->n && at < ends[i] + lead) at += piece_bytes(t, out->ids[k++]);
        int count = (int)(k - first);
        bool told = bytes == n + lead && at == ends[i] + lead;
        if (!told && count_alone(t, text, ends[i], &count, err)) return -1;
        rows[i] = before + count - 1;
    }
    return 0;
}
