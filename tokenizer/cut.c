#include "tokenizer/cut.h"

#include "tokenizer/impl.h"

#include <string.h>

/* White space begins with these, and much that is none: a few cuts less. */
static bool may_begin_space(unsigned char c) { return c <= ' ' || c == 0xC2 || (c >= 0xE1 && c <= 0xE3); }

/* Whether the character that ends at text[at] is no white space. Of those that begin with E3, U+3000 alone is some. */
static bool is_dark(const char *text, size_t at) {
    size_t first = at;
    while (first && ((unsigned char)text[first] & 0xC0) == 0x80) first--;
    if (first == at) return (unsigned char)text[at] > ' ' && (unsigned char)text[at] < 0x80;
    if ((unsigned char)text[first] == 0xE3) return at - first == 2 && memcmp(text + first, "\xE3\x80\x80", 3) != 0;
    return !may_begin_space((unsigned char)text[first]);
}

static bool cuts_lines(const TokenizerSpec *s) { return s->style == TOKEN_BYTE_LEVEL && s->prepend == PREPEND_NEVER; }

/* A slash behind a line feed may belong to the word before (GPT-4o's). */
static bool is_cut(const char *text, size_t at, bool lines) {
    unsigned char next = (unsigned char)text[at];
    if (next == ' ') return is_dark(text, at - 1);
    if (!lines || at < 2 || text[at - 1] != '\n' || next == '/') return false;
    return is_dark(text, at - 2) && !may_begin_space(next);
}

/* What stands in front of a piece is not known, so that any line feed counts. */
static bool joins_cut(TokenText piece, bool lines) {
    for (size_t at = 1; at < piece.n; at++) {
        unsigned char next = (unsigned char)piece.data[at];
        bool line = lines && piece.data[at - 1] == '\n' && next != '/' && !may_begin_space(next);
        if (line || is_cut(piece.data, at, false)) return true;
    }
    return false;
}

bool pieces_join_cuts(const Tokenizer *t) {
    const TokenizerSpec *s = &t->spec;
    bool lines = cuts_lines(s), joined = false;
    if (s->style != TOKEN_BYTE_LEVEL) return false;
    for (int i = 0; i < s->n_merges && !joined; i++) joined = joins_cut(s->pieces[s->merges[i].result], lines);
    for (int id = 0; id < s->n_pieces && s->ignore_merges && !joined; id++)
        joined = !t->special[id] && joins_cut(s->pieces[id], lines);
    return joined;
}

static bool has_words(const Tokenizer *t) {
    const TokenizerSpec *s = &t->spec;
    if (s->style == TOKEN_BYTE_LEVEL) return t->pretokenizer && !t->joins_cuts;
    if (s->style == TOKEN_SENTENCE_PIECE) return s->split || t->mark_starts_word;
    return s->style == TOKEN_WORDS;
}

/* What is looked for in a spelt text finds its marks in spaces. */
static bool added_hold_cuts(const TokenizerSpec *s) {
    for (int i = 0; i < s->n_added; i++) {
        TokenText added = s->added[i].text;
        bool spelt = s->prepend == PREPEND_NORMALIZER && s->added[i].normalized;
        for (size_t at = 1; at < added.n; at++)
            if (is_cut(added.data, at, true) || (spelt && space_mark_at(added, at))) return true;
    }
    return false;
}

/* Whether there may be the beginning of a piece that gets a space in front whatever it begins with. */
static bool may_end_added(const TokenizerSpec *s, char last) {
    if (s->prepend != PREPEND_NORMALIZER) return false;
    for (int i = 0; i < s->n_added; i++)
        if (!s->added[i].normalized && s->added[i].text.data[s->added[i].text.n - 1] == last) return true;
    return false;
}

size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t from, size_t n) {
    const TokenizerSpec *s = &t->spec;
    bool lines = cuts_lines(s);
    if (!has_words(t) || added_hold_cuts(s)) return n;
    for (size_t at = MAX(from, 1); at < n; at++)
        if (is_cut(text, at, lines) && !may_end_added(s, text[at - 1])) return at;
    return n;
}
