/* Labelled data in files of every format, and with a first byte of 255 questions. What loads has examples that begin
 * and end where they should, labels that there are, and texts that are text. */
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/questions.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const char *text) { CHECK(text && *text && utf8_is_valid(text, strlen(text))); }

static void check_examples(const Examples *e) {
    CHECK(e->n > 0 && e->first[0] == 0 && e->first[e->n] == e->n_units);
    for (int i = 0; i < e->n; i++) CHECK(e->first[i] < e->first[i + 1]);
    for (int i = 0; i < e->n_units; i++) {
        char place[600];
        CHECK(e->label[i] >= 0 && e->label[i] < e->labels.n);
        CHECK(examples_place(e, i, place, sizeof place)[0]);
        if (e->text) check_text(e->text[i]);
        if (e->second && e->second[i]) CHECK(utf8_is_valid(e->second[i], strlen(e->second[i])));
    }
    for (int i = 0; i < e->labels.n; i++) {
        const char *name = labels_name(&e->labels, i);
        CHECK(*name && strlen(name) < LABEL_BYTES && labels_find(&e->labels, name) == i);
    }
    if (e->kind != EXAMPLES_IMAGES) return;
    size_t bytes = (size_t)e->n * (size_t)e->channels * (size_t)e->height * (size_t)e->width;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += e->pixels[i];
    CHECK(sum <= 255 * bytes);
}

static void check_questions(FuzzInput *in) {
    Questions q;
    Err err = {""};
    const char *path = fuzz_file("questions.jsonl", in->at, in->left);
    if (questions_load(&q, path, &err)) {
        CHECK(strstr(err.msg, "questions.jsonl"));
        return;
    }
    CHECK(q.n > 0);
    for (int i = 0; i < q.n; i++) {
        const Question *x = &q.items[i];
        CHECK(x->n_choices >= 1 && x->n_choices <= CHOICES_MOST && x->gold >= 0 && x->gold < x->n_choices);
        for (int k = 0; k < x->n_choices; k++) CHECK(question_context(x, k) && question_continuation(x, k));
    }
    questions_free(&q);
}

/* The images, and behind as many bytes as the first two say their labels. */
static const char *write_idx(FuzzInput *in) {
    size_t n = (size_t)fuzz_byte(in) | (size_t)fuzz_byte(in) << 8;
    n = MIN(n, in->left);
    fuzz_file("x-labels-idx1-ubyte", in->at + n, in->left - n);
    return fuzz_file("x-images-idx3-ubyte", in->at, n);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    Labels known = {0};
    Examples e;
    Err err = {""};
    int form = fuzz_byte(&in);
    if (form == 255) {
        check_questions(&in);
        return;
    }
    ExamplesFormat format = (ExamplesFormat)(form % 8);
    if (form & 8) CHECK(labels_add(&known, "0", &err) == 0 && labels_add(&known, "POS", &err) == 1);
    const char *path = format == FORMAT_IDX ? write_idx(&in) : fuzz_file("examples", in.at, in.left);
    if (examples_load(&e, path, format, form & 8 ? &known : NULL, &err)) {
        CHECK(err.msg[0]);
    } else {
        check_examples(&e);
        examples_free(&e);
    }
}

TEST(fuzz_examples) { fuzz_run("examples", look); }
