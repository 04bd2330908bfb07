#include "base/err.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

static const char words[] = "{\"normalizer\": {\"type\": \"Lowercase\"}, \"pre_tokenizer\": {\"type\": "
                            "\"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", "
                            "\"vocab\": {\"<unk>\": 0, \"the\": 1, \"\xC3\xA9t\xC3\xA9\": 2, \"?\": 3, "
                            "\"i\xCC\x87z\": 4, \"The\": 5}}}";

static Tokenizer *parse(const char *json) {
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(tokenizer_json_parse(&t, json, strlen(json), &err) == 0, "%s", err.msg);
    return t;
}

TEST(word_level_encodes) {
    static const struct {
        const char *text;
        int n, ids[6];
    } cases[] = {
        {"the The THE", 3, {1, 1, 1}},
        {"  \t\nthe\xE2\x80\x83?\n", 2, {1, 3}}, /* an em space */
        {"the? zebra \xC3\x89T\xC3\x89", 3, {0, 0, 2}},
        {"\xC4\xB0Z", 1, {4}}, /* dotted capital I */
        {" \n", 0, {0}},
        {"\xFFthe the\xC3 the", 3, {0, 0, 1}}, /* no UTF-8 */
        {"<unk>", 1, {0}},
    };
    Tokenizer *t = parse(words);
    REQUIRE(t);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        TokenList ids = encode_text(t, cases[i].text, strlen(cases[i].text), true);
        CHECK_MSG(same_ids(&ids, cases[i].ids, (size_t)cases[i].n), "case %zu: %zu ids", i, ids.n);
        token_list_free(&ids);
    }
    size_t n;
    const char *piece = tokenizer_piece(t, 2, &n);
    CHECK(n == 5 && !memcmp(piece, "\xC3\xA9t\xC3\xA9", n));
    CHECK(tokenizer_vocab_size(t) == 6 && !tokenizer_piece(t, 6, &n));
    tokenizer_free(t);
    char *cased = text_replace(words, "{\"type\": \"Lowercase\"}", "null");
    t = parse(cased);
    REQUIRE(t);
    TokenList ids = encode_text(t, "the The THE", 11, true);
    CHECK(same_ids(&ids, (const int[]){1, 5, 0}, 3));
    token_list_free(&ids);
    tokenizer_free(t);
    free(cased);
}

TEST(word_level_saves_what_it_loads) {
    const char *dir = test_dir();
    char path[2][300], *text[2];
    Err err = {""};
    Tokenizer *t = parse(words);
    REQUIRE(t);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.json", dir, i);
        CHECK_MSG(tokenizer_json_save(t, path[i], &err) == 0, "%s", err.msg);
        tokenizer_free(t);
        t = NULL;
        CHECK_MSG(tokenizer_json_load(&t, path[i], &err) == 0, "%s", err.msg);
        REQUIRE(t);
        text[i] = test_read_file(path[i], NULL);
    }
    CHECK(strcmp(text[0], text[1]) == 0);
    TokenList ids = encode_text(t, "The ?", 5, true);
    CHECK(same_ids(&ids, (const int[]){1, 3}, 2));
    token_list_free(&ids);
    tokenizer_free(t);
    free(text[0]);
    free(text[1]);
}

TEST(word_level_bad_files) {
    static const char *const cases[][3] = {
        {"\"<unk>\", \"vocab\"", "\"none\", \"vocab\"", "model.unk_token is \"none\", which is not in model.vocab"},
        {"\"unk_token\": \"<unk>\", ", "", "model.unk_token is missing, must be a string"},
        {"WhitespaceSplit", "Whitespace", "pre_tokenizer.type is \"Whitespace\", only \"WhitespaceSplit\""},
        {"Lowercase", "NFC", "normalizer.type is \"NFC\", only \"Lowercase\""},
        {"\"normalizer\"", "\"decoder\": {}, \"normalizer\"", "decoder is"},
        {"\"type\": \"WordLevel\"", "\"type\": \"WordLevel\", \"merges\": []", "merges"},
        {"\"normalizer\"",
         "\"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"single_word\": false, \"lstrip\": false, "
         "\"rstrip\": false, \"normalized\": false, \"special\": true}], \"normalizer\"",
         "added_tokens has 1 elements, but model.type is WordLevel"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *json = text_replace(words, cases[i][0], cases[i][1]);
        Tokenizer *t = NULL;
        Err err = {""};
        REQUIRE(json);
        CHECK(tokenizer_json_parse(&t, json, strlen(json), &err) == -1);
        CHECK_MSG(strstr(err.msg, cases[i][2]), "case %zu: %s", i, err.msg);
        free(json);
    }
}

TEST(word_level_takes_no_special_token) {
    Tokenizer *t = parse(words);
    Err err = {""};
    REQUIRE(t);
    CHECK(!tokenizer_with_special(t, "<mask>", &err) && strstr(err.msg, "words alone takes no token like <mask>"));
    tokenizer_free(t);
}
