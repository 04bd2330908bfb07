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

/* As Python's str() writes a value; or its json.dumps with ensure_ascii=False, where an indent of -1 is all on one
 * line. The brackets and commas of lists and dicts are marked as content. */
MarkedText text_str(JinjaWork *w, Value v);
MarkedText text_json(JinjaWork *w, Value v, int64_t indent, MarkedText comma, MarkedText colon);

MarkedText text_joined(JinjaWork *w, MarkedText a, MarkedText b);
MarkedText text_replaced(JinjaWork *w, MarkedText t, MarkedText what, MarkedText by, int64_t most); /* most < 0: all */

/* Without what is at its ends: of these characters, or of white space when `chars` is none. */
MarkedText text_strip(JinjaWork *w, MarkedText t, Value chars, bool front, bool back);
size_t text_white(const char *data, size_t n); /* bytes of the white space in front, 0: none */

typedef enum Case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_WORDS, CASE_CAPITAL } Case;
MarkedText text_case(JinjaWork *w, MarkedText t, Case to);

#endif
