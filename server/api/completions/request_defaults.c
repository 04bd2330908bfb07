/* What a completion gets that does not say it, where the checkpoint's generation_config.json has a word in it. The file
 * is part of the checkpoint's hash, and so of the fingerprint of every answer. */
#include "base/json_write.h"
#include "server/api/completions/request_draft.h"

void api_take_defaults(RequestDraft *d, const Generation *g) {
    for (int i = 0; i < GENERATION_VALUES; i++) {
        const Field *f = fields_find(&completion_fields, generation_keys[i].name);
        void *value = (char *)d + f->offset;
        if (f->fallback != API_ABSENT) continue; /* repetition_penalty, which has two names (request_draft.c) */
        if (f->kind == FIELD_INT && *(int *)value == API_ABSENT) *(int *)value = (int)g->values[i];
        if (f->kind == FIELD_FLOAT && *(float *)value == API_ABSENT) *(float *)value = (float)g->values[i];
    }
}

bool api_put_default(Buffer *b, const char *key, const Generation *g, const FieldList *list, const Field *f) {
    const Field *same = field_same(list, f);
    if (same) return api_put_default(b, key, g, list, same);
    for (int i = 0; i < GENERATION_VALUES; i++)
        if (f == fields_find(&completion_fields, generation_keys[i].name)) {
            json_put_double(b, key, g->values[i]);
            return true;
        }
    return field_put_default(b, key, list, f);
}
