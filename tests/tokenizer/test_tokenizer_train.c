#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tokenizer/pretokenize.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const GPT2[] = {GPT2_WORDS};

/* ---- training as it is defined: count all pairs, merge the best one everywhere, begin again ---- */

enum { MOST_WORDS = 400, MOST_SYMBOLS = 64, MOST_PIECES = 400 };

typedef struct Reference {
    int words[MOST_WORDS][MOST_SYMBOLS];
    int length[MOST_WORDS], n_words;
    char pieces[MOST_PIECES][128];
    int n_pieces;
    TokenMerge merges[MOST_PIECES];
    int n_merges;
} Reference;

static bool piece_exists(const Reference *r, int left, int right) {
    const char *joined = test_text("%s%s", r->pieces[left], r->pieces[right]);
    for (int i = 0; i < r->n_pieces; i++)
        if (strcmp(joined, r->pieces[i]) == 0) return true;
    return false;
}

static bool reference_step(Reference *r) {
    static int counts[MOST_PIECES][MOST_PIECES];
    int best = 0, left = 0, right = 0;
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < r->n_words; w++)
        for (int i = 0; i + 1 < r->length[w]; i++) counts[r->words[w][i]][r->words[w][i + 1]]++;
    for (int a = 0; a < r->n_pieces; a++)
        for (int b = 0; b < r->n_pieces; b++)
            if (counts[a][b] > best && !piece_exists(r, a, b)) best = counts[a][b], left = a, right = b;
    if (best == 0) return false;
    for (int w = 0; w < r->n_words; w++) {
        int n = 0;
        for (int i = 0; i < r->length[w]; i++) {
            bool hit = i + 1 < r->length[w] && r->words[w][i] == left && r->words[w][i + 1] == right;
            r->words[w][n++] = hit ? r->n_pieces : r->words[w][i];
            i += hit;
        }
        r->length[w] = n;
    }
    strcpy(stpcpy(r->pieces[r->n_pieces], r->pieces[left]), r->pieces[right]);
    r->merges[r->n_merges++] = (TokenMerge){.left = left, .right = right, .result = r->n_pieces++};
    return true;
}

static void reference_words(Reference *r, const char *text) {
    Pretokenizer *p = pretokenizer_new(GPT2, 1, NULL);
    WordScan *scan = word_scan_open(p);
    const char *word;
    size_t n;
    memset(r, 0, sizeof *r);
    strcpy(r->pieces[r->n_pieces++], BPE_END_OF_TEXT);
    for (int i = 0; i < 256; i++) r->pieces[r->n_pieces++][0] = (char)byte_level_order(i);
    word_scan_start(scan, text, strlen(text));
    while (word_scan_next(scan, &word, &n, NULL) > 0) {
        BUG_ON(n > MOST_SYMBOLS || r->n_words == MOST_WORDS);
        for (size_t i = 0; i < n; i++)
            for (int k = 0; k < 256; k++)
                if ((unsigned char)word[i] == byte_level_order(k)) r->words[r->n_words][i] = 1 + k;
        r->length[r->n_words++] = (int)n;
    }
    word_scan_close(scan);
    pretokenizer_free(p);
}

static int train_text(Tokenizer **t, const char *text, int vocab_size, Err *err) {
    const BpeText one = {.data = text, .n = strlen(text)};
    return bpe_train(t, &(BpeCorpus){.texts = &one, .n = 1}, vocab_size, err);
}

TEST(bpe_train_matches_reference) {
    Draws d = draws_open(4, DRAW_TEST, 0);
    Reference *r = xmalloc(sizeof *r);
    for (int round = 0; round < 12; round++) {
        char text[600];
        size_t n = 100 + draw_below(&d, 400);
        for (size_t i = 0; i < n; i++) text[i] = "aaab bc"[draw_below(&d, round % 2 ? 7 : 3)];
        for (size_t i = 50; i < n; i += 50) text[i] = ' ';
        text[n] = 0;
        reference_words(r, text);
        while (r->n_merges < 60 && reference_step(r)) continue;
        Tokenizer *t = NULL;
        Err err = {""};
        CHECK_MSG(train_text(&t, text, BPE_FIRST_MERGE + r->n_merges, &err) == 0, "%s", err.msg);
        if (!t) continue;
        const TokenizerSpec *s = tokenizer_spec(t);
        CHECK(s->n_merges == r->n_merges);
        CHECK_MSG(memcmp(s->merges, r->merges, (size_t)r->n_merges * sizeof *r->merges) == 0, "round %d", round);
        tokenizer_free(t);
    }
    free(r);
}

TEST(bpe_train_layout) {
    Tokenizer *t = small_tokenizer();
    size_t n;
    CHECK(tokenizer_vocab_size(t) == 320 && tokenizer_bos(t) == -1);
    CHECK(tokenizer_find_special(t, BPE_END_OF_TEXT) == 0 && tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 1));
    CHECK(*tokenizer_piece(t, 1, &n) == '!' && n == 1);
    CHECK(*tokenizer_piece(t, 1 + 'A' - '!', &n) == 'A');
    CHECK((unsigned char)*tokenizer_piece(t, 95, &n) == 0xA1);
    CHECK((unsigned char)*tokenizer_piece(t, 188, &n) == 0xFF && *tokenizer_piece(t, 189, &n) == 0);
    CHECK(*tokenizer_piece(t, 189 + ' ', &n) == ' ' && (unsigned char)*tokenizer_piece(t, 256, &n) == 0xAD);
    bool seen[256] = {false};
    for (int i = 0; i < 256; i++) seen[byte_level_order(i)] = true;
    for (int i = 0; i < 256; i++) CHECK(seen[i]);
    /* The separator is cut out before anything is counted. */
    for (int id = 257; id < 320; id++) CHECK(!memmem(tokenizer_piece(t, id, &n), n, "<|", 2));
    tokenizer_free(t);
}

TEST(bpe_train_ignores_order_and_division) {
    const BpeText parts[] = {{.data = "the cat sat on the mat. ", .n = 24},
                             {.data = "the rat ate that hat! ", .n = 22}};
    const BpeText swapped[] = {parts[1], {0}, parts[0]};
    const BpeText joined = {.data = "the rat ate that hat! <|endoftext|>the cat sat on the mat. ", .n = 59};
    const BpeCorpus corpora[] = {{.texts = parts, .n = 2}, {.texts = swapped, .n = 3}, {.texts = &joined, .n = 1}};
    const char *dir = test_dir();
    char path[300], *first = NULL;
    for (size_t i = 0; i < COUNTOF(corpora); i++) {
        Tokenizer *t = NULL;
        Err err = {""};
        snprintf(path, sizeof path, "%s/tokenizer.json", dir);
        CHECK_MSG(bpe_train(&t, &corpora[i], 270, &err) == 0 && tokenizer_json_save(t, path, &err) == 0, "%s", err.msg);
        tokenizer_free(t);
        char *text = test_read_file(path, NULL);
        CHECK(text && (!first || strcmp(text, first) == 0));
        if (!first) first = xstrdup(text);
        free(text);
    }
    free(first);
}

TEST(bpe_train_errors) {
    Tokenizer *t = NULL;
    Err err;
    CHECK(train_text(&t, "abc", 256, &err) == -1);
    CHECK_MSG(strstr(err.msg, "vocab_size is 256") && strstr(err.msg, "257"), "%s", err.msg);
    CHECK(train_text(&t, "abc", -5, &err) == -1 && strstr(err.msg, "vocab_size is -5"));
    /* "abc" has two merges: ab, then abc. */
    CHECK(train_text(&t, "abc", 260, &err) == -1);
    CHECK_MSG(
        strcmp(err.msg, "vocab_size is 260, which takes 3 merges, but the corpus gives only 2: --vocab-size 259") == 0,
        "%s", err.msg);
    /* aa, then aaaa: behind the first of them no aa stands beside an a any more */
    CHECK(train_text(&t, "aaaa", 260, &err) == -1);
    CHECK_MSG(strstr(err.msg, "gives only 2: --vocab-size 259"), "%s", err.msg);
    CHECK(train_text(&t, "", 258, &err) == -1 && train_text(&t, "<|endoftext|>", INT_MAX, &err) == -1);
    CHECK(t == NULL);
    CHECK(train_text(&t, "abc", 259, &err) == 0 && tokenizer_vocab_size(t) == 259);
    tokenizer_free(t);
    CHECK(train_text(&t, "", 257, &err) == 0);
    check_round_trip(t, "no merges at all\xFF", 17);
    tokenizer_free(t);
}

/* One word of half a mebibyte, and many words: neither is quadratic. */
TEST(bpe_train_long_words) {
    const size_t n = 1 << 19;
    char *text = xmalloc(n + 1);
    Draws d = draws_open(5, DRAW_TEST, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < n; i++) text[i] = round == 0 ? 'a' : (char)('a' + draw_below(&d, 26));
        for (size_t i = 0; i < n; i += 5)
            if (round == 2) text[i] = ' ';
        text[n] = 0;
        Tokenizer *t = NULL;
        Err err = {""};
        double start = test_cpu_seconds();
        CHECK_MSG(train_text(&t, text, round == 0 ? 270 : 1000, &err) == 0, "%s", err.msg);
        CHECK_MSG(test_cpu_seconds() - start < 20 * SLOWNESS, "round %d took %.1f s", round,
                  test_cpu_seconds() - start);
        tokenizer_free(t);
    }
    free(text);
}
