#include "trainer/tasks/vectors.h"

#include "base/err.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/map.h"
#include "tokenizer/word_level.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_VECTOR = 4096, FILE_MAX = 2000 << 20 };

static const TokenText unknown = {"<unk>", 5};

typedef struct Reading {
    Vectors *v;
    TokenText *words; /* [v->n] */
    int capacity, line;
    TextMap seen;
    bool knows_unknown; /* the file has a vector for it */
    const char *path;
    Err *err;
} Reading;

static int fail(const Reading *r, const char *what) { return err_set(r->err, "%s:%d: %s", r->path, r->line, what); }

static void add_word(Reading *r, TokenText word) {
    Vectors *v = r->v;
    if (v->n == r->capacity) {
        r->capacity = MAX(1024, 2 * r->capacity);
        r->words = xrealloc(r->words, (size_t)r->capacity * sizeof *r->words);
        v->values = xrealloc(v->values, (size_t)r->capacity * (size_t)v->size * sizeof *v->values);
    }
    r->words[v->n] = word;
    memset(v->values + (size_t)v->n * (size_t)v->size, 0, (size_t)v->size * sizeof *v->values);
    *text_map_at(&r->seen, word.data, word.n) = v->n++;
}

static int count_fields(const char *s) {
    int n = 0;
    for (s += strspn(s, " \t\r"); *s; n++) {
        s += strcspn(s, " \t\r");
        s += strspn(s, " \t\r");
    }
    return n;
}

static int read_values(Reading *r, const char *s, float *out) {
    for (int k = 0; k < r->v->size; k++) {
        char *end;
        out[k] = strtof(s, &end);
        if (end == s || !strchr(" \t\r", *end) || !isfinite(out[k]))
            return fail(r, "a component of the vector is no finite number");
        s = end;
    }
    return 0;
}

/* The line without its newline; how wide the vectors are is learnt from the first. */
static int read_line(Reading *r, char *line) {
    Vectors *v = r->v;
    size_t length = strcspn(line, " \t\r");
    TokenText word = {line, length};
    int fields = count_fields(line + length);
    if (fields == 0 && length == 0) return 0;
    if (r->line == 1 && fields == 1 && !line[strspn(line, "0123456789 \t\r")]) return 0; /* word2vec's header */
    if (length == 0 || !utf8_is_valid(line, length)) return fail(r, "the word is empty or no UTF-8");
    if (v->size == 0) {
        if (fields < 1 || fields > SIZE_MAX_VECTOR) return fail(r, "the vector has no, or more than 4096, components");
        v->size = fields;
        add_word(r, unknown);
    }
    if (fields != v->size)
        return err_set(r->err, "%s:%d: a vector of %d components, those before have %d", r->path, r->line, fields,
                       v->size);
    int at = text_map_find(&r->seen, word.data, word.n);
    if (at > 0 || (at == 0 && r->knows_unknown)) {
        v->repeated++;
        return 0;
    }
    if (at == 0) r->knows_unknown = true;
    if (at < 0) add_word(r, word);
    return read_values(r, line + length, v->values + (size_t)(at < 0 ? v->n - 1 : 0) * (size_t)v->size);
}

static int read_lines(Reading *r, char *text, size_t n) {
    if (text_begins(text, "\xEF\xBB\xBF")) text += 3, n -= 3; /* a mark of the byte order, which is no letter */
    if (memchr(text, 0, n)) return err_set(r->err, "%s holds a NUL: vectors as text are wanted", r->path);
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        r->line++;
        if (read_line(r, line)) return -1;
    }
    return r->v->n ? 0 : err_set(r->err, "%s holds no vectors", r->path);
}

int vectors_load(Vectors *v, const char *path, Err *err) {
    size_t n;
    *v = (Vectors){0};
    char *text = file_read(path, FILE_MAX, &n, err);
    if (!text) return -1;
    Reading r = {.v = v, .path = path, .err = err};
    int rc = read_lines(&r, text, n);
    if (rc == 0)
        v->tokenizer = word_level_new(r.words, v->n);
    else
        vectors_free(v);
    text_map_free(&r.seen);
    free(r.words);
    free(text);
    return rc;
}

void vectors_free(Vectors *v) {
    if (v->tokenizer) tokenizer_free(v->tokenizer);
    free(v->values);
    *v = (Vectors){0};
}
