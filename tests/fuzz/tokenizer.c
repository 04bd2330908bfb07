/* tokenizer.json of every kind, then behind a 0xFF a text for it. What loads encodes any text to ids it has, decodes
 * them to what encodes to the same text again, and is written as a file that gives the same ids and the same file. */
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static TokenList encode(const Tokenizer *t, const char *text, size_t n, bool special) {
    TokenList list = {0};
    Err err = {""};
    CHECK_MSG(tokenizer_encode(t, text, n, special, &list, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < list.n; i++) {
        size_t length;
        CHECK(list.ids[i] >= 0 && list.ids[i] < tokenizer_vocab_size(t));
        CHECK(tokenizer_piece(t, list.ids[i], &length));
        CHECK(special || !tokenizer_is_special(t, list.ids[i]) || tokenizer_spec(t)->style == TOKEN_WORDS);
    }
    return list;
}

/* What a text decodes to is a fixed point, and of a byte-level vocabulary without rewriting the text itself. */
static void check_text(const Tokenizer *t, const char *text, size_t n) {
    const TokenizerSpec *s = tokenizer_spec(t);
    TokenList ids = encode(t, text, n, false);
    size_t n_back, n_again;
    char *back = tokenizer_decode(t, ids.ids, ids.n, &n_back);
    if (s->style == TOKEN_BYTE_LEVEL && !s->nfc)
        CHECK_MSG(n_back == n && !memcmp(back, text, n), "%zu bytes come back as %zu", n, n_back);
    TokenList again = encode(t, back, n_back, false);
    char *fixed = tokenizer_decode(t, again.ids, again.n, &n_again);
    if (s->style == TOKEN_BYTE_LEVEL) CHECK(n_again == n_back && !memcmp(fixed, back, n_back));
    token_list_free(&ids);
    token_list_free(&again);
    free(back);
    free(fixed);
    ids = encode(t, text, n, true);
    token_list_free(&ids);
}

static void check_file(const Tokenizer *t, const char *text, size_t n) {
    Tokenizer *read = NULL;
    Err err = {""};
    size_t n_first, n_second;
    const char *path = fuzz_file("tokenizer.json", "", 0);
    CHECK_MSG(tokenizer_json_save(t, path, &err) == 0, "%s", err.msg);
    char *first = test_read_file(path, &n_first);
    CHECK_MSG(tokenizer_json_load(&read, path, &err) == 0, "%s", err.msg);
    CHECK_MSG(tokenizer_json_save(read, path, &err) == 0, "%s", err.msg);
    char *second = test_read_file(path, &n_second);
    CHECK_MSG(n_first == n_second && !memcmp(first, second, n_first), "%s\nand then\n%s", first, second);
    TokenList a = encode(t, text, n, true), b = encode(read, text, n, true);
    CHECK(a.n == b.n && (a.n == 0 || !memcmp(a.ids, b.ids, a.n * sizeof *a.ids)));
    token_list_free(&a);
    token_list_free(&b);
    tokenizer_free(read);
    free(first);
    free(second);
}

static void look(const uint8_t *data, size_t n) {
    static const char words[] = "It was the  age of wisdom,\n caf\xC3\xA9 12345 \xE2\x96\x81\x80 <s></s>";
    FuzzInput in = {data, n};
    size_t n_json, n_text;
    Err err = {""};
    Tokenizer *t = NULL;
    char *json = fuzz_until(&in, 0xFF, &n_json), *text = fuzz_rest(&in, &n_text);
    if (tokenizer_json_parse(&t, json, n_json, &err)) {
        CHECK(!t && err.msg[0]);
    } else {
        check_text(t, words, sizeof words - 1);
        check_text(t, text, n_text);
        if (n_text % 8 == 1) check_file(t, text, n_text); /* waits for the disk */
    }
    tokenizer_free(t);
    free(json);
    free(text);
}

TEST(fuzz_tokenizer) { fuzz_run("tokenizer", look); }
