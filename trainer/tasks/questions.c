#include "trainer/tasks/questions.h"

#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "trainer/text/lines.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_VALUES = 256 };

/* A string that is not empty, moved to *room over the line: unescaped, with a NUL for its quotes, it takes no more. */
static const char *take_text(const Lines *l, const cJSON *v, const char *name, char **room, Err *err) {
    if (!cJSON_IsString(v) || text_is_blank(v->valuestring)) {
        lines_fail(l, err, "\"%s\" is %s, must be a text", name, show_json(v).text);
        return NULL;
    }
    size_t n = strlen(v->valuestring) + 1;
    char *out = memcpy(*room, v->valuestring, n);
    *room += n;
    return out;
}

static int add_choice(Questions *q, const Lines *l, const cJSON *v, const char *name, char **room, Err *err) {
    const char *text = take_text(l, v, name, room, err);
    if (!text) return -1;
    if (q->n_choices == q->choices_capacity) {
        q->choices_capacity = MAX(64, 2 * q->choices_capacity);
        q->choices = xrealloc(q->choices, (size_t)q->choices_capacity * sizeof *q->choices);
    }
    q->choices[q->n_choices++] = text;
    return 0;
}

static int read_choices(Questions *q, const Lines *l, Question *item, const cJSON *o, const char *name, char **room,
                        Err *err) {
    const cJSON *choices = json_field(o, name), *v;
    int64_t gold;
    if (!cJSON_IsArray(choices))
        return lines_fail(l, err, "\"%s\" is %s, must be a list", name, show_json(choices).text);
    cJSON_ArrayForEach(v, choices) {
        if (add_choice(q, l, v, name, room, err)) return -1;
        item->n_choices++;
    }
    if (item->n_choices < 2 || item->n_choices > CHOICES_MOST)
        return lines_fail(l, err, "%d %s, must be 2 to %d", item->n_choices, name, CHOICES_MOST);
    v = json_field(o, "gold");
    if (!json_integer(v, 0, item->n_choices - 1, &gold))
        return lines_fail(l, err, "\"gold\" is %s, must be 0 to %d", show_json(v).text, item->n_choices - 1);
    item->gold = (int)gold;
    return 0;
}

/* May be empty, as what stands in front of a whole document. */
static const char *take_query(const Lines *l, const cJSON *o, const char *name, char **room, Err *err) {
    const cJSON *v = json_field(o, name);
    return cJSON_IsString(v) && !*v->valuestring ? "" : take_text(l, v, name, room, err);
}

static int read_texts(Questions *q, const Lines *l, Question *item, const cJSON *o, char *room, Err *err) {
    if (json_field(o, "contexts")) {
        item->continuation = take_text(l, json_field(o, "continuation"), "continuation", &room, err);
        return item->continuation ? read_choices(q, l, item, o, "contexts", &room, err) : -1;
    }
    item->query = take_query(l, o, q->cloze ? "context" : "query", &room, err);
    if (!item->query) return -1;
    if (!q->cloze) return read_choices(q, l, item, o, "choices", &room, err);
    item->n_choices = 1;
    return add_choice(q, l, json_field(o, "continuation"), "continuation", &room, err);
}

static int read_question(Questions *q, const Lines *l, const cJSON *o, char *room, Err *err) {
    bool cloze = json_field(o, "context");
    Question item = {.line = l->number};
    char where[32];
    snprintf(where, sizeof where, "line %d", l->number);
    const char *keys = cloze                       ? "context continuation ind"
                       : json_field(o, "contexts") ? "contexts continuation gold ind"
                                                   : "query choices gold ind";
    Err why;
    JsonReader r = {.object = o, .path = where, .err = &why};
    if (!json_reader_knows(&r, keys)) return err_set(err, "%s: %.450s", q->path, why.msg);
    if (q->n && cloze != q->cloze)
        return lines_fail(l, err, "a %s among %s", cloze ? "context" : "query", cloze ? "queries" : "contexts");
    q->cloze = cloze;
    if (read_texts(q, l, &item, o, room, err)) return -1;
    if (q->n == q->capacity) {
        q->capacity = MAX(64, 2 * q->capacity);
        q->items = xrealloc(q->items, (size_t)q->capacity * sizeof *q->items);
    }
    q->items[q->n++] = item;
    return 0;
}

const char *question_context(const Question *q, int choice) { return q->continuation ? q->choices[choice] : q->query; }

const char *question_continuation(const Question *q, int choice) {
    return q->continuation ? q->continuation : q->choices[choice];
}

static int read_all(Questions *q, Err *err) {
    Lines l;
    Err why;
    if (lines_open(&l, q->path, &q->file, err)) return -1;
    for (char *line; (line = lines_next_filled(&l));) {
        cJSON *o = json_parse(line, strlen(line), 2, JSON_VALUES, &why);
        int rc = o ? read_question(q, &l, o, line, err) : lines_fail(&l, err, "%s", why.msg);
        cJSON_Delete(o);
        if (rc) return -1;
    }
    return q->n ? 0 : err_set(err, "%s: there are no questions in it", q->path);
}

int questions_load(Questions *q, const char *path, Err *err) {
    *q = (Questions){.path = path};
    if (read_all(q, err)) {
        questions_free(q);
        return -1;
    }
    const char **at = q->choices; /* they may have moved while they grew */
    for (int i = 0; i < q->n; i++) {
        q->items[i].choices = at;
        at += q->items[i].n_choices;
    }
    return 0;
}

void questions_free(Questions *q) {
    free(q->items);
    free(q->choices);
    free(q->file);
    *q = (Questions){0};
}
