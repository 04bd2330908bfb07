#include "base/err.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *saved_text(const Tokenizer *t) {
    const char *dir = test_dir();
    Err err = {""};
    const char *path = test_text("%s/tokenizer.json", dir);
    CHECK_MSG(tokenizer_json_save(t, path, &err) == 0, "%s", err.msg);
    return test_read_file(path, NULL);
}

char *small_json(void) {
    Tokenizer *t = small_tokenizer();
    char *text = saved_text(t);
    tokenizer_free(t);
    return text;
}

/* Parses, saves, parses and saves again: the same bytes, and the same ids for a text. */
static void check_saves(const char *json) {
    Tokenizer *a = NULL, *b = NULL;
    Err err = {""};
    CHECK_MSG(tokenizer_json_parse(&a, json, strlen(json), &err) == 0, "%s", err.msg);
    if (!a) return;
    char *first = saved_text(a), *second = NULL;
    CHECK_MSG(tokenizer_json_parse(&b, first, strlen(first), &err) == 0, "%s", err.msg);
    if (b) {
        second = saved_text(b);
        CHECK(strcmp(first, second) == 0);
        const size_t n = strlen(SMALL_TEXT);
        TokenList x = encode_text(a, SMALL_TEXT, n, true), y = encode_text(b, SMALL_TEXT, n, true);
        CHECK(same_ids(&x, y.ids, y.n));
        CHECK(tokenizer_bos(a) == tokenizer_bos(b) && tokenizer_tail(a) == tokenizer_tail(b));
        CHECK(tokenizer_strips_space(a) == tokenizer_strips_space(b));
        token_list_free(&x);
        token_list_free(&y);
    }
    free(first);
    free(second);
    tokenizer_free(a);
    tokenizer_free(b);
}

TEST(tokenizer_json_saves_what_it_loads) {
    static const char *const changes[][2] = {
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true"},
        {"\"use_regex\": true},\n  \"post", "\"use_regex\": false},\n  \"post"},
        {"\"ignore_merges\": false", "\"ignore_merges\": true"},
        {"\"special\": true", "\"special\": false"},
        {"\"post_processor\": null", "\"post_processor\": {\"type\": \"ByteLevel\", \"trim_offsets\": false}"},
        {"\"id\": 0,",
         "\"id\": 320, \"content\": \"new <\\\"\\\\\\u0001\xE2\x96\x81>\", \"single_word\": false, \"lstrip\": "
         "false, \"rstrip\": false, \"normalized\": true, \"special\": false}, {\"id\": 0,"},
        {"\"type\": \"BPE\",", ""},
    };
    char *json = small_json();
    check_saves(json);
    for (size_t i = 0; i < COUNTOF(changes); i++) {
        char *changed = text_replace(json, changes[i][0], changes[i][1]);
        CHECK_MSG(changed != NULL, "%s is not in the file", changes[i][0]);
        if (changed) check_saves(changed);
        free(changed);
    }
    free(json);
    json = llama_json();
    check_saves(json);
    free(json);
}

/* A template's tokens around a text, in front, behind, both, one twice; and what is written of it says the same. */
TEST(tokenizer_json_template) {
#define TEXT "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TOKEN(name) "{\"SpecialToken\": {\"id\": \"" name "\", \"type_id\": 0}}"
    static const struct {
        const char *single;
        int bos, tail;
    } cases[] = {{TEXT, -1, -1},
                 {TOKEN("!") ", " TEXT, 7, -1},
                 {TEXT ", " TOKEN("?"), -1, 8},
                 {TOKEN("!") ", " TEXT ", " TOKEN("?"), 7, 8},
                 {TOKEN("?") ", " TEXT ", " TOKEN("?"), 8, 8}};
    char *json = small_json();
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *changed = text_replace(
            json, "\"post_processor\": null",
            test_text("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [%s], \"pair\": [], "
                      "\"special_tokens\": {\"!\": {\"id\": \"!\", \"ids\": [7], \"tokens\": [\"!\"]}, "
                      "\"?\": {\"id\": \"?\", \"ids\": [8], \"tokens\": [\"?\"]}}}",
                      cases[i].single));
        Tokenizer *t = NULL;
        Err err = {""};
        CHECK_MSG(tokenizer_json_parse(&t, changed, strlen(changed), &err) == 0, "%s", err.msg);
        CHECK(t && tokenizer_bos(t) == cases[i].bos && tokenizer_tail(t) == cases[i].tail);
        tokenizer_free(t);
        check_saves(changed);
        free(changed);
    }
    free(json);
}

TEST(tokenizer_json_merges_in_both_forms) {
    char *json = small_json(), *old = strstr(json, "\"\xC4\xA0 t\"");
    REQUIRE(old);
    char *pairs = text_replace(json, "\"\xC4\xA0 t\"", "[\"\xC4\xA0\", \"t\"]");
    Tokenizer *a = NULL, *b = NULL;
    CHECK(tokenizer_json_parse(&a, json, strlen(json), NULL) == 0);
    CHECK(tokenizer_json_parse(&b, pairs, strlen(pairs), NULL) == 0);
    if (a && b) {
        const TokenizerSpec *s = tokenizer_spec(a), *u = tokenizer_spec(b);
        CHECK(s->n_merges == u->n_merges && memcmp(s->merges, u->merges, (size_t)s->n_merges * sizeof *s->merges) == 0);
    }
    tokenizer_free(a);
    tokenizer_free(b);
    free(json);
    free(pairs);
}

TEST(tokenizer_json_prefix_space) {
    char *json = small_json(), *with = text_replace(json, "\"add_prefix_space\": false", "\"add_prefix_space\": true");
    static const char *const cases[][2] = {{"it was", " it was"}, {" it", " it"}, {"\tit", " \tit"}};
    Tokenizer *a = NULL, *b = NULL;
    CHECK(tokenizer_json_parse(&a, json, strlen(json), NULL) == 0);
    CHECK(tokenizer_json_parse(&b, with, strlen(with), NULL) == 0);
    for (size_t i = 0; i < COUNTOF(cases) && a && b; i++) {
        TokenList want = encode_text(a, cases[i][1], strlen(cases[i][1]), false);
        TokenList got = encode_text(b, cases[i][0], strlen(cases[i][0]), false);
        CHECK_MSG(same_ids(&got, want.ids, want.n), "\"%s\"", cases[i][0]);
        token_list_free(&want);
        token_list_free(&got);
    }
    tokenizer_free(a);
    tokenizer_free(b);
    free(json);
    free(with);
}

/* As transformers saves them; a text stays whole. */
TEST(tokenizer_json_of_batches) {
    char *json = small_json();
    char *cut = text_replace(json, "\"truncation\": null",
                             "\"truncation\": {\"direction\": \"Right\", \"max_length\": 4, \"strategy\": "
                             "\"LongestFirst\", \"stride\": 0}");
    char *filled =
        text_replace(cut, "\"padding\": null",
                     "\"padding\": {\"strategy\": {\"Fixed\": 512}, \"direction\": \"Right\", "
                     "\"pad_to_multiple_of\": null, \"pad_id\": 0, \"pad_type_id\": 0, \"pad_token\": \"!\"}");
    Tokenizer *a = NULL, *b = NULL;
    CHECK(tokenizer_json_parse(&a, json, strlen(json), NULL) == 0);
    CHECK(tokenizer_json_parse(&b, filled, strlen(filled), NULL) == 0);
    if (a && b) {
        TokenList want = encode_text(a, SMALL_TEXT, strlen(SMALL_TEXT), true);
        TokenList got = encode_text(b, SMALL_TEXT, strlen(SMALL_TEXT), true);
        CHECK(want.n > 4 && same_ids(&got, want.ids, want.n));
        token_list_free(&want);
        token_list_free(&got);
    }
    check_saves(filled);
    tokenizer_free(a);
    tokenizer_free(b);
    free(json);
    free(cut);
    free(filled);
}

TEST(tokenizer_json_file) {
    const char *dir = test_dir();
    char path[300];
    Tokenizer *t = small_tokenizer(), *back = NULL;
    Err err = {""};
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    CHECK(tokenizer_json_load(&back, path, &err) == -1);
    CHECK_MSG(strstr(err.msg, path) && strstr(err.msg, strerror(ENOENT)), "%s", err.msg);
    CHECK(tokenizer_json_save(t, path, &err) == 0 && tokenizer_json_load(&back, path, &err) == 0);
    CHECK(back && tokenizer_vocab_size(back) == 320);
    tokenizer_free(back);
    test_write_file(path, "{}", 2);
    CHECK(tokenizer_json_load(&back, path, &err) == -1);
    CHECK_MSG(strstr(err.msg, path) && strstr(err.msg, "model is missing"), "%s", err.msg);
    snprintf(path, sizeof path, "%s/nowhere/tokenizer.json", dir);
    CHECK(tokenizer_json_save(t, path, &err) == -1 && strstr(err.msg, "nowhere") != NULL);
    tokenizer_free(t);
}
