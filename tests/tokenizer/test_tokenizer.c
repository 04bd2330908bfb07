#include "tests/tokenizer/test_tokenizer.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tokenizer/cut.h"
#include "tokenizer/map.h"
#include "tokenizer/pretokenize.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const GPT2[] = {GPT2_WORDS};

const char SMALL_TEXT[] =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing "
    "before us, we were all going direct to Heaven, we were all going direct the other way. <|endoftext|>There were a "
    "king with a large jaw and a queen with a plain face, on the throne of England; it's 1775, caf\xC3\xA9 "
    "na\xC3\xAFve "
    "\xE2\x82\xAC 12,000.\n\n\tIt was the year of Our Lord one thousand seven hundred and seventy-five.\n";

Tokenizer *small_tokenizer(void) {
    const BpeText text = {.data = SMALL_TEXT, .n = sizeof SMALL_TEXT - 1};
    Tokenizer *t = NULL;
    Err err;
    int rc = bpe_train(&t, &(BpeCorpus){.texts = &text, .n = 1}, 320, &err);
    BUG_ON(rc);
    return t;
}

char *text_replace(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from), *start = text;
    char *out = NULL;
    size_t n;
    if (!at) return NULL;
    FILE *f = open_memstream(&out, &n);
    for (; at; start = at + strlen(from), at = strstr(start, from)) fprintf(f, "%.*s%s", (int)(at - start), start, to);
    fputs(start, f);
    fclose(f);
    return out;
}

size_t reference_merge(const TokenizerSpec *s, int *ids, size_t n) {
    for (int rank = 0; rank < s->n_merges; rank++)
        for (size_t i = 0; i + 1 < n; i++) {
            if (ids[i] != s->merges[rank].left || ids[i + 1] != s->merges[rank].right) continue;
            ids[i] = s->merges[rank].result;
            memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof *ids);
            n--;
            rank = -1; /* the new symbol may have made a pair of a lower rank */
            break;
        }
    return n;
}

TokenList encode_text(const Tokenizer *t, const char *text, size_t n, bool special) {
    TokenList list = {0};
    Err err = {""};
    CHECK_MSG(tokenizer_encode(t, text, n, special, &list, &err) == 0, "%s", err.msg);
    return list;
}

bool same_ids(const TokenList *list, const int *ids, size_t n) {
    return list->n == n && (n == 0 || memcmp(list->ids, ids, n * sizeof *ids) == 0);
}

void check_round_trip(const Tokenizer *t, const char *text, size_t n) {
    TokenList list = encode_text(t, text, n, true);
    size_t back_n;
    char *back = tokenizer_decode(t, list.ids, list.n, &back_n);
    CHECK_MSG(back_n == n && memcmp(back, text, n) == 0, "%zu bytes come back as %zu: \"%.40s\"", n, back_n, text);
    CHECK(back[back_n] == 0);
    free(back);
    token_list_free(&list);
}

static void check_words(const Pretokenizer *p, const char *text, size_t n, const char *want) {
    WordScan *scan = word_scan_open(p);
    char got[256] = "";
    const char *word;
    size_t length, used = 0;
    word_scan_start(scan, text, n);
    while (word_scan_next(scan, &word, &length, NULL) > 0) {
        if (used) got[used++] = '|';
        memcpy(got + used, word, length);
        used += length;
    }
    CHECK_MSG(used == strlen(want) && memcmp(got, want, used) == 0, "words of \"%s\": \"%s\", want \"%s\"", text, got,
              want);
    word_scan_close(scan);
}

static void check_cut(const Tokenizer *t, const char *text, size_t at) {
    size_t n = strlen(text);
    TokenList whole = encode_text(t, text, n, true), parts = encode_text(t, text, at, true);
    Err err;
    CHECK(tokenizer_encode_rest(t, text + at, n - at, true, &parts, &err) == 0);
    CHECK_MSG(same_ids(&parts, whole.ids, whole.n), "\"%.*s|%s\" has %zu ids, whole %zu", (int)at, text, text + at,
              parts.n, whole.n);
    token_list_free(&whole);
    token_list_free(&parts);
}

int check_cuts(const Tokenizer *t) {
    static const char *const marks[] = {" ",
                                        "\n",
                                        "\n",
                                        " ",
                                        "a",
                                        "the",
                                        ".",
                                        "/",
                                        "7",
                                        "42",
                                        "\r",
                                        "\t",
                                        "'s",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        "B",
                                        "--",
                                        "\xE3\x80\x82",
                                        "\xE4\xB8\xAD",
                                        "<|endoftext|>",
                                        "ll",
                                        "\u0301",
                                        "\xE2\x96\x81",
                                        "</s>",
                                        "\xC3\xA9"};
    int cuts = 0;
    Draws d = draws_open(5, DRAW_TEST, 0);
    for (int round = 0; round < FEWER(3000); round++) {
        char text[256] = "";
        for (int i = 0; i < 12; i++) strcat(text, marks[draw_below(&d, COUNTOF(marks))]);
        size_t n = strlen(text);
        for (size_t at = tokenizer_cut(t, text, 0, n); at < n; at = tokenizer_cut(t, text, at + 1, n), cuts++)
            check_cut(t, text, at);
    }
    return cuts;
}

TEST(tokenizer_words) {
    static const char *const cases[][2] = {
        {"", ""},
        {"Hello, world!", "Hello|,| world|!"},
        {"I'll don't 'S we've", "I|'ll| don|'t| '|S| we|'ve"},
        {"a  b   c ", "a| | b|  | c| "},
        {"a\n\n b\t", "a|\n\n| b|\t"},
        {"   ", "   "},
        {"x12 34y", "x|12| 34|y"},
        {"caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87!?", "caf\xC3\xA9| \xE4\xB8\xAD\xE6\x96\x87|!?"},
        {"\xC2\xBD\xC2\xB2", "\xC2\xBD\xC2\xB2"},
        {"a\xC2\xA0\xE3\x80\x80z", "a|\xC2\xA0|\xE3\x80\x80|z"},
        /* pcre2's own \s takes U+180E for a space, Unicode since 6.3 does not. */
        {"a \xE1\xA0\x8E", "a| \xE1\xA0\x8E"},
        {"a \xFF\xFE b\x80", "a| |\xFF\xFE| b|\x80"},
        {"\xED\xA0\x80\xC0\x80x\xF4\x90\x80\x80", "\xED\xA0\x80\xC0\x80|x|\xF4\x90\x80\x80"},
        {"\xE2\x82", "\xE2\x82"},
    };
    Pretokenizer *p = pretokenizer_new(GPT2, 1, NULL);
    for (size_t i = 0; i < COUNTOF(cases); i++) check_words(p, cases[i][0], strlen(cases[i][0]), cases[i][1]);
    WordScan *scan = word_scan_open(p);
    const char *word;
    size_t n;
    word_scan_start(scan, "a \0\0b", 5);
    CHECK(word_scan_next(scan, &word, &n, NULL) == 1 && n == 1);
    CHECK(word_scan_next(scan, &word, &n, NULL) == 1 && n == 3);
    CHECK(word_scan_next(scan, &word, &n, NULL) == 1 && n == 1);
    CHECK(word_scan_next(scan, &word, &n, NULL) == 0);
    word_scan_close(scan);
    pretokenizer_free(p);
}

TEST(tokenizer_round_trip) {
    Tokenizer *t = small_tokenizer();
    char all[256], text[400];
    Draws d = draws_open(1, DRAW_TEST, 0);
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        check_round_trip(t, &all[i], 1);
    }
    check_round_trip(t, all, sizeof all);
    check_round_trip(t, SMALL_TEXT, sizeof SMALL_TEXT - 1);
    check_round_trip(t, "", 0);
    for (int round = 0; round < 400; round++) {
        size_t n = draw_below(&d, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = round % 2 ? (char)draw_u32(&d) : " at\xC3\xA9\xE2\0"[draw_below(&d, 7)];
        check_round_trip(t, text, n);
    }
    tokenizer_free(t);
}

/* Any order of merges, as a file may have it: later merges may make pairs of lower rank than those before. */
Tokenizer *random_tokenizer(Draws *d, const char *letters, int n_merges) {
    enum { MOST = 64 };
    static char bytes[256], joined[MOST][512];
    TokenText pieces[256 + MOST];
    TokenMerge merges[MOST];
    TokenizerSpec spec = {.style = TOKEN_BYTE_LEVEL, .pieces = pieces, .merges = merges, .bos = -1, .tail = -1};
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (TokenText){.data = &bytes[i], .n = 1};
        spec.byte_ids[i] = i;
    }
    for (spec.n_pieces = 256; spec.n_merges < n_merges;) {
        int pool[2];
        for (int k = 0; k < 2; k++) {
            int i = (int)draw_below(d, (uint64_t)(3 + spec.n_merges));
            pool[k] = i < 3 ? letters[i] : 253 + i;
        }
        TokenText l = pieces[pool[0]], r = pieces[pool[1]];
        char *text = joined[spec.n_merges];
        bool fresh = l.n + r.n <= 8;
        if (!fresh) continue;
        memcpy(mempcpy(text, l.data, l.n), r.data, r.n);
        for (int i = 0; i < spec.n_pieces; i++)
            fresh = fresh && !(pieces[i].n == l.n + r.n && memcmp(pieces[i].data, text, l.n + r.n) == 0);
        if (!fresh) continue;
        pieces[spec.n_pieces] = (TokenText){.data = text, .n = l.n + r.n};
        merges[spec.n_merges++] = (TokenMerge){.left = pool[0], .right = pool[1], .result = spec.n_pieces++};
    }
    for (int i = n_merges - 1; i > 0; i--) {
        int k = (int)draw_below(d, (uint64_t)i + 1);
        TokenMerge swap = merges[i];
        merges[i] = merges[k];
        merges[k] = swap;
    }
    return tokenizer_build(&spec, NULL);
}

TEST(tokenizer_merges_match_reference) {
    Draws d = draws_open(2, DRAW_TEST, 0);
    for (int round = 0; round < 40; round++) {
        Tokenizer *t = random_tokenizer(&d, "abc", 1 + (int)draw_below(&d, 40));
        for (int k = 0; k < 20; k++) {
            char text[200];
            int want[200];
            size_t n = draw_below(&d, k % 2 ? 30 : sizeof text);
            for (size_t i = 0; i < n; i++) want[i] = text[i] = (char)('a' + draw_below(&d, 2 + (uint64_t)(k % 2)));
            size_t n_want = reference_merge(tokenizer_spec(t), want, n);
            TokenList got = encode_text(t, text, n, false);
            CHECK_MSG(same_ids(&got, want, n_want), "\"%.*s\" gives %zu ids, want %zu", (int)n, text, got.n, n_want);
            token_list_free(&got);
        }
        tokenizer_free(t);
    }
}

static Tokenizer *with_added(const Tokenizer *t, const AddedToken *added, int n_added, const TokenText *pieces) {
    TokenizerSpec spec = *tokenizer_spec(t);
    spec.added = added, spec.n_added = n_added;
    spec.pieces = pieces, spec.n_pieces += n_added;
    return tokenizer_build(&spec, NULL);
}

TEST(tokenizer_special_tokens) {
    static const struct {
        const char *text;
        bool special;
        const char *want; /* +n: the n-th added token, else a byte */
    } cases[] = {{"<a>", true, "\1"},           {"<a>", false, "<a>"},         {"x<a>b>y", true, "x\2y"},
                 {"x<a>b>y", false, "x<a>b>y"}, {"<<a>", true, "<\1"},         {"<a><a>b", true, "\1\1b"},
                 {"<u>", false, "\3"},          {"<u><a>", true, "\3\1"},      {"<a", true, "<a"},
                 {"<a>b<u>", false, "<a>b\3"},  {"<a>\n<a>b>", true, "\1\n\2"}};
    Draws d = draws_open(3, DRAW_TEST, 0);
    Tokenizer *plain = random_tokenizer(&d, "abc", 0);
    TokenText pieces[260] = {{0}};
    memcpy(pieces, tokenizer_spec(plain)->pieces, 256 * sizeof *pieces);
    const AddedToken added[] = {{.id = 256, .text = {"unused", 6}, .special = true},
                                {.id = 257, .text = {"<a>", 3}, .special = true},
                                {.id = 258, .text = {"<a>b>", 5}, .special = true, .normalized = false},
                                {.id = 259, .text = {"<u>", 3}, .normalized = true}};
    Tokenizer *t = with_added(plain, added, COUNTOF(added), pieces);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        int want[32];
        size_t n = strlen(cases[i].want);
        for (size_t k = 0; k < n; k++) want[k] = cases[i].want[k] < 4 ? 256 + cases[i].want[k] : cases[i].want[k];
        TokenList got = encode_text(t, cases[i].text, strlen(cases[i].text), cases[i].special);
        CHECK_MSG(same_ids(&got, want, n), "\"%s\" gives %zu ids, want %zu", cases[i].text, got.n, n);
        token_list_free(&got);
        check_round_trip(t, cases[i].text, strlen(cases[i].text));
    }
    size_t n = 0;
    const char *piece = tokenizer_piece(t, 258, &n);
    CHECK(piece && n == 5 && memcmp(piece, "<a>b>", 5) == 0);
    CHECK(tokenizer_is_special(t, 257) && !tokenizer_is_special(t, 259) && !tokenizer_is_special(t, 'a'));
    CHECK(!tokenizer_is_special(t, -1) && !tokenizer_is_special(t, 260));
    CHECK(tokenizer_find_special(t, "<u>") == 259 && tokenizer_find_special(t, "<a") == -1);
    CHECK(tokenizer_vocab_size(t) == 260 && !tokenizer_piece(t, 260, &n) && !tokenizer_piece(t, -1, &n));
    CHECK(tokenizer_bos(t) == -1);
    tokenizer_free(t);
    tokenizer_free(plain);
}

/* A quarter of a mebibyte of one thing takes an instant; anything quadratic in it would take minutes. */
TEST(tokenizer_hostile_strings) {
    static const char *const units[] = {" ",
                                        "a",
                                        "\n",
                                        "1",
                                        "!",
                                        "'",
                                        "<",
                                        "<|endoftext|>",
                                        "<|endoftext",
                                        "'s",
                                        " a",
                                        "a ",
                                        "\xC2\xA0",
                                        "\xE4\xB8\xAD",
                                        "\xF0\x9F\x98\x80",
                                        "\xFF",
                                        "a\xFF",
                                        "\xE2\x82",
                                        "the",
                                        "Aa0 ",
                                        "\t\n "};
    const size_t n = 1 << 18;
    char *text = xmalloc(n);
    Tokenizer *t = small_tokenizer();
    for (size_t k = 0; k <= COUNTOF(units); k++) {
        size_t length = k < COUNTOF(units) ? strlen(units[k]) : 1;
        for (size_t i = 0; i < n; i++) text[i] = k < COUNTOF(units) ? units[k][i % length] : 0;
        double start = test_cpu_seconds();
        check_round_trip(t, text, n);
        double seconds = test_cpu_seconds() - start;
        CHECK_MSG(seconds < 30 * SLOWNESS, "1 MiB of \"%s\" took %.1f s", k < COUNTOF(units) ? units[k] : "\\0",
                  seconds);
    }
    tokenizer_free(t);
    free(text);
}

typedef struct Job {
    const Tokenizer *t;
    TokenList list;
} Job;

static void *encode_many(void *arg) {
    Job *job = arg;
    for (int i = 0; i < 20; i++) {
        job->list.n = 0;
        if (tokenizer_encode(job->t, SMALL_TEXT, sizeof SMALL_TEXT - 1, true, &job->list, NULL)) job->list.n = 0;
    }
    return NULL;
}

TEST(tokenizer_threads) {
    Tokenizer *t = small_tokenizer();
    TokenList want = encode_text(t, SMALL_TEXT, sizeof SMALL_TEXT - 1, true);
    pthread_t threads[4];
    Job jobs[COUNTOF(threads)];
    for (size_t i = 0; i < COUNTOF(threads); i++) {
        jobs[i] = (Job){.t = t};
        BUG_ON(pthread_create(&threads[i], NULL, encode_many, &jobs[i]));
    }
    for (size_t i = 0; i < COUNTOF(threads); i++) {
        pthread_join(threads[i], NULL);
        CHECK(same_ids(&jobs[i].list, want.ids, want.n));
        token_list_free(&jobs[i].list);
    }
    token_list_free(&want);
    tokenizer_free(t);
}

TEST(tokenizer_of_ids_only) {
    Tokenizer *t = tokenizer_ids_only();
    TokenList list = {0};
    Err err;
    size_t n = 1;
    int ids[2] = {0, 5};
    CHECK(tokenizer_encode(t, "", 0, true, &list, &err) == 0 && list.n == 0);
    CHECK(tokenizer_encode(t, "a", 1, true, &list, &err) == -1);
    CHECK(!strcmp(err.msg, "the model has no tokenizer: give token ids"));
    CHECK(!tokenizer_piece(t, 0, &n) && tokenizer_vocab_size(t) == 0 && tokenizer_bos(t) == -1);
    char *text = tokenizer_decode(t, ids, 2, &n);
    CHECK(n == 0 && text[0] == 0);
    free(text);
    token_list_free(&list);
    tokenizer_free(t);
}

TEST(tokenizer_maps_find_nothing_in_nothing) {
    TextMap texts = {0};
    PairMap pairs = {0};
    CHECK(text_map_find(&texts, "a", 1) == -1 && pair_map_find(&pairs, 1, 2) == -1);
    *text_map_at(&texts, "a", 1) = 7;
    *pair_map_at(&pairs, 1, 2) = 8;
    CHECK(text_map_find(&texts, "a", 1) == 7 && text_map_find(&texts, "b", 1) == -1 &&
          text_map_find(&texts, "", 0) == -1);
    CHECK(pair_map_find(&pairs, 1, 2) == 8 && pair_map_find(&pairs, 2, 1) == -1);
    text_map_free(&texts);
    pair_map_free(&pairs);
}
