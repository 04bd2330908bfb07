#include "server/api/completions/calls.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void calls_open(Calls *c, const CallStyle *style, const char *prefix) {
    *c = (Calls){.style = style, .read = prefix ? strlen(prefix) : 0};
    if (prefix) buffer_text(&c->content, prefix);
    c->failed = c->content.failed;
}

void calls_free(Calls *c) {
    for (int i = 0; i < c->n; i++) {
        buffer_free(&c->items[i].name);
        buffer_free(&c->items[i].arguments);
    }
    free(c->items);
    buffer_free(&c->name);
    buffer_free(&c->content);
    *c = (Calls){0};
}

static void put(Calls *c, Buffer *b, const char *bytes, size_t n) {
    buffer_append(b, bytes, n);
    c->failed |= b->failed;
}

static void go(Calls *c, CallsAt at) {
    c->at = at;
    c->matched = 0;
}

/* One byte more of a literal, behind which it goes on at `next`. */
static void match(Calls *c, const char *literal, char byte, CallsAt next) {
    if (literal[c->matched] != byte) {
        go(c, CALLS_OVER);
        put(c, &c->content, &byte, 1);
    } else if (!literal[++c->matched]) {
        go(c, next);
    }
}

static CallsAt behind_mark(const Calls *c) { return *c->style->open ? CALLS_OPEN : CALLS_NAME; }

static void read_text(Calls *c, char byte) {
    const char *mark = c->style->mark;
    if (byte == mark[c->matched]) {
        if (c->matched == 0) c->begun = c->read;
        if (!mark[++c->matched]) go(c, behind_mark(c));
        return;
    }
    put(c, &c->content, mark, c->matched);
    c->matched = 0;
    if (c->style->alone) c->at = CALLS_OVER;
    if (c->style->alone || byte != mark[0])
        put(c, &c->content, &byte, 1);
    else
        read_text(c, byte);
}

/* The quote behind a name is the first byte of the middle. */
static void end_name(Calls *c, char byte) {
    Call *items = try_realloc(c->items, ((size_t)c->n + 1) * sizeof *items);
    if (!items) {
        c->failed = true;
        return;
    }
    c->items = items;
    if (c->n == 0) c->content_in_front = c->content.n;
    items[c->n++] = (Call){.name = c->name};
    c->name = (Buffer){0};
    go(c, CALLS_MIDDLE);
    match(c, c->style->middle, byte, CALLS_ARGUMENTS);
}

static void read_arguments(Calls *c, char byte) {
    put(c, &c->items[c->n - 1].arguments, &byte, 1);
    bool escaped = c->escaped;
    c->escaped = c->in_string && !escaped && byte == '\\';
    if (byte == '"' && !escaped) c->in_string = !c->in_string;
    if (c->in_string) return;
    c->depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
    if (c->depth != 0) return;
    c->items[c->n - 1].whole = true;
    go(c, CALLS_CLOSE);
}

static void read_byte(Calls *c, char byte) {
    const CallStyle *s = c->style;
    switch (c->at) {
    case CALLS_TEXT:
        return read_text(c, byte);
    case CALLS_OPEN:
        return match(c, s->open, byte, CALLS_NAME);
    case CALLS_NAME:
        return byte == s->middle[0] ? end_name(c, byte) : put(c, &c->name, &byte, 1);
    case CALLS_MIDDLE:
        return match(c, s->middle, byte, CALLS_ARGUMENTS);
    case CALLS_ARGUMENTS:
        return read_arguments(c, byte);
    case CALLS_CLOSE:
        return match(c, s->close, byte, s->between ? CALLS_BETWEEN : CALLS_OVER);
    case CALLS_BETWEEN:
        return match(c, s->between, byte, CALLS_MARK);
    case CALLS_MARK:
        return match(c, s->mark, byte, behind_mark(c));
    case CALLS_OVER:
        return put(c, &c->content, &byte, 1);
    }
}

void calls_read(Calls *c, const char *text, size_t n, bool ended) {
    for (; c->read < n && !c->failed; c->read++) read_byte(c, text[c->read]);
    if (!ended) return;
    bool nameless = c->at == CALLS_OPEN || c->at == CALLS_NAME;
    if (c->at == CALLS_TEXT) put(c, &c->content, c->style->mark, c->matched);
    if (nameless && c->n == 0) put(c, &c->content, text + c->begun, n - c->begun);
    c->at = CALLS_OVER;
}

bool calls_have_news(const Calls *c) {
    bool news = c->content.n > c->content_sent;
    for (int i = 0; i < c->n; i++) news = news || call_has_news(&c->items[i]);
    return news;
}

void calls_mark_sent(Calls *c) {
    c->content_sent = c->content.n;
    for (int i = 0; i < c->n; i++) {
        c->items[i].told = true;
        c->items[i].ended = c->items[i].whole;
        c->items[i].sent = c->items[i].arguments.n;
    }
}
