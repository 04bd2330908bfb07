#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/cut.h"
#include "tokenizer/impl.h"
#include "tokenizer/merge.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_level.h"

#include <stdlib.h>
#include <string.h>

/* Positions in a word are ints, and a spelling is up to three times as long as the text. */
enum { MAX_TEXT = 1 << 29 };

typedef struct Encoder {
    const Tokenizer *t;
    bool special, rest;       /* rest: what lies behind a cut (cut.h) */
    const char *text, *marks; /* as it came, and what of it is quoted; marks may be NULL */
    const bool *roles;        /* [vocabulary] tokens that stand for control too; NULL: none */
    bool no_roles;            /* they are text now */
    WordScan *scan;
    MergeScratch scratch;
    TokenList *out;
    Err *err;
} Encoder;

static int fail_memory(Err *err) { return err_set(err, "no memory to encode the text"); }

/* ---- a word ---- */

static size_t byte_symbols(const Tokenizer *t, TokenText word, Symbol *symbols) {
    for (size_t i = 0; i < word.n; i++) symbols[i].id = t->spec.byte_ids[(unsigned char)word.data[i]];
    return word.n;
}

static size_t char_symbols(const Tokenizer *t, TokenText word, Symbol *symbols) {
    size_t n = 0;
    for (size_t i = 0, length; i < word.n; i += length) {
        length = utf8_char_length(word.data + i, word.n - i);
        int id = length ? text_map_find(&t->ids, word.data + i, length) : -1;
        length = MAX(length, 1);
        if (id >= 0)
            symbols[n++].id = id;
        else
            n += byte_symbols(t, (TokenText){.data = word.data + i, .n = length}, symbols + n);
    }
    return n;
}

static void encode_word(Encoder *e, TokenText word) {
    const Tokenizer *t = e->t;
    int whole = t->spec.ignore_merges ? text_map_find(&t->ids, word.data, word.n) : -1;
    if (whole >= 0) {
        token_list_push(e->out, whole);
        return;
    }
    if (!merge_scratch_reserve(&e->scratch, word.n)) {
        e->out->failed = true;
        return;
    }
    Symbol *symbols = e->scratch.symbols;
    size_t n = t->spec.style == TOKEN_BYTE_LEVEL ? byte_symbols(t, word, symbols) : char_symbols(t, word, symbols);
    n = merge_symbols(t, &e->scratch, n);
    for (size_t i = 0; i < n; i++) token_list_push(e->out, symbols[i].id);
}

/* ---- a text into words ---- */

static void encode_marked_words(Encoder *e, TokenText text) {
    size_t start = 0;
    bool after_mark = false;
    for (size_t i = 0; i < text.n;) {
        bool mark = space_mark_at(text, i);
        bool cut = mark && (e->t->spec.split || (e->t->mark_starts_word && !after_mark));
        if (cut && i > start) {
            encode_word(e, (TokenText){.data = text.data + start, .n = i - start});
            start = i;
        }
        after_mark = mark;
        i += mark ? 3 : 1;
    }
    encode_word(e, (TokenText){.data = text.data + start, .n = text.n - start});
}

static int encode_regex_words(Encoder *e, TokenText text) {
    TokenText word;
    int rc;
    word_scan_start(e->scan, text.data, text.n);
    while ((rc = word_scan_next(e->scan, &word.data, &word.n, e->err)) > 0) encode_word(e, word);
    return rc;
}

static int encode_words(Encoder *e, TokenText text) {
    if (e->scan) return encode_regex_words(e, text);
    if (e->t->spec.style == TOKEN_BYTE_LEVEL)
        encode_word(e, text);
    else
        encode_marked_words(e, text);
    return 0;
}

/* ---- pieces between added tokens ---- */

static TokenText with_space(TokenText text) {
    char *copy = try_malloc(text.n + 1);
    if (!copy) return (TokenText){0};
    copy[0] = ' ';
    memcpy(copy + 1, text.data, text.n);
    return (TokenText){.data = copy, .n = text.n + 1};
}

/* Step 3 of build.h. */
static int encode_piece(Encoder *e, TokenText text, bool first) {
    const TokenizerSpec *s = &e->t->spec;
    bool prepend = s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first);
    prepend = prepend && text.data[0] != ' ';
    bool byte_level = s->style == TOKEN_BYTE_LEVEL;
    if (byte_level ? !prepend : s->prepend == PREPEND_NORMALIZER) return encode_words(e, text);
    prepend = prepend && (byte_level || !space_mark_at(text, 0));
    TokenText spelt = byte_level ? with_space(text) : sentence_spelling(text, prepend);
    if (!spelt.data) return fail_memory(e->err);
    int rc = encode_words(e, spelt);
    free((char *)spelt.data);
    return rc;
}

typedef int (*PieceFn)(Encoder *e, TokenText piece, bool first);

/* Of bytes that lie in the text as it came: whether any of them is. */
static bool is_quoted(const Encoder *e, const char *bytes, size_t n) {
    size_t at = (size_t)(bytes - e->text), end = at + n;
    while (e->marks && at < end && !e->marks[at]) at++;
    return e->marks && at < end;
}

static bool is_role(const Encoder *e, int id) { return e->roles && e->roles[id]; }

static bool is_control(const Encoder *e, int id) { return e->t->special[id] || is_role(e, id); }

/* The next added token from text[at] on; where one of control is only quoted, the longest other one there. */
static bool next_added(const Encoder *e, const AddedTrie *added, TokenText text, size_t at, AddedMatch *match) {
    while (added_trie_find(added, text.data, text.n, at, e->special, match)) {
        AddedMatch other;
        at = match->start;
        bool quoted = is_control(e, match->id) && is_quoted(e, text.data + at, match->end - at);
        if (!quoted && !(e->no_roles && is_role(e, match->id))) return true;
        if (added_trie_find(added, text.data, match->end, at, false, &other) && other.start == at &&
            !is_role(e, other.id)) {
            *match = other;
            return true;
        }
        at++;
    }
    return false;
}

static int encode_around(Encoder *e, const AddedTrie *added, TokenText text, bool first, PieceFn encode) {
    AddedMatch match;
    size_t at = 0;
    while (at < text.n) {
        bool found = next_added(e, added, text, at, &match);
        size_t end = found ? match.start : text.n;
        if (end > at && encode(e, (TokenText){.data = text.data + at, .n = end - at}, first && at == 0)) return -1;
        if (found) token_list_push(e->out, match.id);
        at = found ? match.end : end;
    }
    return 0;
}

/* Whether a text spells a token of control that is quoted in part at least. */
static bool quotes_control(const Encoder *e, TokenText text) {
    AddedMatch match;
    for (size_t at = 0; e->marks && added_trie_find(&e->t->normalized, text.data, text.n, at, true, &match);
         at = match.start + 1)
        if (is_control(e, match.id) && is_quoted(e, text.data + match.start, match.end - match.start)) return true;
    return false;
}

/* Step 2. What is spelt anew has its places elsewhere, so none of it is control where anything of control is quoted. */
static int encode_raw_piece(Encoder *e, TokenText text, bool first) {
    bool compose = e->t->spec.nfc && !is_ascii(text), special = e->special;
    const char *marks = e->marks;
    if (!compose && e->t->spec.prepend != PREPEND_NORMALIZER)
        return encode_around(e, &e->t->normalized, text, first, encode_piece);
    TokenText spelt = compose ? nfc_spelling(text) : sentence_spelling(text, !(e->rest && first));
    if (!spelt.data) return fail_memory(e->err);
    e->no_roles = quotes_control(e, text);
    e->special = special && !e->no_roles;
    e->marks = NULL;
    int rc = encode_around(e, &e->t->normalized, spelt, first, encode_piece);
    e->special = special;
    e->no_roles = false;
    e->marks = marks;
    free((char *)spelt.data);
    return rc;
}

static int encode_text(Encoder *e, size_t n) {
    const Tokenizer *t = e->t;
    if (n == 0) return e->out->failed ? fail_memory(e->err) : 0;
    if (t->spec.style == TOKEN_IDS_ONLY) return err_set(e->err, "the model has no tokenizer: give token ids");
    if (n >= MAX_TEXT)
        return err_set(e->err, "a text of %zu bytes is too long to encode, the limit is %d", n, MAX_TEXT);
    if (t->spec.style == TOKEN_WORDS) return word_level_encode(t, e->text, n, e->out) ? fail_memory(e->err) : 0;
    if (t->pretokenizer) {
        e->scan = word_scan_open(t->pretokenizer);
        if (!e->scan) return fail_memory(e->err);
    }
    int rc = encode_around(e, &t->raw, (TokenText){.data = e->text, .n = n}, true, encode_raw_piece);
    if (e->scan) word_scan_close(e->scan);
    merge_scratch_free(&e->scratch);
    return rc == 0 && e->out->failed ? fail_memory(e->err) : rc;
}

int tokenizer_encode_marked(const Tokenizer *t, const char *text, const char *marks, const bool *roles, size_t n,
                            bool special, TokenList *out, Err *err) {
    Encoder e = {.t = t, .special = special, .text = text, .marks = marks, .roles = roles, .out = out, .err = err};
    return encode_text(&e, n);
}

int tokenizer_encode(const Tokenizer *t, const char *text, size_t n, bool special, TokenList *out, Err *err) {
    return tokenizer_encode_marked(t, text, NULL, NULL, n, special, out, err);
}

int tokenizer_encode_rest(const Tokenizer *t, const char *text, size_t n, bool special, TokenList *out, Err *err) {
    Encoder e = {.t = t, .special = special, .rest = true, .text = text, .out = out, .err = err};
    return encode_text(&e, n);
}
