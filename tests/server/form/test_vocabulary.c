/* The mask of a whole vocabulary is what its tokens say one by one, wherever a text stands. */
#include "base/memory.h"
#include "base/random.h"
#include "server/form/vocabulary.h"
#include "tests/support/forms.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static Form *forms(int i) {
    static const char *const patterns[] = {"[a-z ]{1,20}\\.", "(\xC3\xA9|\xE2\x82\xAC|[a-m]+)*x", "\\d{3}-\\d{4}"};
    static const char *const schemas[] = {"{}", "{\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9},"
                                                "\"age\":{\"type\":\"integer\"}},\"required\":[\"name\"],"
                                                "\"additionalProperties\":{\"enum\":[\"red\",\"green\"]}}"};
    FormError e;
    Form *f = i < 3 ? form_of_regex(patterns[i], strlen(patterns[i]), &e) : form_of_schema_text(schemas[i - 3], &e);
    CHECK_MSG(f != NULL, "%s", f ? "" : e.message);
    return f;
}

TEST(form_mask_is_every_token_by_itself) {
    Tokenizer *t;
    Vocabulary v;
    Err err;
    REQUIRE(tokenizer_json_load(&t, "weights/demo/tokenizer.json", &err) == 0 && vocabulary_init(&v, t) == 0);
    CHECK(v.n > 1000 && v.n_bytes > v.n);
    FormScratch *s = form_scratch_new();
    int *ids = xmalloc((size_t)v.n * sizeof *ids);
    bool *legal = xcalloc((size_t)tokenizer_vocab_size(t), 1);
    for (int i = 0; i < 5; i++) {
        Form *f = forms(i);
        FormWalk *w = form_walk_new(f, s);
        int step = 0;
        for (; step < 40 && !form_is_over(w); step++) {
            int64_t visits;
            int n = vocabulary_mask(&v, w, s, ids, &visits);
            REQUIRE(n > 0); /* it has every byte as a token */
            for (int k = 0; k < n; k++) legal[ids[k]] = true;
            for (int k = 0; k < v.n; k++)
                CHECK_MSG(vocabulary_test(&v, w, v.ids[k], s) == legal[v.ids[k]], "form %d, token %d", i, v.ids[k]);
            memset(legal, 0, (size_t)tokenizer_vocab_size(t));
            int drawn = ids[philox4x32((uint32_t)step, (uint32_t)i, 0, 0, 7).v[0] % (uint32_t)n];
            CHECK(vocabulary_take(&v, w, drawn, s));
        }
        CHECK(step > 2);
        form_walk_free(w);
        form_release(f);
    }
    free(ids);
    free(legal);
    form_scratch_free(s);
    vocabulary_free(&v);
    tokenizer_free(t);
}

/* A space that a tokenizer puts in front of a text is none of it. */
TEST(form_leaves_out_a_first_space) {
    FormError e;
    Form *f = form_of_regex("ab", 2, &e);
    FormScratch *s = form_scratch_new();
    FormWalk *w = form_walk_new(f, s);
    CHECK(!form_test(w, " ab", 3, s));
    form_walk_skip_space(w);
    CHECK(form_test(w, "ab", 2, s) && form_test(w, " ab", 3, s) && !form_test(w, "  ab", 4, s));
    CHECK(form_take(w, " ", 1, s) && !form_test(w, " ab", 3, s) && form_take(w, "ab", 2, s) && form_is_over(w));
    form_walk_free(w);
    form_scratch_free(s);
    form_release(f);
}
