#include "base/err.h"
#include "tests/support/test.h"
#include "trainer/tasks/vectors.h"

#include <stdlib.h>
#include <string.h>

static int load(Vectors *v, const char *text, size_t n, Err *err) {
    const char *dir = test_dir();
    const char *path = test_text("%s/vectors.txt", dir);
    FILE *f = fopen(path, "w");
    BUG_ON(!f || fwrite(text, 1, n, f) != n || fclose(f));
    return vectors_load(v, path, err);
}

TEST(vectors_of_glove_and_word2vec) {
    static const char *const texts[] = {"the 1 -2.5\n, 3e-2 4\nthe 7 8\n\xC3\xA9t\xC3\xA9 0 1",
                                        "3 2\r\nthe 1 -2.5\r\n, 0.03 4 \r\nthe 7 8\r\n\xC3\xA9t\xC3\xA9\t0 1\r\n\r\n",
                                        "\xEF\xBB\xBFthe 1 -2.5\n, 3e-2 4\nthe 7 8\n\xC3\xA9t\xC3\xA9 0 1\n"};
    static const float want[4][2] = {{0, 0}, {1, -2.5f}, {0.03f, 4}, {0, 1}};
    for (size_t k = 0; k < COUNTOF(texts); k++) {
        Vectors v;
        Err err = {""};
        TokenList ids = {0};
        CHECK_MSG(load(&v, texts[k], strlen(texts[k]), &err) == 0, "%s", err.msg);
        REQUIRE(v.tokenizer);
        CHECK(v.n == 4 && v.size == 2 && v.repeated == 1 && !memcmp(v.values, want, sizeof want));
        CHECK(tokenizer_encode(v.tokenizer, "THE sea , \xC3\x89t\xC3\xA9", 15, true, &ids, &err) == 0);
        CHECK(ids.n == 4 && ids.ids[0] == 1 && ids.ids[1] == 0 && ids.ids[2] == 2 && ids.ids[3] == 3);
        token_list_free(&ids);
        vectors_free(&v);
    }
}

/* The first word of the narrowest vectors is no header, which is two numbers. */
TEST(vectors_of_one_component) {
    static const char *const texts[] = {"the 1\nsea 2\n", "2 1\nthe 1\nsea 2\n"};
    for (size_t k = 0; k < COUNTOF(texts); k++) {
        Vectors v;
        Err err = {""};
        CHECK_MSG(load(&v, texts[k], strlen(texts[k]), &err) == 0, "%s", err.msg);
        CHECK(v.n == 3 && v.size == 1 && v.values[1] == 1 && v.values[2] == 2);
        vectors_free(&v);
    }
}

TEST(vectors_of_the_unknown_word) {
    static const char text[] = "the 1 2\n<unk> 3 4\nsea 5 6\n<unk> 7 8\n";
    static const float want[3][2] = {{3, 4}, {1, 2}, {5, 6}};
    Vectors v;
    Err err = {""};
    CHECK_MSG(load(&v, text, strlen(text), &err) == 0, "%s", err.msg);
    CHECK(v.n == 3 && v.repeated == 1 && !memcmp(v.values, want, sizeof want));
    vectors_free(&v);
}

TEST(vectors_bad_files) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "holds no vectors"},
        {"the 1 2\na 1\n", "vectors.txt:2: a vector of 1 components, those before have 2"},
        {"the 1 2\na 1 two\n", "vectors.txt:2: a component of the vector is no finite number"},
        {"the 1 nan\n", "vectors.txt:1: a component"},
        {"the 1 2\n 1 2\n", "vectors.txt:2: the word is empty or no UTF-8"},
        {"\xFF 1 2\n", "vectors.txt:1: the word is empty or no UTF-8"},
        {"the\n", "vectors.txt:1: the vector has no, or more than 4096, components"},
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        Vectors v;
        Err err = {""};
        CHECK(load(&v, cases[k].text, strlen(cases[k].text), &err) == -1);
        CHECK_MSG(strstr(err.msg, cases[k].why), "case %zu: %s", k, err.msg);
    }
    Vectors v;
    Err err = {""};
    CHECK(load(&v, "a 1\0 2\n", 7, &err) == -1 && strstr(err.msg, "holds a NUL"));
}
