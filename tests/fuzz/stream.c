/* Text streams beside the definition: all bytes become text at once, and the stop string that ends first, of several
 * the longest, is looked for at every place. An input is stop strings, each behind its length, a zero, how far nothing
 * is looked for, and the bytes. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/text_stream.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STOPS = 4, LONGEST = 24 };

typedef struct Want {
    Buffer text;
    bool stopped;
} Want;

/* Length of the longest stop that text[from..n) ends with. */
static size_t stop_at_end(const StopSet *stops, const char *text, size_t from, size_t n) {
    size_t longest = 0;
    for (int i = 0; i < stops->n; i++) {
        size_t length = (size_t)stops->items[i].n;
        if (length <= n - from && !memcmp(text + n - length, stops->items[i].text, length))
            longest = MAX(longest, length);
    }
    return longest;
}

/* data[0..blind) is text, and not looked at. */
static Want define(const StopSet *stops, const char *data, size_t n, size_t blind) {
    Want w = {0};
    size_t at = 0, length, from = 0;
    while (at < n && !w.stopped) {
        Utf8 kind = utf8_next(data + at, n - at, &length);
        bool whole = kind != UTF8_PARTIAL;
        if (!whole) length = n - at;
        if (kind == UTF8_VALID)
            buffer_append(&w.text, data + at, length);
        else
            buffer_text(&w.text, UTF8_REPLACEMENT);
        at += length;
        if (at <= blind) from = w.text.n;
        size_t cut = whole && at > blind ? stop_at_end(stops, w.text.data, from, w.text.n) : 0;
        w.stopped = cut > 0;
        w.text.n -= cut;
    }
    return w;
}

/* Nothing that has settled changes, and nothing settles that may yet be the beginning of a stop. */
static void check_streamed(const StopSet *stops, const char *data, size_t n, size_t blind, size_t step,
                           const Want *want) {
    TextStream t;
    CHECK(text_stream_open(&t, stops) == 0);
    for (size_t i = 0; i < n;) {
        size_t end = i < blind ? blind : n, length = MIN(step, end - i);
        text_stream_push(&t, data + i, length, i >= blind);
        i += length;
        bool within = t.settled <= t.text.n && t.settled <= want->text.n;
        CHECK(within && (t.settled == 0 || !memcmp(t.text.data, want->text.data, t.settled)));
        CHECK(t.settled_chars == utf8_count(t.text.data, t.settled));
    }
    text_stream_end(&t);
    CHECK_MSG(t.text.n == want->text.n && (!t.text.n || !memcmp(t.text.data, want->text.data, t.text.n)),
              "steps of %zu: \"%.*s\", want \"%.*s\"", step, (int)t.text.n, t.text.data, (int)want->text.n,
              want->text.data);
    CHECK(!t.stopped == !want->stopped && t.settled == t.text.n && t.chars == utf8_count(t.text.data, t.text.n));
    text_stream_free(&t);
}

/* Bytes up to the end of a valid character: of one that is not, the next byte tells, which is looked at. */
static size_t whole_characters(const char *data, size_t n, size_t most) {
    size_t end = 0, length;
    for (size_t at = 0; at < n; at += length) {
        Utf8 kind = utf8_next(data + at, n - at, &length);
        if (kind == UTF8_PARTIAL || at + length > most) break;
        if (kind == UTF8_VALID) end = at + length;
    }
    return end;
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    StopSet stops = {0};
    for (int length; stops.n < MOST_STOPS && (length = fuzz_below(&in, LONGEST)) > 0;) {
        size_t here = MIN((size_t)length, in.left);
        char *stop = strndup((const char *)in.at, here);
        in.at += here;
        in.left -= here;
        if (*stop && utf8_is_valid(stop, strlen(stop))) CHECK(stop_set_add(&stops, stop) == 0);
        free(stop);
    }
    size_t most = (size_t)fuzz_byte(&in), n_bytes;
    char *bytes = fuzz_rest(&in, &n_bytes);
    size_t blind = whole_characters(bytes, n_bytes, most % 4 ? 0 : most / 4);
    Want want = define(&stops, bytes, n_bytes, blind);
    check_streamed(&stops, bytes, n_bytes, blind, 1, &want);
    check_streamed(&stops, bytes, n_bytes, blind, 1 + most % 7, &want);
    check_streamed(&stops, bytes, n_bytes, blind, n_bytes + 1, &want);
    buffer_free(&want.text);
    free(bytes);
    stop_set_free(&stops);
}

TEST(fuzz_stream) { fuzz_run("stream", look); }
