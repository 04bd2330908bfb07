#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tokenizer/cut.h"

#include <stdlib.h>
#include <string.h>

/* ids: 0..2 <unk> <s> </s>, 3..258 the byte pieces, then these. */
static const char *const PIECES[] = {SPACE_MARK,
                                     "t",
                                     "h",
                                     "e",
                                     "l",
                                     "o",
                                     "w",
                                     "r",
                                     "d",
                                     "\xC3\xA9",
                                     SPACE_MARK "t",
                                     "he",
                                     SPACE_MARK "the",
                                     "ll",
                                     "lo",
                                     SPACE_MARK SPACE_MARK,
                                     SPACE_MARK "w",
                                     "or",
                                     "ld"};
static const char *const MERGES[][2] = {{SPACE_MARK, "t"}, {"h", "e"}, {SPACE_MARK "t", "he"},
                                        {"l", "l"},        {"l", "o"}, {SPACE_MARK, SPACE_MARK},
                                        {SPACE_MARK, "w"}, {"o", "r"}, {"l", "d"}};
enum {
    UNK,
    BOS,
    EOS,
    BYTE,
    MARK = 259,
    T,
    H,
    E,
    L,
    O,
    W,
    R,
    D,
    E_ACUTE,
    MARK_T,
    HE,
    MARK_THE,
    LL,
    LO,
    MARK_MARK,
    MARK_W,
    OR,
    LD
};

#define NORMALIZER                                                                                                     \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},"                     \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]}"
#define PIPELINE "\"normalizer\":" NORMALIZER ",\"pre_tokenizer\":null"
#define METASPACE(scheme, split)                                                                                       \
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","                  \
    "\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"
/* Older files say it without a scheme. */
#define METASPACE_PREFIX(is)                                                                                           \
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"split\":false,"  \
    "\"add_prefix_space\":" is "}"
#define TEMPLATE                                                                                                       \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"                  \
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"                                                        \
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}}"

char *llama_json(void) {
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    fputs("{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[", f);
    for (int i = 0; i < 3; i++)
        fprintf(f,
                "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                "\"normalized\":false,\"special\":true}",
                i ? "," : "", i, ((const char *[]){"<unk>", "<s>", "</s>"})[i]);
    fputs("]," PIPELINE ",\"post_processor\":" TEMPLATE ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
          "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" "
          "\"},{\"type\":\"ByteFallback\"},"
          "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
          "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,"
          "\"end_of_word_suffix\":null,\"fuse_unk\":true,\"byte_fallback\":true,\"ignore_merges\":false,"
          "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2",
          f);
    for (unsigned i = 0; i < 256; i++) fprintf(f, ",\"<0x%02X>\":%u", i, BYTE + i);
    for (size_t i = 0; i < COUNTOF(PIECES); i++) fprintf(f, ",\"%s\":%zu", PIECES[i], MARK + i);
    fputs("},\"merges\":[", f);
    for (size_t i = 0; i < COUNTOF(MERGES); i++) fprintf(f, "%s\"%s %s\"", i ? "," : "", MERGES[i][0], MERGES[i][1]);
    fputs("]}}", f);
    fclose(f);
    return out;
}

/* llama_json() with one thing replaced (from NULL: none), parsed. */
static Tokenizer *llama_tokenizer(const char *from, const char *to) {
    char *base = llama_json(), *text = from ? text_replace(base, from, to) : xstrdup(base);
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(text && tokenizer_json_parse(&t, text, strlen(text), &err) == 0, "%s", err.msg);
    free(base);
    free(text);
    return t;
}

#define IDS(...)                                                                                                       \
    { __VA_ARGS__, -1 }
typedef struct Case {
    const char *text;
    int want[16];
} Case;

static void check_cases(const Tokenizer *t, const Case *cases, size_t n, bool special) {
    for (size_t i = 0; i < n; i++) {
        size_t n_want = 0;
        while (cases[i].want[n_want] >= 0) n_want++;
        TokenList got = encode_text(t, cases[i].text, strlen(cases[i].text), special);
        CHECK_MSG(same_ids(&got, cases[i].want, n_want), "\"%s\": %zu ids, first %d, want %zu, first %d", cases[i].text,
                  got.n, got.n ? got.ids[0] : -1, n_want, cases[i].want[0]);
        token_list_free(&got);
    }
}

/* As files of Llama 3 have it: a sequence whose byte level moves offsets alone. */
TEST(tokenizer_post_processors) {
    static const char *const sequences[] = {
        "{\"type\":\"Sequence\",\"processors\":[" TEMPLATE "]}",
        "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE "]}",
        "{\"type\":\"Sequence\",\"processors\":[" TEMPLATE ",{\"type\":\"ByteLevel\"}]}"};
    for (size_t i = 0; i < COUNTOF(sequences); i++) {
        Tokenizer *t = llama_tokenizer(TEMPLATE, sequences[i]);
        CHECK_MSG(t && tokenizer_spec(t)->bos == 1, "%s", sequences[i]);
        tokenizer_free(t);
    }
    Tokenizer *t = llama_tokenizer(TEMPLATE, "{\"type\":\"ByteLevel\"}");
    CHECK(t && tokenizer_spec(t)->bos == -1);
    tokenizer_free(t);
}

TEST(tokenizer_llama_ids) {
    static const Case plain[] = {
        {"", {-1}},
        {"the", IDS(MARK_THE)},
        {" the", IDS(MARK, MARK_THE)},
        {"   the", IDS(MARK_MARK, MARK, MARK_THE)},
        {"the lo", IDS(MARK_THE, MARK, LO)},
        {"world", IDS(MARK_W, OR, LD)},
        {"hello", IDS(MARK, HE, LL, O)}, /* (l, l) ranks before (l, o) */
        {"lll", IDS(MARK, LL, L)},
        {"\xC3\xA9\xC3\xBC", IDS(MARK, E_ACUTE, BYTE + 0xC3, BYTE + 0xBC)},
        {"\n\xFF\xE2\x82", IDS(MARK, BYTE + '\n', BYTE + 0xFF, BYTE + 0xE2, BYTE + 0x82)},
        {"t<s>", IDS(MARK_T, BYTE + '<', BYTE + 's', BYTE + '>')},
        {"a ", IDS(MARK, BYTE + 'a', MARK)},
    };
    static const Case special[] = {{"<s>the</s>", IDS(BOS, MARK_THE, EOS)},
                                   {"t<s> t", IDS(MARK_T, BOS, MARK, MARK_T)},
                                   {"<unk><s>", IDS(UNK, BOS)}};
    Tokenizer *t = llama_tokenizer(NULL, NULL);
    if (!t) return;
    check_cases(t, plain, COUNTOF(plain), false);
    check_cases(t, special, COUNTOF(special), true);
    CHECK(tokenizer_bos(t) == BOS && tokenizer_strips_space(t) &&
          tokenizer_vocab_size(t) == MARK + (int)COUNTOF(PIECES));
    tokenizer_free(t);
}

/* A piece with a space inside: no word ends there for certain. */
TEST(tokenizer_llama_merges_over_a_space) {
    static const Case cases[] = {{"d world", IDS(MARK, LD, OR, L, D)}, {"t world", IDS(MARK_T, MARK_W, OR, L, D)}};
    char *plain = llama_json(), *piece = text_replace(plain, "\"ld\":", "\"d" SPACE_MARK "w\":"),
         *json = text_replace(piece, "\"l d\"", "\"d " SPACE_MARK "w\"");
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(tokenizer_json_parse(&t, json, strlen(json), &err) == 0, "%s", err.msg);
    if (t) check_cases(t, cases, COUNTOF(cases), false);
    tokenizer_free(t);
    free(plain);
    free(piece);
    free(json);
}

TEST(tokenizer_llama_metaspace) {
    static const Case first[] = {{"the", IDS(MARK_THE)},         {" the", IDS(MARK_THE)},
                                 {"  the", IDS(MARK, MARK_THE)}, {"t</s>t t", IDS(MARK_T, EOS, T, MARK_T)},
                                 {"<s>t", IDS(BOS, T)},          {"\xE2\x96\x81t", IDS(MARK_T)}};
    static const Case always[] = {
        {"the", IDS(MARK_THE)}, {"<s>t t", IDS(BOS, MARK_T, MARK_T)}, {"<s> t", IDS(BOS, MARK_T)}};
    static const Case never[] = {{"the", IDS(T, HE)}, {" the  ", IDS(MARK_THE, MARK_MARK)}};
    static const Case split[] = {{"t   t", IDS(MARK_T, MARK, MARK, MARK_T)}, {"  ", IDS(MARK, MARK)}};
    static const struct {
        const char *pipeline;
        const Case *cases;
        size_t n;
    } variants[] = {
        {METASPACE("first", "false"), first, COUNTOF(first)}, {METASPACE("always", "false"), always, COUNTOF(always)},
        {METASPACE("never", "false"), never, COUNTOF(never)}, {METASPACE_PREFIX("true"), always, COUNTOF(always)},
        {METASPACE_PREFIX("false"), never, COUNTOF(never)},   {METASPACE("always", "true"), split, COUNTOF(split)}};
    for (size_t i = 0; i < COUNTOF(variants); i++) {
        Tokenizer *t = llama_tokenizer(PIPELINE, variants[i].pipeline);
        if (t) check_cases(t, variants[i].cases, variants[i].n, true);
        tokenizer_free(t);
    }
}

TEST(tokenizer_llama_ignore_merges) {
    /* "wor" becomes a piece that no merge makes. */
    static const Case off[] = {{"wor", IDS(W, OR)}}, on[] = {{"wor", IDS(278)}, {"word", IDS(W, OR, D)}};
    char *base = llama_json(), *more = text_replace(base, "\"ld\":277", "\"ld\":277,\"wor\":278");
    char *split = text_replace(more, PIPELINE, METASPACE("never", "true"));
    char *ignore = text_replace(split, "\"ignore_merges\":false", "\"ignore_merges\":true");
    Tokenizer *a = NULL, *b = NULL;
    CHECK(tokenizer_json_parse(&a, split, strlen(split), NULL) == 0);
    CHECK(tokenizer_json_parse(&b, ignore, strlen(ignore), NULL) == 0);
    if (a) check_cases(a, off, COUNTOF(off), true);
    if (b) check_cases(b, on, COUNTOF(on), true);
    tokenizer_free(a);
    tokenizer_free(b);
    free(base);
    free(more);
    free(split);
    free(ignore);
}

TEST(tokenizer_llama_normalized_tokens) {
    /* Such a token is looked for in the normalized text, where it too has got a mark in front. */
    Tokenizer *t = llama_tokenizer("\"normalized\":false", "\"normalized\":true");
    static const Case cases[] = {{"<s>t", IDS(BOS, T)},
                                 {"t <s>", IDS(MARK_T, BOS)},
                                 {"t</s>", IDS(MARK_T, BYTE + '<', BYTE + '/', BYTE + 's', BYTE + '>')}};
    if (t) check_cases(t, cases, COUNTOF(cases), true);
    for (size_t i = 0; i < COUNTOF(cases) && t; i++) check_round_trip(t, cases[i].text, strlen(cases[i].text));
    tokenizer_free(t);
}

static size_t reference_llama(const Tokenizer *t, const char *text, size_t n, int *ids) {
    size_t count = 0;
    ids[count++] = MARK;
    for (size_t i = 0; i < n; i++) {
        int id = text[i] == ' ' ? MARK : BYTE + (unsigned char)text[i];
        for (int p = T; p <= D; p++)
            if (text[i] == PIECES[p - MARK][0]) id = p;
        if (i + 1 < n && memcmp(text + i, "\xC3\xA9", 2) == 0) id = E_ACUTE, i++;
        ids[count++] = id;
    }
    return reference_merge(tokenizer_spec(t), ids, count);
}

TEST(tokenizer_llama_matches_reference) {
    Tokenizer *t = llama_tokenizer(NULL, NULL);
    Draws d = draws_open(6, DRAW_TEST, 0);
    for (int round = 0; round < 300 && t; round++) {
        char text[200];
        int want[201];
        size_t n = 1 + draw_below(&d, round % 2 ? 20 : sizeof text - 1);
        for (size_t i = 0; i < n; i++) text[i] = "  thelowrd\xC3\xA9\n\0x"[draw_below(&d, 15)];
        size_t n_want = reference_llama(t, text, n, want);
        TokenList got = encode_text(t, text, n, true);
        CHECK_MSG(same_ids(&got, want, n_want), "\"%.*s\" gives %zu ids, want %zu", (int)n, text, got.n, n_want);
        token_list_free(&got);
        check_round_trip(t, text, n);
    }
    tokenizer_free(t);
}

TEST(tokenizer_llama_decode) {
    Tokenizer *t = llama_tokenizer(NULL, NULL);
    if (!t) return;
    static const int ids[] = {BOS, MARK_THE, BYTE + 0xC3, BYTE + 0xA9, MARK_MARK};
    size_t n;
    char *text = tokenizer_decode(t, ids, 5, &n);
    CHECK_MSG(strcmp(text, "<s> the\xC3\xA9  ") == 0, "\"%s\"", text);
    free(text);
    text = tokenizer_decode(t, ids + 1, 4, &n);
    CHECK_MSG(strcmp(text, "the\xC3\xA9  ") == 0 && n == 7, "\"%s\"", text);
    free(text);
    CHECK(*tokenizer_piece(t, BYTE, &n) == 0 && n == 1);
    tokenizer_free(t);
}

TEST(tokenizer_llama_hostile_strings) {
    static const char *const units[] = {" ", "t", "\xE2\x96\x81", "t ", "\xFF", "l", "</s", "<s>", "\xC3\xA9"};
    const size_t n = 1 << 20;
    char *text = xmalloc(n);
    Tokenizer *t = llama_tokenizer(NULL, NULL);
    for (size_t k = 0; k < COUNTOF(units) && t; k++) {
        for (size_t i = 0; i < n; i++) text[i] = units[k][i % strlen(units[k])];
        double start = test_cpu_seconds();
        TokenList list = encode_text(t, text, n, true);
        CHECK_MSG(test_cpu_seconds() - start < 4 * SLOWNESS, "1 MiB of \"%s\" took %.1f s", units[k],
                  test_cpu_seconds() - start);
        token_list_free(&list);
    }
    tokenizer_free(t);
    free(text);
}

TEST(llama_cuts_change_no_id) {
    static const char *const forms[][2] = {{PIPELINE, METASPACE("first", "false")},
                                           {PIPELINE, METASPACE("always", "true")},
                                           {PIPELINE, METASPACE("never", "false")},
                                           {NULL, NULL},
                                           {"\"normalized\":false", "\"normalized\":true"}};
    for (size_t i = 0; i < COUNTOF(forms); i++) {
        Tokenizer *t = llama_tokenizer(forms[i][0], forms[i][1]);
        REQUIRE(t);
        CHECK(check_cuts(t) > FEWER(1000));
        tokenizer_free(t);
    }
    /* where every piece gets a space in front, this one may begin behind the token */
    Tokenizer *t = llama_tokenizer(NULL, NULL);
    CHECK(tokenizer_cut(t, "</s> the world", 0, 14) == 8);
    tokenizer_free(t);
}

/* An added token that is looked for in a spelt text, with a mark inside, which a cut would take apart. */
TEST(llama_has_no_cut_where_added_tokens_hold_marks) {
    char *json = llama_json(), *marked = text_replace(json, "</s>", "t" SPACE_MARK "t");
    char *spelt = text_replace(marked, "\"normalized\":false", "\"normalized\":true");
    Tokenizer *t = NULL;
    Err err = {""};
    REQUIRE(tokenizer_json_parse(&t, marked, strlen(marked), &err) == 0);
    CHECK(tokenizer_cut(t, "the world", 0, 9) == 3);
    tokenizer_free(t);
    REQUIRE(tokenizer_json_parse(&t, spelt, strlen(spelt), &err) == 0);
    CHECK(tokenizer_cut(t, "the world", 0, 9) == 9);
    tokenizer_free(t);
    free(json);
    free(marked);
    free(spelt);
}
