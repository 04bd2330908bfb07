#include "tests/support/forms.h"

#include "tests/support/test.h"

#include <string.h>

Form *form_of_schema_text(const char *json, FormError *e) {
    Err err;
    *e = (FormError){.path = ""};
    cJSON *schema = json_parse(json, strlen(json), 64, 10000, &err);
    if (!schema) snprintf(e->message, sizeof e->message, "%.200s", err.msg);
    Form *f = schema ? form_of_schema(schema, e) : NULL;
    cJSON_Delete(schema);
    return f;
}

static Taken taken(const FormWalk *w, bool legal) {
    return !legal ? TAKEN_NOT : form_may_end(w) ? TAKEN_WHOLE : TAKEN_BEGINNING;
}

Taken form_takes(Form *f, const char *text, size_t n) {
    static FormScratch *s;
    if (!s) s = form_scratch_new();
    FormWalk *bytes = form_walk_new(f, s), *piece = form_walk_new(f, s);
    bool legal = true;
    enum { SHORT = 64 }; /* what a long piece needs at once may be beyond the bounds */
    for (size_t i = 0; i < n && legal; i++) legal = form_take(bytes, text + i, 1, s);
    if (n > 0 && n <= SHORT) {
        bool tested = form_test(piece, text, n, s);
        CHECK(tested == legal && form_take(piece, text, n, s) == legal);
        CHECK(!legal || form_may_end(piece) == form_may_end(bytes));
    }
    Taken t = taken(bytes, legal);
    CHECK(!legal || !form_is_over(bytes) || form_may_end(bytes));
    form_walk_free(bytes);
    form_walk_free(piece);
    return t;
}

void form_check(Form *f, const char *name, const char *const *whole, const char *const *others) {
    for (; *whole; whole++)
        CHECK_MSG(form_takes(f, *whole, strlen(*whole)) == TAKEN_WHOLE, "%s does not take %s", name, *whole);
    for (; *others; others++)
        CHECK_MSG(form_takes(f, *others, strlen(*others)) != TAKEN_WHOLE, "%s takes %s", name, *others);
}
