#include "base/json_write.h"
#include "base/err.h"
#include "base/random.h"
#include "tokenizer/text_stream.h"
#include "base/utf8.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

/* Pushes text[0..n) in pieces of `step` bytes; the result is malloc'ed. Checks that nothing settled is taken back, and
 * that no more waits than may be the beginning of a stop string. */
static char *run(const char *text, size_t n, size_t step, const StopSet *stops, bool *stopped) {
    TextStream t;
    Buffer seen = {0};
    size_t may_wait = 0;
    for (int s = 0; s < stops->n; s++) may_wait = MAX(may_wait, (size_t)stops->items[s].n - 1);
    text_stream_open(&t, stops);
    for (size_t i = 0; i < n; i += step) {
        text_stream_push(&t, text + i, MIN(step, n - i), true);
        CHECK(t.settled >= seen.n && t.settled <= t.text.n && (seen.n == 0 || !memcmp(t.text.data, seen.data, seen.n)));
        CHECK(t.text.n - t.settled <= may_wait);
        seen.n = 0;
        buffer_append(&seen, t.text.data, t.settled);
        CHECK(utf8_count(seen.data, seen.n) == t.settled_chars);
    }
    text_stream_end(&t);
    CHECK(t.settled == t.text.n && t.chars == utf8_count(t.text.data, t.text.n) && t.chars == t.settled_chars);
    if (stopped) *stopped = t.stopped;
    char *out = strndup(t.text.n ? t.text.data : "", t.text.n);
    text_stream_free(&t);
    buffer_free(&seen);
    return out;
}

static StopSet stop_set(const char *const *strings) {
    StopSet s = {0};
    for (; *strings; strings++) stop_set_add(&s, *strings);
    return s;
}

typedef struct Case {
    const char *bytes, *text;
} Case;

TEST(text_stream_is_always_utf8) {
    static const Case cases[] = {
        {"plain", "plain"},
        {"caf\xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x8C\x8A", "caf\xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x8C\x8A"},
        {"a\x80z", "a\xEF\xBF\xBDz"},     /* a continuation byte alone */
        {"a\xC3z", "a\xEF\xBF\xBDz"},     /* a beginning without the rest */
        {"\xE4\xBD", "\xEF\xBF\xBD"},     /* never completed */
        {"\xF0\x9F\x8C", "\xEF\xBF\xBD"}, /* one replacement for the whole beginning */
        {"\xF0\x9F\x8Cq", "\xEF\xBF\xBDq"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
        {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* overlong */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
        {"\xF5\x80\xFF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* beyond U+10FFFF */
        {"\xE4\xE4\xBD\xA0", "\xEF\xBF\xBD\xE4\xBD\xA0"},
    };
    StopSet none = {0};
    for (size_t i = 0; i < COUNTOF(cases); i++)
        for (size_t step = 1; step <= 5; step++) {
            char *text = run(cases[i].bytes, strlen(cases[i].bytes), step, &none, NULL);
            CHECK_MSG(!strcmp(text, cases[i].text), "case %zu, step %zu: \"%s\"", i, step, text);
            free(text);
        }
}

TEST(text_stream_stop_strings) {
    static const struct {
        const char *text, *want;
        const char *const stops[5];
        bool stopped;
    } cases[] = {
        {"one two three", "one ", {"two"}, true},
        {"one two three", "one two three", {"four"}, false},
        {"one two", "one two", {"two!"}, false}, /* held back, then let go */
        {"aaab", "a", {"aab"}, true},            /* falls back inside the pattern */
        {"abcabcabd", "abc", {"abcabd"}, true},
        {"xyz", "", {"x"}, true},
        {"say END now", "say ", {"END now", "END"}, true}, /* the one that is complete first */
        {"say END", "sa", {"END", "y END"}, true},         /* both end here: the longest */
        {"a\n\nb", "a", {"\n\n", "zzz"}, true},
        {"caf\xC3\xA9!", "caf", {"\xC3\xA9"}, true},
        {"caf\xC3", "caf\xEF\xBF\xBD", {"\xC3\xA9"}, false},
        {"\x80"
         "b",
         "",
         {"\xEF\xBF\xBD"},
         true}, /* a replacement is text like any other */
    };
    for (size_t i = 0; i < COUNTOF(cases); i++)
        for (size_t step = 1; step <= 7; step++) {
            StopSet stops = stop_set(cases[i].stops);
            bool stopped;
            char *text = run(cases[i].text, strlen(cases[i].text), step, &stops, &stopped);
            CHECK_MSG(!strcmp(text, cases[i].want) && stopped == cases[i].stopped, "case %zu, step %zu: \"%s\"", i,
                      step, text);
            free(text);
            stop_set_free(&stops);
        }
}

/* Against the definition: at every byte, does the text so far end with a stop string? */
TEST(text_stream_stops_as_defined) {
    Draws d = draws_open(7, DRAW_TEST, 0);
    for (int round = 0; round < 2000; round++) {
        char text[40], stops_text[3][6];
        size_t n = 1 + draw_below(&d, 38);
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + draw_below(&d, 2));
        text[n] = 0;
        StopSet stops = {0};
        for (int s = 0; s < 3; s++) {
            size_t m = 2 + draw_below(&d, 4);
            for (size_t i = 0; i < m; i++) stops_text[s][i] = (char)('a' + draw_below(&d, 2));
            stops_text[s][m] = 0;
            stop_set_add(&stops, stops_text[s]);
        }
        size_t cut = n;
        for (size_t end = 1; end <= n && cut == n; end++)
            for (int s = 0; s < 3; s++) {
                size_t m = strlen(stops_text[s]);
                if (m <= end && !memcmp(text + end - m, stops_text[s], m)) cut = MIN(cut, end - m);
            }
        char *got = run(text, n, 1 + draw_below(&d, 4), &stops, NULL);
        CHECK_MSG(strlen(got) == cut && !memcmp(got, text, cut), "\"%s\" gives \"%s\", not %zu bytes", text, got, cut);
        free(got);
        stop_set_free(&stops);
    }
}

/* The same where some places may not be an end: the longest that may be one counts, and text goes on behind the others,
 * with zeros in it, which are no letter of a stop string. */
TEST(text_stream_stops_where_it_may) {
    static const char letters[] = {'a', 'b', 0};
    Draws d = draws_open(7, DRAW_TEST, 2);
    int passed_over = 0;
    for (int round = 0; round < 5000; round++) {
        char text[40];
        Buffer ends = {0};
        StopSet stops = {0};
        TextStream t;
        size_t n = 1 + draw_below(&d, 38), cut = n;
        for (size_t i = 0; i < n; i++) text[i] = letters[draw_below(&d, 3)];
        for (size_t i = 0; i <= n; i++) buffer_append(&ends, &(char){draw_below(&d, 4) == 0}, 1);
        for (int s = 0; s < 3; s++) {
            char stop[6] = {0};
            for (size_t i = 0, m = 1 + draw_below(&d, 4); i < m; i++) stop[i] = letters[draw_below(&d, 2)];
            stop_set_add(&stops, stop);
        }
        for (size_t end = 1; end <= n && cut == n; end++)
            for (int s = 0; s < 3; s++) {
                size_t m = (size_t)stops.items[s].n;
                bool here = m <= end && !memcmp(text + end - m, stops.items[s].text, m);
                passed_over += here && !ends.data[end - m];
                if (here && ends.data[end - m]) cut = MIN(cut, end - m);
            }
        text_stream_open(&t, &stops);
        t.ends = &ends;
        text_stream_push(&t, text, n, true);
        text_stream_end(&t);
        CHECK_MSG(t.text.n == cut && !memcmp(t.text.data ? t.text.data : "", text, cut), "round %d: %zu, not %zu bytes",
                  round, t.text.n, cut);
        text_stream_free(&t);
        stop_set_free(&stops);
        buffer_free(&ends);
    }
    CHECK(passed_over > 5000);
}

TEST(buffer_floats_read_back) {
    Draws d = draws_open(3, DRAW_TEST, 1);
    static const float some[] = {0, -0.5f, 1, 100, 1e-10f, 3.4028235e38f, -2.3025851f, 1e20f, 0.1f, 16777216};
    for (int i = 0; i < 20000; i++) {
        union {
            uint32_t u;
            float f;
        } v = {.u = draw_u32(&d)};
        if (i < (int)COUNTOF(some)) v.f = some[i];
        if (!(v.f - v.f == 0)) continue;
        Buffer b = {0};
        json_put_float(&b, NULL, v.f);
        buffer_append(&b, "", 1);
        CHECK_MSG(strtof(b.data, NULL) == v.f, "%a is written %s", (double)v.f, b.data);
        const char *shorter = test_text("%.5g", (double)v.f);
        if (strtof(shorter, NULL) == v.f)
            CHECK_MSG(strlen(b.data) <= strlen(shorter) + 2, "%s for %s", b.data, shorter);
        buffer_free(&b);
    }
}
