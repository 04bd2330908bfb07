/* Files of word vectors. What loads has a word and a number for every place of its table. */
#include "tests/fuzz/fuzz.h"
#include "trainer/tasks/vectors.h"

#include <math.h>
#include <string.h>

static void look(const uint8_t *data, size_t n) {
    Vectors v;
    Err err = {""};
    if (vectors_load(&v, fuzz_file("vectors.txt", data, n), &err)) {
        CHECK(strstr(err.msg, "vectors.txt"));
        return;
    }
    CHECK(v.n >= 1 && v.size >= 1 && v.repeated >= 0 && tokenizer_vocab_size(v.tokenizer) == v.n);
    for (size_t i = 0; i < (size_t)v.n * (size_t)v.size; i++) CHECK(isfinite(v.values[i]));
    bool knows_unknown = memmem(data, n, "<unk>", 5);
    for (int i = 0; i < v.size; i++) CHECK(v.values[i] == 0 || knows_unknown);
    for (int i = 0; i < v.n; i++) {
        size_t length;
        CHECK(tokenizer_piece(v.tokenizer, i, &length) && length > 0);
    }
    vectors_free(&v);
}

TEST(fuzz_vectors) { fuzz_run("vectors", look); }
