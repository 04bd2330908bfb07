/* parts: what stands inside of lists, texts and dicts. */
#ifndef NOISED_JINJA_PARTS_H
#define NOISED_JINJA_PARTS_H

#include "tokenizer/jinja/value.h"

/* v[key]: a key's value, a place's item. VALUE_UNDEFINED: there is none. */
Value value_item(JinjaWork *w, Value v, Value key);
Value value_path(JinjaWork *w, Value v, Value path); /* "a.b.0": v["a"]["b"][0]; v itself where no path is given */

/* v[start:stop:step] as Python has it, each of which may be none. */
Value value_slice(JinjaWork *w, Value v, const Value bounds[3]);

#endif
