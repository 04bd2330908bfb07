#include "server/form/json_nodes.h"

#include "base/buffer.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16, BLANKS = 20 };

static int one_of(Form *f, const char *characters) {
    Range ranges[32];
    int n = (int)strlen(characters);
    for (int i = 0; i < n; i++) ranges[i] = (Range){(uint32_t)characters[i], (uint32_t)characters[i]};
    return graph_class(f, ranges, n, false);
}

static int sequence(Form *f, const int *nodes, int n) {
    int all = GRAPH_EMPTY;
    while (n > 0) all = graph_then(f, nodes[--n], all);
    return all;
}
#define SEQUENCE(f, ...) sequence(f, (const int[]){__VA_ARGS__}, (int)COUNTOF(((const int[]){__VA_ARGS__})))

/* Four hexadecimal digits that are neither 0000 nor a surrogate, or a pair of surrogates. */
static int unicode_escape(Form *f) {
    int hex = one_of(f, "0123456789abcdefABCDEF"), some = one_of(f, "123456789abcdefABCDEF"),
        zero = graph_string(f, "0");
    int two = graph_then(f, hex, hex), three = graph_then(f, hex, two), d = one_of(f, "dD");
    int last = graph_either(f, graph_then(f, some, hex), graph_then(f, zero, some));
    int small = graph_then(f, zero, graph_either(f, graph_then(f, some, two), graph_then(f, zero, last)));
    int plain = graph_then(f, one_of(f, "123456789abcefABCEF"), three);
    int below = SEQUENCE(f, d, one_of(f, "01234567"), two);
    int pair = SEQUENCE(f, d, one_of(f, "89abAB"), two, graph_string(f, "\\u"), d, one_of(f, "cdefCDEF"), two);
    return graph_either(f, graph_either(f, plain, small), graph_either(f, below, pair));
}

static void init_numbers(JsonNodes *j, Form *f) {
    int digit = graph_range(f, '0', '9'), minus = graph_optional(f, graph_string(f, "-"));
    int more = graph_then(f, graph_range(f, '1', '9'), graph_repeat(f, digit, 0, DIGITS - 1));
    j->integer = graph_then(f, minus, graph_either(f, graph_string(f, "0"), more));
    int fraction = graph_then(f, graph_string(f, "."), graph_repeat(f, digit, 1, DIGITS));
    int exponent = SEQUENCE(f, one_of(f, "eE"), graph_optional(f, one_of(f, "+-")), graph_repeat(f, digit, 1, 2));
    j->number = SEQUENCE(f, j->integer, graph_optional(f, fraction), graph_optional(f, exponent));
}

void json_nodes_init(JsonNodes *j, Form *f) {
    static const Range marked[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    int line = graph_then(f, graph_string(f, "\n"), graph_repeat(f, one_of(f, " \t"), 0, BLANKS));
    j->space = graph_optional(f, graph_either(f, graph_string(f, " "), line));
    j->comma = graph_then(f, graph_string(f, ","), j->space);
    int escaped = graph_either(f, one_of(f, "\"\\/bfnrt"), graph_then(f, graph_string(f, "u"), unicode_escape(f)));
    j->character =
        graph_either(f, graph_class(f, marked, COUNTOF(marked), true), graph_then(f, graph_string(f, "\\"), escaped));
    j->string =
        SEQUENCE(f, graph_string(f, "\""), graph_repeat(f, j->character, 0, GRAPH_ENDLESS), graph_string(f, "\""));
    init_numbers(j, f);
    j->boolean = graph_either(f, graph_string(f, "true"), graph_string(f, "false"));
    j->null = graph_string(f, "null");
    j->value = graph_name(f);
    int more = graph_repeat(f, graph_then(f, j->comma, j->value), 0, GRAPH_ENDLESS);
    j->array = json_node_array(f, j, graph_optional(f, graph_then(f, j->value, more)));
    int member = SEQUENCE(f, j->string, graph_string(f, ":"), j->space, j->value);
    more = graph_repeat(f, graph_then(f, j->comma, member), 0, GRAPH_ENDLESS);
    j->object = json_node_object(f, j, graph_optional(f, graph_then(f, member, more)));
    int scalar = graph_either(f, graph_either(f, j->string, j->number), graph_either(f, j->boolean, j->null));
    graph_define(f, j->value, graph_either(f, scalar, graph_either(f, j->object, j->array)));
}

int json_node_array(Form *f, const JsonNodes *j, int items) {
    return SEQUENCE(f, graph_string(f, "["), j->space, items, j->space, graph_string(f, "]"));
}

int json_node_object(Form *f, const JsonNodes *j, int members) {
    return SEQUENCE(f, graph_string(f, "{"), j->space, members, j->space, graph_string(f, "}"));
}

/* ---- texts ---- */

/* What a character needs: none of these, or a backslash and a letter, and for controls \u00XX too. */
static int spelled(Form *f, uint32_t c) {
    static const char marks[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    const char *known = c && c < 128 ? strchr(marks, (int)c) : NULL;
    char bytes[8];
    int all = GRAPH_NEVER;
    if (known) {
        bytes[0] = '\\', bytes[1] = letters[known - marks];
        all = graph_text(f, bytes, 2);
    }
    if (c > 0 && c < 0x20) {
        snprintf(bytes, sizeof bytes, "\\u00%02x", c);
        all = graph_either(f, all, graph_text(f, bytes, 6));
    }
    return all;
}

int json_node_class(Form *f, const Range *ranges, int n) {
    enum { MOST = 1024 };
    static const Range escaped[] = {{1, 0x1F}, {'"', '"'}, {'/', '/'}, {'\\', '\\'}};
    Range raw[MOST];
    int n_raw = 0, all = GRAPH_NEVER;
    for (int i = 0; i < n; i++) {
        /* Less 0 to 1F, 22 and 5C. */
        static const Range kept[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
        for (size_t k = 0; k < COUNTOF(kept); k++) {
            Range both = {MAX(ranges[i].low, kept[k].low), MIN(ranges[i].high, kept[k].high)};
            if (both.low <= both.high) raw[n_raw++] = both;
        }
        for (size_t k = 0; k < COUNTOF(escaped); k++)
            for (uint32_t c = MAX(ranges[i].low, escaped[k].low); c <= MIN(ranges[i].high, escaped[k].high); c++)
                all = graph_either(f, all, spelled(f, c));
    }
    return graph_either(f, n_raw ? graph_class(f, raw, n_raw, false) : GRAPH_NEVER, all);
}

static int text_of(Form *f, Buffer *b) {
    int node = b->failed ? GRAPH_NEVER : graph_text(f, b->data, b->n);
    f->failed |= b->failed;
    buffer_free(b);
    return node;
}

int json_node_key(Form *f, const JsonNodes *j, const char *name) {
    Buffer b = {0};
    json_put_text(&b, NULL, name);
    buffer_text(&b, ":");
    return graph_then(f, text_of(f, &b), j->space);
}

char *json_literal_text(const cJSON *value) {
    Buffer b = {0};
    json_put_item(&b, NULL, value);
    return json_try_text(&b);
}

int json_node_literal(Form *f, const JsonNodes *j, const cJSON *value) {
    bool object = cJSON_IsObject(value);
    int members = GRAPH_EMPTY;
    if (!object && !cJSON_IsArray(value)) {
        char *text = json_literal_text(value);
        int node = text ? graph_string(f, text) : GRAPH_NEVER;
        f->failed |= !text;
        free(text);
        return node;
    }
    const cJSON *v = value->child;
    while (v && v->next) v = v->next;
    for (; v; v = v == value->child ? NULL : v->prev) {
        int one = json_node_literal(f, j, v);
        if (object) one = graph_then(f, json_node_key(f, j, v->string), one);
        if (v != value->child) one = graph_then(f, j->comma, one);
        members = graph_then(f, one, members);
    }
    return object ? json_node_object(f, j, members) : json_node_array(f, j, members);
}

/* From byte `at` on, up to which they are equal. */
static int words_from(Form *f, char **words, int n, size_t at) {
    size_t end = at;
    while (words[0][end] && words[0][end] == words[n - 1][end]) end++;
    int begin = graph_text(f, words[0] + at, end - at), all = GRAPH_NEVER;
    for (int i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && words[next][end] == words[i][end];) next++;
        bool whole = !words[i][end];
        all = graph_either(f, all, whole ? GRAPH_EMPTY : words_from(f, words + i, next - i, end));
    }
    return graph_then(f, begin, all);
}

int graph_words(Form *f, char **words, int n) {
    qsort(words, (size_t)n, sizeof *words, text_order);
    return n ? words_from(f, words, n, 0) : GRAPH_NEVER;
}

/* ---- numbers between bounds ---- */

static int digits_between(Form *f, char low, char high) {
    return low > high ? GRAPH_NEVER : graph_range(f, (uint32_t)low, (uint32_t)high);
}

static int any_digits(Form *f, size_t n) { return graph_repeat(f, graph_range(f, '0', '9'), (int)n, (int)n); }

/* As many digits as low and high have, with these as bounds; NULL: none on that side. */
static int between(Form *f, const char *low, const char *high, size_t n) {
    if (n == 0) return GRAPH_EMPTY;
    if (!low && !high) return any_digits(f, n);
    char first = low ? *low : '0', last = high ? *high : '9';
    if (low && high && first == last)
        return graph_then(f, graph_range(f, (uint32_t)first, (uint32_t)first), between(f, low + 1, high + 1, n - 1));
    int inner = graph_then(f, digits_between(f, (char)(first + (low != NULL)), (char)(last - (high != NULL))),
                           any_digits(f, n - 1));
    int lower = low ? graph_then(f, digits_between(f, first, first), between(f, low + 1, NULL, n - 1)) : GRAPH_NEVER;
    int upper = high ? graph_then(f, digits_between(f, last, last), between(f, NULL, high + 1, n - 1)) : GRAPH_NEVER;
    return graph_either(f, inner, graph_either(f, lower, upper));
}

/* 0 <= low; without leading zeros. */
static int naturals(Form *f, int64_t low, int64_t high) {
    char first[24], last[24];
    int all = GRAPH_NEVER;
    int64_t begin = low;
    while (begin <= high) {
        int64_t end = 9;
        while (end < begin) end = end * 10 + 9;
        end = MIN(end, high);
        size_t n = (size_t)snprintf(first, sizeof first, "%lld", (long long)begin);
        snprintf(last, sizeof last, "%lld", (long long)end);
        all = graph_either(f, all, between(f, first, last, n));
        begin = end + 1;
    }
    return all;
}

int json_node_integers(Form *f, int64_t low, int64_t high) {
    low = MAX(low, -JSON_INTEGERS), high = MIN(high, JSON_INTEGERS);
    int negative = low < 0 ? naturals(f, MAX(1, -high), -low) : GRAPH_NEVER;
    int positive = high >= 0 ? naturals(f, MAX(low, 0), high) : GRAPH_NEVER;
    return graph_either(f, graph_then(f, graph_string(f, "-"), negative), positive);
}

/* A point and up to so many digits, or neither. */
static int fraction(Form *f, int digit, int most) {
    return graph_optional(f, graph_then(f, graph_string(f, "."), graph_repeat(f, digit, 1, most)));
}

/* One with a digit that is not 0. */
static int some_fraction(Form *f) {
    enum { ZEROS = 5, MORE = 3 };
    int zero = graph_string(f, "0"), digits = graph_repeat(f, graph_range(f, '0', '9'), 0, MORE);
    return SEQUENCE(f, graph_string(f, "."), graph_repeat(f, zero, 0, ZEROS), graph_range(f, '1', '9'), digits);
}

/* Numbers from low to high without a sign, 0 <= low. */
static int decimals(Form *f, int64_t low, bool low_open, int64_t high, bool high_open) {
    enum { FEW = 9 };
    int digit = graph_range(f, '0', '9'), any = fraction(f, digit, DIGITS), few = fraction(f, digit, FEW);
    if (low > high || (low == high && (low_open || high_open))) return GRAPH_NEVER;
    int last = graph_then(f, naturals(f, high, high), fraction(f, graph_string(f, "0"), DIGITS));
    if (low == high) return last;
    int first = graph_then(f, naturals(f, low, low), low_open ? some_fraction(f) : high_open ? few : any);
    int64_t inner = high_open ? high - 2 : high - 1;
    int all = graph_either(f, first, graph_then(f, naturals(f, low + 1, inner), any));
    if (!high_open) return graph_either(f, all, last);
    return high - 1 > low ? graph_either(f, all, graph_then(f, naturals(f, high - 1, high - 1), few)) : all;
}

int json_node_numbers(Form *f, int64_t low, bool low_open, int64_t high, bool high_open) {
    low = MAX(low, -JSON_INTEGERS), high = MIN(high, JSON_INTEGERS);
    int negative = low < 0 ? decimals(f, MAX(0, -high), high <= 0 && high_open, -low, low_open) : GRAPH_NEVER;
    int positive = high >= 0 ? decimals(f, MAX(low, 0), low >= 0 && low_open, high, high_open) : GRAPH_NEVER;
    return graph_either(f, graph_then(f, graph_string(f, "-"), negative), positive);
}
