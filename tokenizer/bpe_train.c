#include "tokenizer/bpe_train.h"

#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/map.h"
#include "tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

/* Distinct words; positions, pairs and heap entries, each up to a few times as many, then fit an int. */
enum { MAX_WORD_BYTES = 1 << 29 };

/* ---- counting words ---- */

typedef struct Word {
    TokenText text;
    int64_t count;
} Word;

typedef struct WordCounts {
    TextMap index;
    Word *words;
    size_t n, capacity, total_bytes, most; /* no more are counted from `most` bytes on */
} WordCounts;

static void count_word(WordCounts *w, TokenText text) {
    if (w->total_bytes >= w->most && text_map_find(&w->index, text.data, text.n) < 0) return;
    int *i = text_map_at(&w->index, text.data, text.n);
    if (*i < 0) {
        *i = (int)w->n;
        if (w->n == w->capacity) {
            w->capacity = MAX(1024, 2 * w->capacity);
            w->words = xrealloc(w->words, w->capacity * sizeof *w->words);
        }
        w->words[w->n++] = (Word){.text = text};
        w->total_bytes += text.n;
    }
    w->words[*i].count++;
}

static int count_stretch(WordCounts *w, WordScan *scan, const char *text, size_t n, Err *err) {
    TokenText word;
    int rc;
    word_scan_start(scan, text, n);
    while ((rc = word_scan_next(scan, &word.data, &word.n, err)) > 0) {
        count_word(w, word);
        if (w->total_bytes > MAX_WORD_BYTES)
            return err_set(err, "the distinct words of the corpus are %zu bytes long, the limit is %d", w->total_bytes,
                           MAX_WORD_BYTES);
    }
    return rc;
}

static int count_words(WordCounts *w, const BpeCorpus *corpus, Err *err) {
    const size_t cut = strlen(BPE_END_OF_TEXT);
    static const char *const words[] = {GPT2_WORDS};
    Pretokenizer *pretokenizer = pretokenizer_new(words, 1, err);
    if (!pretokenizer) return -1;
    WordScan *scan = word_scan_open(pretokenizer);
    int rc = scan ? 0 : err_set(err, "no memory to read the corpus");
    for (size_t i = 0; i < corpus->n && rc == 0; i++) {
        const char *at = corpus->texts[i].data, *end = at + corpus->texts[i].n;
        while (at < end && rc == 0) {
            const char *stop = memmem(at, (size_t)(end - at), BPE_END_OF_TEXT, cut);
            rc = count_stretch(w, scan, at, (size_t)((stop ? stop : end) - at), err);
            at = stop ? stop + cut : end;
        }
    }
    word_scan_close(scan);
    pretokenizer_free(pretokenizer);
    return rc;
}

static void word_counts_free(WordCounts *w) {
    text_map_free(&w->index);
    free(w->words);
}

/* ---- pairs ---- */

typedef struct Pair {
    int left, right;
    int64_t count;
    int *at; /* positions of the left symbol, ascending; some may have been overtaken by other merges */
    int n, capacity;
} Pair;

/* The most frequent pair is at the top. A pair's count only falls once it is in the heap, so an entry whose count is
 * out of date is put back with the right one when it comes to the top. */
typedef struct Candidate {
    int64_t count;
    int pair;
} Candidate;

typedef struct Trainer {
    int *symbol, *next, *prev,
        *word; /* [n_symbols] all distinct words, one behind the other; next/prev -1 at their ends */
    int n_symbols;
    Pair *pairs;
    int n_pairs, pairs_capacity;
    PairMap pair_index;
    Candidate *heap;
    int n_heap, heap_capacity;
    const Word *words;
    /* what is learnt */
    TokenText *pieces; /* each malloc'ed */
    TextMap piece_index;
    TokenMerge *merges;
    int n_pieces, n_merges;
} Trainer;

static void pair_add(Trainer *t, int left, int right, int at) {
    int *i = pair_map_at(&t->pair_index, left, right);
    if (*i < 0) {
        if (t->n_pairs == t->pairs_capacity) {
            t->pairs_capacity = MAX(1024, 2 * t->pairs_capacity);
            t->pairs = xrealloc(t->pairs, (size_t)t->pairs_capacity * sizeof *t->pairs);
        }
        *i = t->n_pairs;
        t->pairs[t->n_pairs++] = (Pair){.left = left, .right = right};
    }
    Pair *p = &t->pairs[*i];
    if (p->n == p->capacity) {
        p->capacity = MAX(4, 2 * p->capacity);
        p->at = xrealloc(p->at, (size_t)p->capacity * sizeof *p->at);
    }
    p->at[p->n++] = at;
    p->count += t->words[t->word[at]].count;
}

static void pair_remove(Trainer *t, int left, int right, int at) {
    t->pairs[pair_map_find(&t->pair_index, left, right)].count -= t->words[t->word[at]].count;
}

static bool candidate_before(const Trainer *t, Candidate a, Candidate b) {
    const Pair *p = &t->pairs[a.pair], *q = &t->pairs[b.pair];
    if (a.count != b.count) return a.count > b.count;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static void heap_push(Trainer *t, int pair) {
    if (t->n_heap == t->heap_capacity) {
        t->heap_capacity = MAX(1024, 2 * t->heap_capacity);
        t->heap = xrealloc(t->heap, (size_t)t->heap_capacity * sizeof *t->heap);
    }
    Candidate c = {.count = t->pairs[pair].count, .pair = pair};
    int i = t->n_heap++;
    for (; i > 0 && candidate_before(t, c, t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = c;
}

static Candidate heap_pop(Trainer *t) {
    Candidate top = t->heap[0], last = t->heap[--t->n_heap];
    int i = 0;
    for (int child; (child = 2 * i + 1) < t->n_heap; i = child) {
        if (child + 1 < t->n_heap && candidate_before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!candidate_before(t, t->heap[child], last)) break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return top;
}

/* ---- learning ---- */

static void piece_add(Trainer *t, TokenText text) {
    *text_map_at(&t->piece_index, text.data, text.n) = t->n_pieces;
    t->pieces[t->n_pieces++] = text;
}

static TokenText text_join(TokenText a, TokenText b) {
    char *data = xmalloc(a.n + b.n);
    if (a.n) memcpy(data, a.data, a.n);
    if (b.n) memcpy(data + a.n, b.data, b.n);
    return (TokenText){.data = data, .n = a.n + b.n};
}

static void trainer_lay_out(Trainer *t, const WordCounts *w, const int *byte_ids) {
    size_t total = w->total_bytes;
    t->words = w->words;
    t->symbol = xmalloc(total * sizeof *t->symbol);
    t->next = xmalloc(total * sizeof *t->next);
    t->prev = xmalloc(total * sizeof *t->prev);
    t->word = xmalloc(total * sizeof *t->word);
    for (size_t i = 0; i < w->n; i++) {
        TokenText text = w->words[i].text;
        for (size_t k = 0; k < text.n; k++) {
            int at = t->n_symbols++;
            t->symbol[at] = byte_ids[(unsigned char)text.data[k]];
            t->prev[at] = k > 0 ? at - 1 : -1;
            t->next[at] = k + 1 < text.n ? at + 1 : -1;
            t->word[at] = (int)i;
        }
    }
    for (int at = 0; at < t->n_symbols; at++)
        if (t->next[at] >= 0) pair_add(t, t->symbol[at], t->symbol[t->next[at]], at);
    for (int i = 0; i < t->n_pairs; i++) heap_push(t, i);
}

/* Replaces every occurrence of the pair, from left to right, by the symbol `merged`. All pairs with the new symbol are
 * made here, hence in ascending order of position and for the heap at the end. */
static void merge_pair(Trainer *t, int index, int merged) {
    Pair pair = t->pairs[index];
    int first_new = t->n_pairs;
    for (int k = 0; k < pair.n; k++) {
        int at = pair.at[k], eaten = t->next[at];
        if (t->symbol[at] != pair.left || eaten < 0 || t->symbol[eaten] != pair.right) continue;
        int before = t->prev[at], after = t->next[eaten];
        t->symbol[at] = merged;
        t->symbol[eaten] = -1;
        t->next[at] = after;
        if (after >= 0) {
            t->prev[after] = at;
            pair_remove(t, pair.right, t->symbol[after], at);
            pair_add(t, merged, t->symbol[after], at);
        }
        if (before >= 0) {
            pair_remove(t, t->symbol[before], pair.left, at);
            pair_add(t, t->symbol[before], merged, before);
        }
    }
    free(pair.at);
    t->pairs[index].at = NULL;
    t->pairs[index].count = 0;
    for (int i = first_new; i < t->n_pairs; i++) heap_push(t, i);
}

/* False when no pair is left. */
static bool learn_merge(Trainer *t) {
    while (t->n_heap) {
        Candidate top = heap_pop(t);
        Pair *p = &t->pairs[top.pair];
        if (p->count == 0) continue; /* made by a merge, which took its neighbours as well */
        if (p->count != top.count) {
            heap_push(t, top.pair);
            continue;
        }
        TokenText text = text_join(t->pieces[p->left], t->pieces[p->right]);
        if (text_map_find(&t->piece_index, text.data, text.n) >= 0) {
            free((char *)text.data);
            continue;
        }
        t->merges[t->n_merges++] = (TokenMerge){.left = p->left, .right = p->right, .result = t->n_pieces};
        piece_add(t, text);
        merge_pair(t, top.pair, t->n_pieces - 1);
        return true;
    }
    return false;
}

static void trainer_free(Trainer *t) {
    free(t->symbol);
    free(t->next);
    free(t->prev);
    free(t->word);
    for (int i = 0; i < t->n_pairs; i++) free(t->pairs[i].at);
    free(t->pairs);
    pair_map_free(&t->pair_index);
    free(t->heap);
    for (int i = 0; i < t->n_pieces; i++) free((char *)t->pieces[i].data);
    free(t->pieces);
    text_map_free(&t->piece_index);
    free(t->merges);
}

static int learn(Tokenizer **out, const WordCounts *w, int vocab_size, Err *err) {
    const size_t most = MIN((size_t)vocab_size, BPE_FIRST_MERGE + w->total_bytes); /* a merge eats a byte of a word */
    Trainer t = {.pieces = xmalloc(most * sizeof *t.pieces), .merges = xmalloc(most * sizeof *t.merges)};
    TokenizerSpec spec = {.style = TOKEN_BYTE_LEVEL, .words = {GPT2_WORDS}, .n_words = 1, .bos = -1, .tail = -1};
    const TokenText end_of_text = {.data = BPE_END_OF_TEXT, .n = strlen(BPE_END_OF_TEXT)}, nothing = {0};
    piece_add(&t, text_join(end_of_text, nothing));
    for (int i = 0; i < 256; i++) {
        const char byte = (char)byte_level_order(i);
        spec.byte_ids[byte_level_order(i)] = t.n_pieces;
        piece_add(&t, text_join((TokenText){.data = &byte, .n = 1}, nothing));
    }
    trainer_lay_out(&t, w, spec.byte_ids);
    while (t.n_pieces < vocab_size && learn_merge(&t)) continue;
    int rc = 0;
    if (t.n_pieces < vocab_size) {
        rc = err_set(err, "vocab_size is %d, which takes %d merges, but the corpus gives only %d: --vocab-size %d",
                     vocab_size, vocab_size - BPE_FIRST_MERGE, t.n_merges, BPE_FIRST_MERGE + t.n_merges);
    } else {
        const AddedToken special = {.id = 0, .text = t.pieces[0], .special = true};
        spec.pieces = t.pieces, spec.n_pieces = t.n_pieces;
        spec.merges = t.merges, spec.n_merges = t.n_merges;
        spec.added = &special, spec.n_added = 1;
        *out = tokenizer_build(&spec, err);
        rc = *out ? 0 : -1;
    }
    trainer_free(&t);
    return rc;
}

int bpe_train(Tokenizer **out, const BpeCorpus *corpus, int vocab_size, Err *err) {
    if (vocab_size < BPE_FIRST_MERGE)
        return err_set(err, "vocab_size is %d, but the 256 bytes and " BPE_END_OF_TEXT " alone are %d", vocab_size,
                       BPE_FIRST_MERGE);
    WordCounts words = {.most = corpus->word_bytes ? corpus->word_bytes : SIZE_MAX};
    int rc = count_words(&words, corpus, err);
    if (rc == 0) rc = learn(out, &words, vocab_size, err);
    word_counts_free(&words);
    return rc;
}
