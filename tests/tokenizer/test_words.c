/* What a word is labelled on: the count of the text up to it, for every tokenizer. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 12, TEXTS = 300 };

static void check_text(const Tokenizer *t, const char *text, const size_t *ends, int n) {
    TokenList all = {0}, whole = encode_text(t, text, ends[n - 1], true);
    int rows[WORDS], bos = tokenizer_bos(t), before = bos >= 0;
    Err err;
    REQUIRE(tokenizer_encode_words(t, text, ends, n, 1 << 20, &all, rows, &err) == 0);
    CHECK(all.n == whole.n + (size_t)before && (!before || all.ids[0] == bos));
    CHECK(!memcmp(all.ids + before, whole.ids, whole.n * sizeof *whole.ids));
    for (int i = 0; i < n; i++) {
        TokenList alone = encode_text(t, text, ends[i], true);
        CHECK_MSG(rows[i] == before + (int)alone.n - 1, "word %d of \"%s\": %d for %zu", i, text, rows[i], alone.n);
        token_list_free(&alone);
    }
    token_list_free(&all);
    token_list_free(&whole);
}

static void check_words(const Tokenizer *t, uint64_t seed) {
    static const char *const words[] = {"the",
                                        "a",
                                        "river",
                                        "stone's",
                                        "42",
                                        "...",
                                        "\xC3\xA9t\xC3\xA9",
                                        "e\xCC\x81",
                                        "\xE4\xBD\xA0",
                                        "<|endoftext|>",
                                        "a<|endoftext|>b",
                                        "</s>",
                                        "aaaa",
                                        "ab",
                                        "ba",
                                        "-"};
    Draws d = draws_open(seed, DRAW_TEST, 5);
    for (int k = 0; k < TEXTS; k++) {
        char text[WORDS * 24] = "";
        size_t ends[WORDS];
        int n = 1 + (int)(draw_uniform(&d) * (WORDS - 1));
        for (int i = 0; i < n; i++) {
            strcat(strcat(text, i ? " " : ""), words[(size_t)(draw_uniform(&d) * COUNTOF(words))]);
            ends[i] = strlen(text);
        }
        check_text(t, text, ends, n);
    }
}

/* Behind what is beyond the context nothing is looked for. */
TEST(tokenizer_words_end_with_the_context) {
    Tokenizer *t = small_tokenizer();
    const char text[] = "the river a the river";
    const size_t ends[] = {3, 9, 11, 15, 21};
    TokenList list = {0}, whole = encode_text(t, text, 21, true);
    int all[5], rows[5];
    Err err;
    REQUIRE(tokenizer_encode_words(t, text, ends, 5, 1 << 20, &list, all, &err) == 0);
    list.n = 0;
    REQUIRE(tokenizer_encode_words(t, text, ends, 5, all[2], &list, rows, &err) == 0);
    CHECK(list.n == whole.n && !memcmp(rows, all, 3 * sizeof *rows) && rows[3] == all[2] && rows[4] == all[2]);
    token_list_free(&list);
    token_list_free(&whole);
    tokenizer_free(t);
}

TEST(tokenizer_words_are_those_of_the_text_so_far) {
    Draws d = draws_open(3, DRAW_TEST, 6);
    char *jsons[] = {small_json(), llama_json()};
    Tokenizer *t;
    Err err;
    for (size_t i = 0; i < COUNTOF(jsons); i++) {
        REQUIRE(tokenizer_json_parse(&t, jsons[i], strlen(jsons[i]), &err) == 0);
        check_words(t, i);
        tokenizer_free(t);
        free(jsons[i]);
    }
    REQUIRE(tokenizer_json_load(&t, "weights/demo/tokenizer.json", &err) == 0);
    check_words(t, 2);
    TokenizerSpec spec = *tokenizer_spec(t);
    spec.nfc = true;
    Tokenizer *composed = tokenizer_build(&spec, &err);
    check_words(composed, 3);
    tokenizer_free(composed);
    tokenizer_free(t);
    static const char *const listed[] = {"<unk>", "the", "a", "river", "42", "\xC3\xA9t\xC3\xA9"};
    t = tokenizer_of_words(listed, COUNTOF(listed), &err);
    check_words(t, 4);
    tokenizer_free(t);
    for (int i = 0; i < 20; i++) {
        t = random_tokenizer(&d, " ab", 60);
        check_words(t, (uint64_t)i);
        tokenizer_free(t);
    }
}
