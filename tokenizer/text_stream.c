#include "tokenizer/text_stream.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* A whole match that did not stop the text goes on as its longest border: a NUL is no letter of the stop string. */
static int advance(const StopString *s, int matched, char byte) {
    if (matched == s->n) matched = s->fallback[matched];
    while (matched > 0 && s->text[matched] != byte) matched = s->fallback[matched];
    return matched + (s->text[matched] == byte);
}

int stop_set_add(StopSet *set, const char *text) {
    StopString *items = try_realloc(set->items, (size_t)(set->n + 1) * sizeof *items);
    if (!items) return -1;
    set->items = items;
    StopString *s = &items[set->n++];
    *s = (StopString){.text = try_strdup(text), .n = (int)strlen(text)};
    s->fallback = try_calloc((size_t)s->n + 1, sizeof *s->fallback);
    if (!s->text || !s->fallback) return -1;
    for (int i = 1; i < s->n; i++) s->fallback[i + 1] = advance(s, s->fallback[i], text[i]);
    return 0;
}

void stop_set_free(StopSet *set) {
    for (int i = 0; i < set->n; i++) {
        free(set->items[i].text);
        free(set->items[i].fallback);
    }
    free(set->items);
    *set = (StopSet){0};
}

int text_stream_open(TextStream *t, const StopSet *stops) {
    *t = (TextStream){.stops = stops, .matched = try_calloc((size_t)stops->n, sizeof(int))};
    return t->matched ? 0 : -1;
}

void text_stream_free(TextStream *t) {
    buffer_free(&t->text);
    free(t->matched);
    *t = (TextStream){0};
}

/* Where the text would end. */
static size_t end_at(const TextStream *t, const StopString *stop) {
    return t->text.n - (t->keep_stop ? 0 : (size_t)stop->n);
}

static bool may_stop(const TextStream *t, const StopString *stop) {
    size_t end = end_at(t, stop);
    return !t->ends || (end < t->ends->n && t->ends->data[end]);
}

/* The longest stop string that the text ends with and may; NULL for none. */
static const StopString *feed_stops(TextStream *t, const char *bytes, size_t n) {
    const StopString *longest = NULL;
    for (int s = 0; s < t->stops->n; s++) {
        const StopString *stop = &t->stops->items[s];
        for (size_t i = 0; i < n; i++) t->matched[s] = advance(stop, t->matched[s], bytes[i]);
        bool longer = t->matched[s] == stop->n && (!longest || stop->n > longest->n);
        if (longer && may_stop(t, stop)) longest = stop;
    }
    return longest;
}

static void append_character(TextStream *t, const char *bytes, size_t n, bool match) {
    buffer_append(&t->text, bytes, n);
    if (t->text.failed) return;
    t->chars++;
    if (!match) return;
    const StopString *stop = feed_stops(t, bytes, n);
    if (!stop) return;
    size_t end = end_at(t, stop);
    t->stopped = stop;
    t->chars -= utf8_count(t->text.data + end, t->text.n - end);
    t->text.n = end;
}

static void settle(TextStream *t, size_t settled) {
    if (settled == t->settled) return; /* perhaps there is no text at all, and no pointer to count from */
    t->settled_chars += utf8_count(t->text.data + t->settled, settled - t->settled);
    t->settled = settled;
}

static size_t held_back(const TextStream *t) {
    int held = 0;
    if (t->keep_stop) return 0;
    for (int s = 0; s < t->stops->n; s++) held = MAX(held, t->matched[s]);
    return (size_t)held;
}

void text_stream_push(TextStream *t, const char *bytes, size_t n, bool match) {
    for (size_t i = 0; i < n && !t->stopped; i++) {
        t->partial[t->n_partial++] = bytes[i];
        size_t length;
        while (t->n_partial > 0 && !t->stopped) {
            Utf8 kind = utf8_next(t->partial, t->n_partial, &length);
            if (kind == UTF8_PARTIAL) break;
            bool valid = kind == UTF8_VALID;
            append_character(t, valid ? t->partial : UTF8_REPLACEMENT, valid ? length : 3, match);
            t->n_partial -= length;
            memmove(t->partial, t->partial + length, t->n_partial);
        }
    }
    settle(t, t->stopped ? t->text.n : t->text.n - held_back(t));
}

void text_stream_end(TextStream *t) {
    if (t->n_partial && !t->stopped) append_character(t, UTF8_REPLACEMENT, 3, false);
    t->n_partial = 0;
    settle(t, t->text.n);
}
