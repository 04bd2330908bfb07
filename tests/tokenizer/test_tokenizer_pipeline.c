/* The pre-tokenisers and normalisers of byte-level files other than GPT-2's. The wanted words are those of a JavaScript
 * engine's \p{...} expressions. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tokenizer/cut.h"

#include <stdlib.h>
#include <string.h>

#define ALONE                                                                                                          \
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "               \
    "\"use_regex\": true}"
#define SEQUENCE(steps) "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" steps "]}"
#define SPLIT(regex)                                                                                                   \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\", \"invert\": false}"
#define BYTE_LEVEL(regex)                                                                                              \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": " regex "}"

/* As their files spell them: Llama 3, Mistral Nemo, SmolLM2, DeepSeek Coder. */
#define LLAMA3                                                                                                         \
    SEQUENCE(SPLIT(                                                                                                    \
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "                         \
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+") ", " BYTE_LEVEL("fals"   \
                                                                                                              "e"))
#define NEMO                                                                                                           \
    SEQUENCE(SPLIT("[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}"  \
                   "\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+" \
                   "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|"        \
                   "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+") ", " BYTE_LEVEL("false"))
#define SMOLLM2 SEQUENCE("{\"type\": \"Digits\", \"individual_digits\": true}, " BYTE_LEVEL("true"))
#define DEEPSEEK_CODER                                                                                                 \
    SEQUENCE(SPLIT("[\\r\\n]") ", " SPLIT("\\\\s?\\\\p{L}+") ", " SPLIT("\\\\s?\\\\p{P}+") ", " SPLIT(                 \
        "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+") ", {\"type\": \"Digits\", "  \
                                                                                          "\"individual_digits\": "    \
                                                                                          "true}, "                    \
                                                                                          "" BYTE_LEVEL("false"))

/* The small file with `from` as `to`. */
static Tokenizer *changed(const char *from, const char *to) {
    char *json = small_json(), *text = text_replace(json, from, to);
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(text != NULL, "the small file has no %s", from);
    if (text) CHECK_MSG(tokenizer_json_parse(&t, text, strlen(text), &err) == 0, "%s", err.msg);
    free(text);
    free(json);
    return t;
}

static void check_words(const Tokenizer *t, const char *text, const char *want) {
    const TokenizerSpec *s = tokenizer_spec(t);
    Pretokenizer *p = pretokenizer_new(s->words, s->n_words, NULL);
    WordScan *scan = word_scan_open(p);
    char got[256] = "";
    const char *word;
    size_t length;
    word_scan_start(scan, text, strlen(text));
    while (word_scan_next(scan, &word, &length, NULL) > 0) {
        if (*got) strcat(got, "|");
        strncat(got, word, length);
    }
    CHECK_MSG(strcmp(got, want) == 0, "words of \"%s\": \"%s\", want \"%s\"", text, got, want);
    word_scan_close(scan);
    pretokenizer_free(p);
}

TEST(tokenizer_published_patterns) {
    static const char *const texts[] = {"It'S 12345 x2  y\r\n\r\n z!", "HTTPServer isn't  42", "a/b//\nc 7\xC2\xBD",
                                        "  \t\n  q"};
    static const struct {
        const char *pre_tokenizer, *words[COUNTOF(texts)];
    } cases[] = {{LLAMA3,
                  {"It|'S| |123|45| x|2| | y|\r\n\r\n| z|!", "HTTPServer| isn|'t| | |42", "a|/b|//\n|c| |7\xC2\xBD",
                   "  \t\n| | q"}},
                 {NEMO,
                  {"It|'S| |1|2|3|4|5| x|2| | y|\r\n\r\n| z|!", "HTTPServer| isn|'t| | |4|2",
                   "a|/b|//\n|c| |7|\xC2\xBD", "  \t\n| | q"}},
                 {SMOLLM2,
                  {"It|'|S| |1|2|3|4|5| x|2| | y|\r\n\r\n| z|!", "HTTPServer| isn|'t|  |4|2",
                   "a|/|b|//|\n|c| |7|\xC2\xBD", "  \t\n | q"}},
                 {DEEPSEEK_CODER,
                  {"It|'|S| |1|2|3|4|5| x|2| | y|\r|\n|\r|\n| z|!", "HTTPServer| isn|'|t|  |4|2",
                   "a|/|b|//|\n|c| |7|\xC2\xBD", "  \t|\n| | q"}}};
    for (size_t c = 0; c < COUNTOF(cases); c++) {
        Tokenizer *t = changed(ALONE, cases[c].pre_tokenizer);
        if (!t) continue;
        for (size_t i = 0; i < COUNTOF(texts); i++) {
            check_words(t, texts[i], cases[c].words[i]);
            check_round_trip(t, texts[i], strlen(texts[i]));
        }
        check_round_trip(t, "a\xFF 12\x80z", 7);
        tokenizer_free(t);
    }
}

TEST(tokenizer_normalizer_without_steps) {
    Tokenizer *t = changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": []}");
    if (!t) return;
    CHECK(!tokenizer_spec(t)->nfc);
    check_round_trip(t, "e\xCC\x81", 3);
    tokenizer_free(t);
}

TEST(tokenizer_pipeline_saves_what_it_loads) {
    static const char *const pre_tokenizers[] = {LLAMA3, NEMO, SMOLLM2, DEEPSEEK_CODER, SEQUENCE(BYTE_LEVEL("false"))};
    const char *dir = test_dir();
    const char *path = test_text("%s/tokenizer.json", dir);
    for (size_t i = 0; i < COUNTOF(pre_tokenizers); i++) {
        Tokenizer *a = changed(ALONE, pre_tokenizers[i]), *b = NULL;
        if (!a) continue;
        CHECK(tokenizer_json_save(a, path, NULL) == 0 && tokenizer_json_load(&b, path, NULL) == 0);
        if (b) {
            const TokenizerSpec *x = tokenizer_spec(a), *y = tokenizer_spec(b);
            CHECK(x->n_words == y->n_words && x->nfc == y->nfc);
            for (int w = 0; w < x->n_words && w < y->n_words; w++) CHECK(strcmp(x->words[w], y->words[w]) == 0);
        }
        tokenizer_free(a);
        tokenizer_free(b);
    }
}

TEST(tokenizer_composes) {
    /* What Python's unicodedata.normalize("NFC", ...) gives: an accent, two marks out of order, Hangul, Angstrom, and
     * a note that becomes three times as long. */
    static const char *const cases[][2] = {{"cafe\xCC\x81!", "caf\xC3\xA9!"},
                                           {"q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87"},
                                           {"\xE1\x84\x80\xE1\x85\xA1", "\xEA\xB0\x80"},
                                           {"\xE2\x84\xAB x", "\xC3\x85 x"},
                                           {"e\xCC\x81\xFFo\xCC\x88\x80", "\xC3\xA9\xFF\xC3\xB6\x80"},
                                           {"\xF0\x9D\x85\xA0", "\xF0\x9D\x85\x98\xF0\x9D\x85\xA5\xF0\x9D\x85\xAE"}};
    Tokenizer *t = changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    if (!t) return;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        TokenList a = encode_text(t, cases[i][0], strlen(cases[i][0]), false);
        size_t n;
        char *text = tokenizer_decode(t, a.ids, a.n, &n);
        CHECK_MSG(strcmp(text, cases[i][1]) == 0, "case %zu: \"%s\"", i, text);
        check_round_trip(t, cases[i][1], strlen(cases[i][1]));
        free(text);
        token_list_free(&a);
    }
    tokenizer_free(t);
}

/* Alternating classes of marks: sorted by insertion, this would take minutes. */
TEST(tokenizer_composes_marks_without_end) {
    enum { PAIRS = 1 << 17 };
    Tokenizer *t = changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    char *text = malloc(4 * PAIRS);
    if (t && text) {
        for (int i = 0; i < PAIRS; i++) memcpy(text + 4 * i, "\xCC\x87\xCC\xA3", 4);
        TokenList a = encode_text(t, text, 4 * PAIRS, false);
        CHECK(a.n > 0);
        token_list_free(&a);
    }
    free(text);
    tokenizer_free(t);
}

TEST(tokenizer_bad_pipelines) {
    static const char *const cases[][2] = {
        {SEQUENCE("{\"type\": \"Whitespace\"}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].type is \"Whitespace\", only \"Split\" and \"Digits\" are supported before "
         "the last"},
        {SEQUENCE(SPLIT("x+")),
         "the last of pre_tokenizer.pretokenizers.type is \"Split\", only \"ByteLevel\" is supported here"},
        {SEQUENCE(SPLIT("(x") ", " BYTE_LEVEL("false")),
         "the pattern \"(x\" is no regular expression: missing closing parenthesis"},
        {SEQUENCE("{\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}, \"behavior\": \"Isolated\", \"invert\": "
                  "false}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].pattern is not {\"Regex\": ...}, the only form supported"},
        {SEQUENCE(
             "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behavior\": \"Removed\"}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].behavior is \"Removed\", only \"Isolated\" is supported"},
        {SEQUENCE(SPLIT("a") ", " SPLIT("b") ", " SPLIT("c") ", " SPLIT("d") ", " SPLIT("e") ", " SPLIT("f") ", " SPLIT(
             "g") ", " SPLIT("h") ", " BYTE_LEVEL("true")),
         "the last of pre_tokenizer.pretokenizers: only 8 expressions after one another are supported"},
        {SEQUENCE("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behavior\": \"Isolated\", \"invert\": "
                  "true}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].invert is true, only false is supported"},
        {SEQUENCE("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behavior\": \"Isolated\", \"invert\": "
                  "1}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].invert is 1, must be true or false"},
        {SEQUENCE("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behaviour\": 1}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0] has the unknown key \"behaviour\" (known: type pattern behavior invert)"},
        {SEQUENCE(SPLIT("x+") ", {\"type\": \"ByteLevel\", \"add_prefix_space\": true}"),
         "the last of pre_tokenizer.pretokenizers.add_prefix_space is true, only false is supported in a sequence"},
        {SEQUENCE(""), "pre_tokenizer.pretokenizers has 0 elements, only 1 to 9 are supported"},
        {SEQUENCE("{\"type\": \"Digits\", \"individual_digits\": 1}, " BYTE_LEVEL("false")),
         "pre_tokenizer.pretokenizers[0].individual_digits is 1, must be true or false"},
    };
    char *json = small_json();
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text = text_replace(json, ALONE, cases[i][0]);
        Tokenizer *t = NULL;
        Err err = {""};
        CHECK(text && tokenizer_json_parse(&t, text, strlen(text), &err) == -1);
        CHECK_MSG(strcmp(err.msg, cases[i][1]) == 0, "\"%s\", want\n    \"%s\"", err.msg, cases[i][1]);
        free(text);
    }
    free(json);
}

/* ---- cuts ---- */

/* Of "a b\nc d", where the two characters of `piece` are merged. */
static size_t first_cut_with(const char *piece) {
    Tokenizer *t = changed(ALONE, DEEPSEEK_CODER);
    TokenizerSpec s = *tokenizer_spec(t);
    TokenText *pieces = xcalloc((size_t)s.n_pieces + 1, sizeof *pieces);
    TokenMerge *merges = xcalloc((size_t)s.n_merges + 1, sizeof *merges);
    memcpy(pieces, s.pieces, (size_t)s.n_pieces * sizeof *pieces);
    memcpy(merges, s.merges, (size_t)s.n_merges * sizeof *merges);
    merges[s.n_merges++] = (TokenMerge){s.byte_ids[(int)piece[0]], s.byte_ids[(int)piece[1]], s.n_pieces};
    pieces[s.n_pieces++] = (TokenText){.data = piece, .n = 2};
    s.pieces = pieces;
    s.merges = merges;
    Tokenizer *joining = tokenizer_build(&s, NULL);
    size_t cut = tokenizer_cut(joining, "a b\nc d", 0, 7);
    tokenizer_free(joining);
    tokenizer_free(t);
    free(pieces);
    free(merges);
    return cut;
}

TEST(tokenizer_cuts_change_no_id) {
    static const char *const patterns[] = {ALONE, LLAMA3, NEMO, SMOLLM2, DEEPSEEK_CODER};
    for (size_t i = 0; i < COUNTOF(patterns); i++) {
        Tokenizer *t = changed(ALONE, patterns[i]);
        REQUIRE(t);
        CHECK(check_cuts(t) > FEWER(1000));
        tokenizer_free(t);
    }
    Tokenizer *composing = changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    CHECK(check_cuts(composing) > FEWER(1000));
    tokenizer_free(composing);
    /* pieces across a cut, which some expressions let be one word */
    static const char *const across[] = {"= ", "\nb"}, *const within[] = {" =", "  ", "\n "};
    for (size_t i = 0; i < COUNTOF(across); i++) CHECK_MSG(first_cut_with(across[i]) == 7, "\"%s\"", across[i]);
    for (size_t i = 0; i < COUNTOF(within); i++) CHECK_MSG(first_cut_with(within[i]) == 1, "\"%s\"", within[i]);
    /* an added token with a blank inside, which a cut would take apart */
    Tokenizer *blank = changed("<|endoftext|>", "<|end of text|>");
    CHECK(tokenizer_cut(blank, "a b", 0, 3) == 3);
    tokenizer_free(blank);
}
