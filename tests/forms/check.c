/* form-check: for each line {"schema":...,"texts":[...]} of standard input, a line {"taken":"210..."}: how far the form
 * of the schema takes each text (2: it is whole, 1: it begins one, 0: not); or {"error":"path: why"}. */
#include "base/buffer.h"
#include "base/json_write.h"
#include "base/json/json_reader.h"
#include "server/form/form.h"

#include <stdlib.h>
#include <string.h>

static char taken(Form *f, const char *text, FormScratch *s) {
    FormWalk *w = form_walk_new(f, s);
    size_t n = strlen(text), i = 0;
    while (i < n && form_take(w, text + i, 1, s)) i++;
    char digit = i < n ? '0' : form_may_end(w) ? '2' : '1';
    form_walk_free(w);
    return digit;
}

static void answer(const cJSON *line, FormScratch *s, Buffer *out) {
    FormError e;
    const cJSON *text;
    Buffer said = {0};
    Form *f = form_of_schema(json_field(line, "schema"), &e);
    if (!f) buffer_print(&said, "%s: %s", e.path, e.message);
    for (text = json_field(line, "texts")->child; f && text; text = text->next) {
        char digit = taken(f, text->valuestring, s);
        buffer_append(&said, &digit, 1);
    }
    json_open(out, NULL, '{');
    json_put_bytes(out, f ? "taken" : "error", said.data ? said.data : "", said.n);
    buffer_free(&said);
    form_release(f);
}

int main(void) {
    FormScratch *s = form_scratch_new();
    char *line = NULL;
    size_t capacity = 0;
    Err err;
    for (ssize_t n; s && (n = getline(&line, &capacity, stdin)) > 0;) {
        Buffer out = {0};
        cJSON *json = json_parse(line, (size_t)n, 100, 1000000, &err);
        if (json) {
            answer(json, s, &out);
        } else { /* what no body can say either */
            json_open(&out, NULL, '{');
            json_put_text(&out, "error", err.msg);
        }
        cJSON_Delete(json);
        if (json_end_line(&out, stdout)) return 1;
    }
    free(line);
    form_scratch_free(s);
    return 0;
}
