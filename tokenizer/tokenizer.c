#include "tokenizer/tokenizer.h"

#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/impl.h"

#include <stdlib.h>
#include <string.h>

void token_list_push(TokenList *list, int id) {
    if (list->failed) return;
    if (list->n == list->capacity) {
        size_t capacity = MAX(64, 2 * list->capacity);
        int *ids = try_realloc(list->ids, capacity * sizeof *ids);
        list->failed = !ids;
        if (!ids) return;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
}

void token_list_free(TokenList *list) {
    free(list->ids);
    *list = (TokenList){0};
}

/* ---- building ---- */

static TokenText text_copy(char **at, TokenText text) {
    TokenText copy = {.data = *at, .n = text.n};
    if (text.n) memcpy(*at, text.data, text.n);
    *at += text.n;
    return copy;
}

/* SPACE_MARK -> space */
static TokenText text_unmark(char **at, TokenText text) {
    char *start = *at;
    for (size_t i = 0; i < text.n;)
        if (space_mark_at(text, i)) {
            *(*at)++ = ' ';
            i += 3;
        } else {
            *(*at)++ = text.data[i++];
        }
    return (TokenText){.data = start, .n = (size_t)(*at - start)};
}

static size_t bytes_needed(const TokenizerSpec *s) {
    size_t n = 256;
    for (int i = 0; i < s->n_pieces; i++) n += 2 * s->pieces[i].n;
    for (int i = 0; i < s->n_added; i++) n += 1 + s->added[i].text.n;
    for (int i = 0; i < s->n_words; i++) n += strlen(s->words[i]) + 1;
    return n;
}

static void copy_texts(Tokenizer *t, const TokenizerSpec *s) {
    TokenText *pieces = xmalloc((size_t)s->n_pieces * sizeof *pieces);
    AddedToken *added = xmalloc((size_t)s->n_added * sizeof *added);
    t->texts = xcalloc((size_t)s->n_pieces, sizeof *t->texts);
    t->special = xcalloc((size_t)s->n_pieces, sizeof *t->special);
    t->bytes = xmalloc(bytes_needed(s));
    char *at = t->bytes;
    for (int i = 0; i < s->n_pieces; i++) {
        pieces[i] = text_copy(&at, s->pieces[i]);
        t->texts[i] = s->style != TOKEN_SENTENCE_PIECE ? pieces[i] : text_unmark(&at, pieces[i]);
    }
    for (int byte = 0; byte < 256 && s->style != TOKEN_WORDS; byte++) {
        *at = (char)byte;
        t->texts[s->byte_ids[byte]] = (TokenText){.data = at++, .n = 1};
    }
    for (int i = 0; i < s->n_added; i++) {
        /* Such a token is found together with the space in front of it. */
        bool spaced = s->added[i].normalized && s->prepend == PREPEND_NORMALIZER;
        if (spaced) *at++ = ' ';
        added[i] = s->added[i];
        added[i].text = text_copy(&at, s->added[i].text);
        t->texts[added[i].id] = (TokenText){.data = added[i].text.data - spaced, .n = added[i].text.n + spaced};
        t->special[added[i].id] = added[i].special;
    }
    for (int i = 0; i < s->n_words; i++)
        t->spec.words[i] = text_copy(&at, (TokenText){.data = s->words[i], .n = strlen(s->words[i]) + 1}).data;
    t->spec.pieces = pieces;
    t->spec.added = added;
}

static void index_pieces(Tokenizer *t) {
    for (int id = 0; id < t->spec.n_pieces; id++) {
        const TokenText *p = &t->spec.pieces[id];
        if (p->n == 0 || (t->spec.ignore_merges && t->special[id])) continue; /* special ones are no words */
        int *value = text_map_at(&t->ids, p->data, p->n);
        BUG_ON(*value >= 0);
        *value = id;
    }
}

static void index_merges(Tokenizer *t, const TokenMerge *from) {
    int n = t->spec.n_merges;
    TokenMerge *merges = xmalloc((size_t)n * sizeof *merges);
    for (int rank = 0; rank < n; rank++) {
        merges[rank] = from[rank];
        BUG_ON(MAX(from[rank].left, MAX(from[rank].right, from[rank].result)) >= t->spec.n_pieces);
        int *value = pair_map_at(&t->ranks, from[rank].left, from[rank].right);
        BUG_ON(*value >= 0);
        *value = rank;
    }
    t->spec.merges = merges;
}

static void index_added(Tokenizer *t) {
    for (int i = 0; i < t->spec.n_added; i++) {
        const AddedToken *a = &t->spec.added[i];
        bool spelt = a->normalized && (t->spec.nfc || t->spec.prepend == PREPEND_NORMALIZER);
        if (!spelt) {
            added_trie_insert(a->normalized ? &t->normalized : &t->raw, a->text.data, a->text.n, a->id, a->special);
            continue;
        }
        TokenText marked = t->spec.nfc ? nfc_spelling(a->text) : sentence_spelling(a->text, true);
        BUG_ON(!marked.data);
        added_trie_insert(&t->normalized, marked.data, marked.n, a->id, a->special);
        free((char *)marked.data);
    }
}

static bool mark_inside(TokenText piece) {
    bool other = false;
    for (size_t i = 0; i < piece.n;) {
        bool mark = space_mark_at(piece, i);
        if (mark && other) return true;
        other |= !mark;
        i += mark ? 3 : 1;
    }
    return false;
}

/* Then "a word starts at every mark that follows something else" cuts where no merge could have joined, and a whole
 * text need not be one word. */
static bool mark_starts_word(const TokenizerSpec *s, const TextMap *ids) {
    if (s->style != TOKEN_SENTENCE_PIECE || s->ignore_merges || text_map_find(ids, SPACE_MARK, 3) < 0) return false;
    for (int i = 0; i < s->n_merges; i++)
        if (mark_inside(s->pieces[s->merges[i].result])) return false;
    return true;
}

Tokenizer *tokenizer_build(const TokenizerSpec *spec, Err *err) {
    Pretokenizer *words = spec->n_words ? pretokenizer_new(spec->words, spec->n_words, err) : NULL;
    if (spec->n_words && !words) return NULL;
    Tokenizer *t = xcalloc(1, sizeof *t);
    t->pretokenizer = words;
    t->spec = *spec;
    copy_texts(t, spec);
    index_pieces(t);
    index_merges(t, spec->merges);
    index_added(t);
    t->mark_starts_word = mark_starts_word(&t->spec, &t->ids);
    t->joins_cuts = pieces_join_cuts(t);
    return t;
}

Tokenizer *tokenizer_ids_only(void) {
    Tokenizer *t = xcalloc(1, sizeof *t);
    t->spec = (TokenizerSpec){.style = TOKEN_IDS_ONLY, .bos = -1, .tail = -1};
    return t;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    free((void *)t->spec.pieces);
    free((void *)t->spec.merges);
    free((void *)t->spec.added);
    free(t->bytes);
    free(t->texts);
    free(t->special);
    pair_map_free(&t->ranks);
    text_map_free(&t->ids);
    added_trie_free(&t->raw);
    added_trie_free(&t->normalized);
    pretokenizer_free(t->pretokenizer);
    free(t);
}

/* ---- asking ---- */

const TokenizerSpec *tokenizer_spec(const Tokenizer *t) { return &t->spec; }

int tokenizer_bos(const Tokenizer *t) { return t->spec.bos; }
int tokenizer_tail(const Tokenizer *t) { return t->spec.tail; }

bool tokenizer_strips_space(const Tokenizer *t) { return t->spec.strip_space; }

int tokenizer_vocab_size(const Tokenizer *t) { return t->spec.n_pieces; }

const char *tokenizer_piece(const Tokenizer *t, int id, size_t *n) {
    if (id < 0 || id >= t->spec.n_pieces) return NULL;
    *n = t->texts[id].n;
    return t->texts[id].data;
}

bool tokenizer_is_special(const Tokenizer *t, int id) { return id >= 0 && id < t->spec.n_pieces && t->special[id]; }

int tokenizer_find_special(const Tokenizer *t, const char *text) {
    size_t n = strlen(text);
    for (int i = 0; i < t->spec.n_added; i++) {
        const AddedToken *a = &t->spec.added[i];
        if (a->text.n == n && memcmp(a->text.data, text, n) == 0) return a->id;
    }
    return -1;
}

char *tokenizer_decode(const Tokenizer *t, const int *ids, size_t n_ids, size_t *n) {
    size_t total = 0, piece = 0;
    for (size_t i = 0; i < n_ids; i++)
        if (tokenizer_piece(t, ids[i], &piece)) total += piece;
    char *text = try_malloc(total + 1), *at = text;
    for (size_t i = 0; i < n_ids && text; i++) {
        const char *bytes = tokenizer_piece(t, ids[i], &piece);
        if (bytes) at = mempcpy(at, bytes, piece);
    }
    if (!text) return NULL;
    if (t->spec.strip_space && total > 0 && text[0] == ' ') memmove(text, text + 1, --total);
    text[total] = 0;
    *n = total;
    return text;
}
