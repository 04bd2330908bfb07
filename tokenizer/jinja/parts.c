#include "tokenizer/jinja/parts.h"

#include "base/err.h"
#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

#include <ctype.h>
#include <string.h>

static Value place(JinjaWork *w, Value v, int64_t i) {
    int64_t n = (int64_t)value_length(w, v), at = i < 0 ? i + n : i;
    if (at < 0 || at >= n) return value_undefined(w, "%s has no element %lld", value_kind_name(v), (long long)i);
    if (v.kind != VALUE_TEXT) return v.items[at];
    for (size_t from = 0, length;; from += length) {
        utf8_next(v.text.data + from, v.text.n - from, &length);
        if (at-- == 0) return value_text(text_cut(v.text, from, from + length));
    }
}

Value value_item(JinjaWork *w, Value v, Value key) {
    value_defined(w, v);
    if ((value_is_list(v) || v.kind == VALUE_TEXT) && (key.kind == VALUE_INTEGER || key.kind == VALUE_BOOLEAN))
        return place(w, v, key.integer);
    bool has_keys = v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE;
    const Value *at = has_keys && key.kind == VALUE_TEXT ? dict_at(w, v.dict, key.text) : NULL;
    if (at) return *at;
    MarkedText name = text_str(w, key);
    return value_undefined(w, "%s has no '%.*s'", value_kind_name(v), SHOWN(name));
}

Value value_path(JinjaWork *w, Value v, Value path) {
    if (value_is_missing(path)) return v;
    if (path.kind != VALUE_TEXT) return value_item(w, v, path);
    for (size_t from = 0, to; from <= path.text.n; from = to + 1) {
        const char *dot = memchr(path.text.data + from, '.', path.text.n - from);
        to = dot ? (size_t)(dot - path.text.data) : path.text.n;
        MarkedText part = text_cut(path.text, from, to);
        int64_t number = 0;
        size_t digits = 0;
        for (; digits < part.n && digits < 9 && isdigit((unsigned char)part.data[digits]); digits++)
            number = 10 * number + part.data[digits] - '0';
        v = value_item(w, v, part.n && digits == part.n ? value_int(number) : value_text(part));
    }
    return v;
}

Value value_slice(JinjaWork *w, Value v, const Value bounds[3]) {
    value_defined(w, v);
    if (v.kind != VALUE_TEXT && !value_is_list(v)) work_fail(w, "%s has no slices", value_kind_name(v));
    Value all = list_of(w, v), part = {.kind = all.kind};
    Builder text = {0};
    bool given[3];
    int64_t b[3], n = (int64_t)all.n;
    for (int i = 0; i < 3; i++) {
        given[i] = !value_is_missing(bounds[i]) && bounds[i].kind != VALUE_NONE;
        b[i] = given[i] ? value_integer(w, bounds[i], "a bound of a slice") : 0;
    }
    int64_t step = given[2] ? b[2] : 1, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (step == 0) work_fail(w, "a slice with step 0");
    for (int i = 0; i < 2; i++) {
        int64_t open = (i == 0) == (step > 0) ? low : high;
        b[i] = given[i] ? MIN(MAX(b[i] < 0 ? MAX(b[i], -n - 1) + n : b[i], low), high) : open;
    }
    if (step == 1 && value_is_list(v)) {
        part.items = b[1] > b[0] ? all.items + b[0] : NULL;
        part.n = (size_t)MAX(b[1] - b[0], 0);
        return part;
    }
    for (int64_t i = b[0]; step > 0 ? i < b[1] : i > b[1]; i += step) {
        if (v.kind == VALUE_TEXT)
            build(w, &text, all.items[i].text);
        else
            list_push(w, &part, all.items[i]);
        if (step > n || step < -n) break; /* and so i does not overflow */
    }
    return v.kind == VALUE_TEXT ? value_text(built(&text)) : part;
}
