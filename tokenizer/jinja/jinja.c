#include "tokenizer/jinja/jinja.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/jinja/execute.h"
#include "tokenizer/jinja/parser.h"

#include <stdlib.h>

struct Jinja {
    JinjaWork work; /* its memory */
    const Node *body;
    Dict names; /* of the variables that it asks for */
};

Jinja *jinja_parse(const char *source, size_t n, Err *err) {
    Jinja *j = try_calloc(1, sizeof *j);
    if (!j) {
        err_set(err, "no memory to read the chat template");
        return NULL;
    }
    work_start(&j->work, err);
    if (setjmp(j->work.out)) {
        jinja_free(j);
        return NULL;
    }
    if (!utf8_is_valid(source, n)) work_fail(&j->work, "the source is no UTF-8");
    j->body = nodes_parse(&j->work, source, n, &j->names);
    j->work.err = NULL;
    return j;
}

void jinja_free(Jinja *j) {
    if (!j) return;
    work_free(&j->work);
    free(j);
}

bool jinja_mentions(const Jinja *j, const char *name) {
    for (size_t i = 0; i < j->names.n; i++)
        if (text_is(j->names.pairs[i].key, name)) return true;
    return false;
}

void jinja_set(JinjaWork *w, const char *name, Value v) { dict_put(w, &w->globals->names, text_word(w, name), v); }

int jinja_run(const Jinja *j, void (*fill)(JinjaWork *w, void *self), void *self, Buffer *text, Buffer *marks,
              Err *err) {
    JinjaWork w;
    work_start(&w, err);
    if (setjmp(w.out)) {
        work_free(&w);
        return -1;
    }
    w.globals = scope_new(&w, NULL);
    fill(&w, self);
    MarkedText all = nodes_written(&w, w.globals, j->body);
    buffer_append(text, all.data, all.n);
    buffer_append(marks, all.marks, all.n);
    work_free(&w);
    return text->failed || marks->failed ? err_set(err, "no memory to write the conversation") : 0;
}
