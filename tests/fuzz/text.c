/* Any bytes through tokenizers of every kind: what byte-level ones encode decodes to the same bytes, composed ones to a
 * text that stays what it is, and no merge is left undone. */
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define ALONE                                                                                                          \
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "               \
    "\"use_regex\": true}"
#define DIGITS                                                                                                         \
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "                          \
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "    \
    "\"use_regex\": true}]}"

enum { KINDS = 5 };
static Tokenizer *tokenizers[KINDS];

static Tokenizer *parse(const char *json) {
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(json && tokenizer_json_parse(&t, json, strlen(json), &err) == 0, "%s", err.msg);
    return t;
}

static Tokenizer *changed(const char *from, const char *to) {
    char *json = small_json(), *text = text_replace(json, from, to);
    Tokenizer *t = parse(text);
    free(text);
    free(json);
    return t;
}

static void open_all(void) {
    static const char words[] = "{\"normalizer\": {\"type\": \"Lowercase\"}, \"pre_tokenizer\": {\"type\": "
                                "\"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", "
                                "\"vocab\": {\"<unk>\": 0, \"the\": 1, \"\xC3\xA9t\xC3\xA9\": 2, \"?\": 3}}}";
    char *llama = llama_json();
    tokenizers[0] = small_tokenizer();
    tokenizers[1] = changed(ALONE, DIGITS);
    tokenizers[2] = changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    tokenizers[3] = parse(llama);
    tokenizers[4] = parse(words);
    free(llama);
}

/* No two neighbours of a word could still become one: of the whole, where a text is one word. */
static void check_merged(const Tokenizer *t, const char *text, size_t n, const TokenList *ids) {
    const TokenizerSpec *s = tokenizer_spec(t);
    if (s->style != TOKEN_BYTE_LEVEL || s->nfc || ids->n > 64) return;
    for (size_t i = 0; i < n; i++)
        if (text[i] < 'a' || text[i] > 'z') return;
    int *want = xmalloc((n + 1) * sizeof *want);
    for (size_t i = 0; i < n; i++) want[i] = s->byte_ids[(unsigned char)text[i]];
    CHECK(same_ids(ids, want, reference_merge(s, want, n)));
    free(want);
}

static void check(const Tokenizer *t, const char *text, size_t n, bool special) {
    const TokenizerSpec *s = tokenizer_spec(t);
    TokenList ids = encode_text(t, text, n, special);
    size_t n_back, n_fixed, joined = 0;
    char *back = tokenizer_decode(t, ids.ids, ids.n, &n_back);
    for (size_t i = 0, length; i < ids.n; i++) {
        CHECK(tokenizer_piece(t, ids.ids[i], &length));
        joined += length;
    }
    CHECK(joined == n_back || (tokenizer_strips_space(t) && joined == n_back + 1));
    if (s->style == TOKEN_BYTE_LEVEL && !s->nfc) CHECK(n_back == n && (n == 0 || !memcmp(back, text, n)));
    check_merged(t, text, n, &ids);
    TokenList again = encode_text(t, back, n_back, special);
    char *fixed = tokenizer_decode(t, again.ids, again.n, &n_fixed);
    if (s->style == TOKEN_BYTE_LEVEL)
        CHECK_MSG(n_fixed == n_back && (n_back == 0 || !memcmp(fixed, back, n_back)), "\"%s\" becomes \"%s\"", back,
                  fixed);
    token_list_free(&ids);
    token_list_free(&again);
    free(back);
    free(fixed);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    int form = fuzz_below(&in, 2 * KINDS);
    size_t n_text;
    char *text = fuzz_rest(&in, &n_text);
    check(tokenizers[form / 2], text, n_text, form & 1);
    free(text);
}

TEST(fuzz_text) {
    open_all();
    for (int i = 0; i < KINDS; i++) REQUIRE(tokenizers[i]);
    fuzz_run("text", look);
    for (int i = 0; i < KINDS; i++) tokenizer_free(tokenizers[i]);
}
