/* text: texts with marks, put together and taken apart. Positions are bytes, except where they say characters. */
#ifndef NOISED_JINJA_TEXT_H
#define NOISED_JINJA_TEXT_H

#include "tokenizer/jinja/value.h"

/* A text while it is written; zeroed it is empty. */
typedef struct Builder {
    char *data, *marks;
    size_t n, capacity;
} Builder;

void build(JinjaWork *w, Builder *b, MarkedText t);
void build_bytes(JinjaWork *w, Builder *b, const char *data, size_t n, char mark);
MarkedText built(const Builder *b);

/* As Python writes a value: str(v); repr(v), what is inside a list; or json.dumps(v, ensure_ascii=False). The brackets
 * and commas of the last two are marked as content. */
typedef enum Writing { WRITE_STR, WRITE_REPR, WRITE_JSON } Writing;
typedef struct Layout {
    Writing writing;
    int64_t indent; /* of JSON; -1: all on one line */
    bool sorted;    /* keys of JSON */
    MarkedText comma, colon;
} Layout;
void build_value(JinjaWork *w, Builder *b, Value v, const Layout *layout);
MarkedText text_str(JinjaWork *w, Value v);

MarkedText text_replaced(JinjaWork *w, MarkedText t, MarkedText what, MarkedText by, int64_t most); /* most < 0: all */

/* Without what is at its ends: of these characters, or of white space when `chars` is absent. */
MarkedText text_strip(JinjaWork *w, MarkedText t, Value chars, bool front, bool back);
size_t text_white(const char *data, size_t n); /* bytes of the white space in front, 0: none */

typedef enum Case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_WORDS, CASE_CAPITAL } Case;
MarkedText text_case(JinjaWork *w, MarkedText t, Case to);

#endif
