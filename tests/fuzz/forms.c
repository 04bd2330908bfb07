/* A byte for the kind, a description up to 0xFF, then bytes of a text. What compiles is walked: a copy goes the way
 * that a walk from the beginning goes, a text that may go on has a byte to go on with, and the mask of a vocabulary is
 * what trying its tokens one by one says. */
#include "base/memory.h"
#include "server/form/vocabulary.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/forms.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

typedef struct Fixed {
    Vocabulary vocabulary;
    FormScratch *scratch;
    int *ids;   /* [vocabulary.n] */
    bool *mask; /* [ids of the tokenizer] */
} Fixed;

/* The demo's tokens, read once. */
static Fixed *fixed(void) {
    static Fixed f;
    static Tokenizer *t;
    Err err = {""};
    if (t) return &f;
    int rc = tokenizer_json_load(&t, "weights/demo/tokenizer.json", &err) || vocabulary_init(&f.vocabulary, t);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc) return NULL;
    f.scratch = form_scratch_new();
    f.ids = xmalloc((size_t)f.vocabulary.n * sizeof *f.ids);
    f.mask = xmalloc((size_t)tokenizer_vocab_size(t));
    return &f;
}

static Form *compile(int kind, const char *text, size_t n) {
    FormError e = {.path = ""};
    Form *f = kind == 'r'   ? form_of_regex(text, n, &e)
              : kind == 'g' ? form_of_grammar(text, n, &e)
              : kind == 's' ? form_of_schema_text(text, &e)
                            : form_of_object(&e);
    CHECK(f || e.message[0]);
    return f;
}

static void check_mask(const Fixed *x, FormWalk *w) {
    int64_t visits;
    int n = vocabulary_mask(&x->vocabulary, w, x->scratch, x->ids, &visits);
    if (n < 0) return;
    memset(x->mask, 0, (size_t)tokenizer_vocab_size(x->vocabulary.tokenizer));
    for (int i = 0; i < n; i++) x->mask[x->ids[i]] = true;
    for (int i = 0; i < x->vocabulary.n; i++) {
        int id = x->vocabulary.ids[i];
        CHECK_MSG(vocabulary_test(&x->vocabulary, w, id, x->scratch) == x->mask[id], "token %d", id);
    }
}

static bool goes_on(FormWalk *w, FormScratch *s) {
    for (int b = 0; b < 256; b++)
        if (form_test(w, &(char){(char)b}, 1, s)) return true;
    return false;
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, MIN(n, 4096)};
    Fixed *x = fixed();
    if (!x) return;
    int kind = fuzz_byte(&in);
    size_t length;
    char *text = fuzz_until(&in, 0xFF, &length);
    Form *f = compile(kind, text, length);
    FormWalk *w = f ? form_walk_new(f, x->scratch) : NULL, *copy = NULL;
    bool counted = kind == 's' || strchr(text, '{'); /* it may need more than the bounds */
    const char *rest = (const char *)in.at;
    size_t left = MIN(in.left, 64), i = 0;
    for (; w && i < left; i++) {
        bool legal = form_test(w, rest + i, 1, x->scratch);
        form_walk_free(copy);
        copy = form_walk_clone(w);
        CHECK(form_take(copy, rest + i, 1, x->scratch) == legal && form_take(w, rest + i, 1, x->scratch) == legal);
        CHECK(form_may_end(copy) == form_may_end(w) && form_is_over(copy) == form_is_over(w));
        if (!legal) break;
        CHECK(counted || form_may_end(w) || goes_on(w, x->scratch));
    }
    if (w && length < 256 && n % 4 == 0) check_mask(x, w); /* it takes long */
    if (w) CHECK(form_takes(f, rest, i) != TAKEN_NOT);
    form_walk_free(w);
    form_walk_free(copy);
    form_release(f);
    free(text);
}

TEST(fuzz_forms) { fuzz_run("forms", look); }
