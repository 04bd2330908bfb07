#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* A good file with one thing changed must be refused with this message. */
typedef struct Bad {
    const char *from, *to, *message;
} Bad;

static void check_message(const char *what, const char *text, size_t n, const char *message) {
    Tokenizer *t = NULL;
    Err err = {""};
    CHECK_MSG(tokenizer_json_parse(&t, text, n, &err) == -1 && !t, "%s: no error", what);
    CHECK_MSG(strcmp(err.msg, message) == 0, "%s:\n    \"%s\", want\n    \"%s\"", what, err.msg, message);
    tokenizer_free(t);
}

static void check_bad(const char *json, const Bad *bad, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *text = text_replace(json, bad[i].from, bad[i].to);
        CHECK_MSG(text != NULL, "the good file has no %s", bad[i].from);
        if (text) check_message(bad[i].to, text, strlen(text), bad[i].message);
        free(text);
    }
}

#define G "\xC4\xA0" /* a space in GPT-2's alphabet */
#define BYTE_LEVEL_KEYS "type add_prefix_space trim_offsets use_regex"
#define FILE_KEYS "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model"
#define MODEL_KEYS                                                                                                     \
    "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges vocab "  \
    "merges"
#define ONE_ADDED "\"id\": 0,\n      \"content\": \"<|endoftext|>\","
#define SECOND_ADDED(id, content)                                                                                      \
    "\"id\": " id ", \"content\": \"" content "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "     \
    "\"normalized\": false, \"special\": true}, {" ONE_ADDED
#define POST(single)                                                                                                   \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [" single "], \"pair\": [], "                  \
    "\"special_tokens\": {\"!\": {\"id\": \"!\", \"ids\": [400], \"tokens\": [\"!\"]}}}"

#define POST_SEQUENCE(list) "\"post_processor\": {\"type\": \"Sequence\", \"processors\": [" list "]}"
#define TEMPLATES(n)                                                                                                   \
    "post_processor.single has " #n " elements, only A is supported, with a token in front of it, behind it, or both"

static const Bad BAD_TOP[] = {
    {"\"version\": \"1.0\"", "\"version\": \"2.0\"", "version is \"2.0\", only \"1.0\" is supported"},
    {"\"version\": \"1.0\"", "\"version\": 1", "version is 1, only \"1.0\" is supported"},
    {"\"version\": \"1.0\"", "\"words\": 1", "the file has the unknown key \"words\" (known: " FILE_KEYS ")"},
    {"\"truncation\": null", "\"truncation\": 4", "truncation is 4, must be an object or null"},
    {"\"padding\": null", "\"padding\": \"max\"", "padding is \"max\", must be an object or null"},
    {"\"model\":", "\"decoder2\":", "the file has the unknown key \"decoder2\" (known: " FILE_KEYS ")"},
};

static const Bad BAD_PIPELINE[] = {
    {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}",
     "normalizer is \"NFKC\", only null and \"NFC\" are supported with a byte-level vocabulary"},
    {"\"normalizer\": null", "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}]}",
     "normalizer is \"Sequence\", only null and \"NFC\" are supported with a byte-level vocabulary"},
    {"\"normalizer\": null", "\"normalizer\": 7",
     "normalizer is 7, only null and \"NFC\" are supported with a byte-level vocabulary"},
    {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\", \"form\": 1}",
     "normalizer has the unknown key \"form\" (known: type)"},
    {"\"pre_tokenizer\": {\"type\": \"ByteLevel\"", "\"pre_tokenizer\": {\"type\": \"Whitespace\"",
     "pre_tokenizer.type is \"Whitespace\", only \"ByteLevel\" is supported here"},
    {"\"pre_tokenizer\": {\"type\": \"ByteLevel\"", "\"pre_tokenizer\": {\"typ\": \"ByteLevel\"",
     "pre_tokenizer.type is missing, only \"ByteLevel\" is supported here"},
    {"\"pre_tokenizer\": {\"type\": \"ByteLevel\"", "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"split\": 1",
     "pre_tokenizer has the unknown key \"split\" (known: " BYTE_LEVEL_KEYS ")"},
    {"\"add_prefix_space\": false", "\"add_prefix_space\": 0",
     "pre_tokenizer.add_prefix_space is 0, must be true or false"},
    {"\"add_prefix_space\": false, ", "", "pre_tokenizer.add_prefix_space is missing"},
    {"\"use_regex\": true", "\"use_regex\": null", "pre_tokenizer.use_regex is null, must be true or false"},
    {"\"decoder\": {\"type\": \"ByteLevel\"", "\"decoder\": {\"type\": \"WordPiece\"",
     "decoder.type is \"WordPiece\", only \"ByteLevel\" is supported here"},
    {"\"post_processor\": null", "\"post_processor\": {\"type\": \"BertProcessing\"}",
     "post_processor.type is \"BertProcessing\", only \"TemplateProcessing\" is supported here"},
    {"\"post_processor\": null", POST("{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"!\"}}"),
     "post_processor.special_tokens: \"!\" does not name one id below 320"},
    {"\"post_processor\": null", POST("{\"Sequence\": {\"id\": \"A\"}}, {\"Sequence\": {\"id\": \"A\"}}"),
     TEMPLATES(2)},
    {"\"post_processor\": null", POST("{\"SpecialToken\": {\"id\": \"!\"}}"), TEMPLATES(1)},
    {"\"post_processor\": null",
     POST("{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"!\"}}, {\"SpecialToken\": {\"id\": \"!\"}}"),
     TEMPLATES(3)},
    {"\"post_processor\": null", POST("{\"SpecialToken\": {\"id\": \"!\"}}, {\"Sequence\": {\"id\": \"A\"}}"),
     "post_processor.special_tokens: \"!\" does not name one id below 320"},
    {"\"post_processor\": null", "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": {}}",
     TEMPLATES(0)},
    {"\"post_processor\": null", POST("{\"Sequence\": {\"id\": \"B\"}}"), TEMPLATES(1)},
    {"\"post_processor\": null",
     POST("{\"SpecialToken\": {\"id\": \"!\"}}, {\"Sequence\": {\"id\": \"A\"}}, {\"Sequence\": {\"id\": \"B\"}}"),
     TEMPLATES(3)},
    {"\"post_processor\": null", POST_SEQUENCE(""),
     "post_processor.processors has 0 elements, only 1 to 2 are supported"},
    {"\"post_processor\": null", POST_SEQUENCE("{\"type\": \"ByteLevel\"}, {\"type\": \"BertProcessing\"}"),
     "post_processor.type is \"BertProcessing\", only \"TemplateProcessing\" is supported here"},
    {"\"post_processor\": null",
     "\"post_processor\": {\"type\": \"Sequence\", \"processors\": {\"type\": \"ByteLevel\"}}",
     "post_processor.processors has 1 elements, only 1 to 2 are supported"},
    {"\"post_processor\": null", POST("{\"SpecialToken\": {\"id\": 7}}, {\"Sequence\": {\"id\": \"A\"}}"),
     "post_processor.special_tokens: 7 does not name one id below 320"},
};

static const Bad BAD_ADDED[] = {
    {"\"added_tokens\": [", "\"added_tokens\": {}, \"x\": [",
     "the file has the unknown key \"x\" (known: " FILE_KEYS ")"},
    {"\"added_tokens\": [", "\"added_tokens\": [7, ", "added_tokens[0] is 7, must be an object"},
    {"\"single_word\": false", "\"single_word\": true", "added_tokens[0].single_word is true, only false is supported"},
    {"\"lstrip\": false", "\"lstrip\": true", "added_tokens[0].lstrip is true, only false is supported"},
    {"\"rstrip\": false", "\"rstrip\": \"yes\"", "added_tokens[0].rstrip is \"yes\", must be true or false"},
    {"\"special\": true", "\"special\": 1", "added_tokens[0].special is 1, must be true or false"},
    {"\"special\": true", "\"special\": true, \"bold\": 1",
     "added_tokens[0] has the unknown key \"bold\" (known: id content single_word lstrip rstrip normalized special)"},
    {"\"content\": \"<|endoftext|>\"", "\"content\": \"\"", "added_tokens[0].content is \"\", must be a text"},
    {ONE_ADDED, "\"id\": 5, \"content\": \"<|endoftext|>\",",
     "added_tokens[0]: \"<|endoftext|>\" has the id 5, but 0 in model.vocab"},
    {ONE_ADDED, "\"id\": 7, \"content\": \"<x>\",",
     "added_tokens[0]: \"<x>\" has the id 7, which is \"'\" in model.vocab"},
    {ONE_ADDED, SECOND_ADDED("320", "<x>") "\"id\": 320,", "not valid JSON: the key \"id\" occurs twice in one object"},
    {ONE_ADDED, SECOND_ADDED("0", "<|endoftext|>"),
     "added_tokens[1] (id 0, \"<|endoftext|>\") repeats added_tokens[0] (id 0, \"<|endoftext|>\")"},
    {ONE_ADDED, SECOND_ADDED("321", "<x>"), "no token has the id 320, but ids go up to 321"},
    {ONE_ADDED, SECOND_ADDED("221", G), "model.vocab has no piece for the byte 0x20"},
};

static const Bad BAD_MODEL[] = {
    {"\"type\": \"BPE\"", "\"type\": \"Unigram\"",
     "model.type is \"Unigram\", only \"BPE\" and \"WordLevel\" are supported"},
    {"\"dropout\": null", "\"dropout\": 0.25", "model.dropout is 0.25, only null is supported"},
    {"\"unk_token\": null", "\"unk_token\": \"<unk>\"", "model.unk_token is \"<unk>\", which is not in model.vocab"},
    {"\"unk_token\": null", "\"unk_token\": []", "model.unk_token is an array, must be a string or null"},
    {"\"continuing_subword_prefix\": \"\"", "\"continuing_subword_prefix\": \"##\"",
     "model.continuing_subword_prefix is \"##\", only \"\" is supported"},
    {"\"end_of_word_suffix\": \"\"", "\"end_of_word_suffix\": \"</w>\"",
     "model.end_of_word_suffix is \"</w>\", only \"\" is supported"},
    {"\"fuse_unk\": false", "\"fuse_unk\": {}", "model.fuse_unk is an object, must be true or false"},
    {"\"fuse_unk\": false", "\"fuse\": false", "model has the unknown key \"fuse\" (known: " MODEL_KEYS ")"},
    {"\"byte_fallback\": false", "\"byte_fallback\": true",
     "pre_tokenizer.type is \"ByteLevel\", only \"Metaspace\" is supported here"},
};

static const Bad BAD_VOCAB[] = {
    {"\"A\": 33", "\"A\": 34", "model.vocab: \"A\" and \"B\" have the same id 34"},
    {"\"A\": 33", "\"A\": 33, \"A\": 320", "not valid JSON: the key \"A\" occurs twice in one object"},
    {"\"A\": 33", "\"A\": 33, \"\\u0041\": 320", "not valid JSON: the key \"A\" occurs twice in one object"},
    {"\"A\": 33", "\"A\": 33.5", "model.vocab: \"A\" has the id 33.5, must be an integer in 0..16777216"},
    {"\"A\": 33", "\"A\": -1", "model.vocab: \"A\" has the id -1, must be an integer in 0..16777216"},
    {"\"A\": 33", "\"A\": 1e300", "model.vocab: \"A\" has the id 1e+300, must be an integer in 0..16777216"},
    {"\"A\": 33", "\"A\": \"33\"", "model.vocab: \"A\" has the id \"33\", must be an integer in 0..16777216"},
    {"\"A\": 33", "\"A\": 9000000", "model.vocab: \"A\" has the id 9000000, but 321 tokens leave holes below it"},
    {"\"A\": 33", "\"A\": 320", "no token has the id 33, but ids go up to 320"},
    {"\"A\": 33", "\"AA\": 33", "model.vocab has no piece for the byte 0x41"},
    {"\"" G "\": 221", "\"" G G "\": 221", "model.vocab has no piece for the byte 0x20"},
    {"\"A\": 33", "\"A\": 33, \"\": 320", "model.vocab: the piece with the id 320 is empty"},
    {"\"A\": 33", "\"A\": 33, \"a b\": 320", "model.vocab: \"a b\" (id 320) has a character that stands for no byte"},
    {"\"A\": 33", "\"A\": 33, \"\xE2\x96\x81\": 320",
     "model.vocab: \"\xE2\x96\x81\" (id 320) has a character that stands for no byte"},
    {"\"vocab\": {", "\"vocab\": [], \"merges\": {", "not valid JSON: the key \"merges\" occurs twice in one object"},
};

static const Bad BAD_MERGES[] = {
    {"\"" G " w\"", "\"" G "w\"", "model.merges[0] is \"" G "w\", must be two pieces with one space between"},
    {"\"" G " w\"", "\"" G "  w\"", "model.merges[0] is \"" G "  w\", must be two pieces with one space between"},
    {"\"" G " w\"", "\" " G "w\"", "model.merges[0] is \" " G "w\", must be two pieces with one space between"},
    {"\"" G " w\"", "7", "model.merges[0] is 7, must be \"left right\" or [\"left\", \"right\"]"},
    {"\"" G " w\"", "[\"" G "\"]", "model.merges[0] is another array, must be \"left right\" or [\"left\", \"right\"]"},
    {"\"" G " w\"", "[\"" G "\", \"w\", \"\"]",
     "model.merges[0] is another array, must be \"left right\" or [\"left\", \"right\"]"},
    {"\"" G " w\"", "[\"" G "\", null]",
     "model.merges[0] is another array, must be \"left right\" or [\"left\", \"right\"]"},
    {"\"" G " w\"", "\"QQ w\"", "model.merges[0]: \"QQ\" is not in model.vocab"},
    {"\"" G " w\"", "\"w QQ\"", "model.merges[0]: \"QQ\" is not in model.vocab"},
    {"\"" G " w\"", "\"w " G "\"", "model.merges[0]: \"w" G "\" is not in model.vocab"},
    {"\"" G " w\"", "\"t h\"", "model.merges[1] (\"t\" + \"h\") repeats model.merges[0]"},
    {"\"" G " w\"", "[\"" G "\", \"\"]", "model.merges[0]: \"\" is not in model.vocab"},
};

TEST(tokenizer_bad_files) {
    char *json = small_json();
    check_bad(json, BAD_TOP, COUNTOF(BAD_TOP));
    check_bad(json, BAD_PIPELINE, COUNTOF(BAD_PIPELINE));
    check_bad(json, BAD_ADDED, COUNTOF(BAD_ADDED));
    check_bad(json, BAD_MODEL, COUNTOF(BAD_MODEL));
    check_bad(json, BAD_VOCAB, COUNTOF(BAD_VOCAB));
    check_bad(json, BAD_MERGES, COUNTOF(BAD_MERGES));
    strcpy(strstr(json, ",\n    \"merges\""), "}}");
    check_message("no merges", json, strlen(json), "model.merges is missing, must be an array");
    free(json);
}

#define MARK "\xE2\x96\x81"

static const Bad BAD_LLAMA[] = {
    {"\"normalizers\":[", "\"normalizers\":[{\"type\":\"NFKC\"},",
     "normalizer.normalizers has 3 elements, only 2 to 2 are supported"},
    {"{\"type\":\"Prepend\"", "{\"type\":\"Strip\"",
     "normalizer.normalizers[0].type is \"Strip\", only \"Prepend\" is supported here"},
    {"\"prepend\":\"" MARK "\"", "\"prepend\":\"_\"",
     "normalizer.normalizers[0].prepend is \"_\", only \"" MARK "\" is supported"},
    {"{\"String\":\" \"}", "{\"Regex\":\" \"}",
     "normalizer.normalizers[1].pattern is not {\"String\": \" \"}, the only one supported"},
    {"\"content\":\"" MARK "\"", "\"content\":\"_\"",
     "normalizer.normalizers[1].content is \"_\", only \"" MARK "\" is supported"},
    {"\"normalizer\":{\"type\":\"Sequence\"", "\"normalizer\":{\"type\":\"Precompiled\"",
     "normalizer.type is \"Precompiled\", only \"Sequence\" is supported here"},
    {"\"pre_tokenizer\":null", "\"pre_tokenizer\":{\"type\":\"Metaspace\"}",
     "normalizer is an object and pre_tokenizer is an object; model.byte_fallback wants one of them"},
    {"{\"type\":\"ByteFallback\"},", "",
     "decoder.decoders[1].type is \"Fuse\", only \"ByteFallback\" is supported here"},
    {"\"start\":1", "\"start\":2", "decoder.decoders[3] strips start 2 and stop 0, only 0 or 1 and 0 are supported"},
    {",{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", "",
     "decoder.decoders has 2 elements, only 3 to 4 are supported"},
    {"\"<0x41>\":68", "\"<0x4a>\":68", "model.byte_fallback is true, but model.vocab has no piece \"<0x41>\""},
    {"\"id\":0,\"content\":\"<unk>\"", "\"id\":3,\"content\":\"<0x00>\"",
     "added_tokens[0]: \"<0x00>\" is a byte piece"},
    {"\"byte_fallback\":true", "\"byte_fallback\":false",
     "normalizer is \"Sequence\", only null and \"NFC\" are supported with a byte-level vocabulary"},
    {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"<pad>\"", "model.unk_token is \"<pad>\", which is not in model.vocab"},
    {"\"ids\":[1]", "\"ids\":7", "post_processor.special_tokens: \"<s>\" does not name one id below 278"},
    {"\"type\":\"Strip\"", "\"type\":\"Trim\"",
     "decoder.decoders[3].type is \"Trim\", only \"Strip\" is supported here"},
    {"\"stop\":0", "\"stop\":1", "decoder.decoders[3] strips start 1 and stop 1, only 0 or 1 and 0 are supported"},
    {"\"ids\":[1]", "\"ids\":[1,2]", "post_processor.special_tokens: \"<s>\" does not name one id below 278"},
};

static const Bad BAD_METASPACE[] = {
    {"\"replacement\":\"" MARK "\"", "\"replacement\":\"_\"",
     "pre_tokenizer.replacement is \"_\", only \"" MARK "\" is supported"},
    {"\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"",
     "pre_tokenizer.prepend_scheme is \"last\", must be \"first\", \"always\" or \"never\""},
    {"\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"first\",\"add_prefix_space\":false",
     "pre_tokenizer.prepend_scheme is \"first\", but add_prefix_space is false"},
    {"\"split\":false", "\"split\":\"no\"", "pre_tokenizer.split is \"no\", must be true or false"},
    {"\"type\":\"Metaspace\"", "\"type\":\"Split\"",
     "pre_tokenizer.type is \"Split\", only \"Metaspace\" is supported here"},
};

TEST(tokenizer_bad_llama_files) {
    char *json = llama_json(), *bare = text_replace(json, "\"pre_tokenizer\":null",
                                                    "\"pre_tokenizer\":"
                                                    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                                                    "\",\"prepend_scheme\":\"first\",\"split\":false}");
    check_bad(json, BAD_LLAMA, COUNTOF(BAD_LLAMA));
    char *from = strstr(bare, "\"normalizer\":"), *to = strstr(bare, "\"pre_tokenizer\":");
    char *normalizer = strndup(from, (size_t)(to - from));
    char *metaspace = text_replace(bare, normalizer, "\"normalizer\":null,");
    check_bad(metaspace, BAD_METASPACE, COUNTOF(BAD_METASPACE));
    free(json);
    free(bare);
    free(normalizer);
    free(metaspace);
}

#define MINIMAL(vocab)                                                                                                 \
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": "             \
    "\"ByteLevel\"}, "                                                                                                 \
    "\"model\": {\"vocab\": " vocab ", \"merges\": []}}"

TEST(tokenizer_bad_json) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "not valid JSON: unexpected end at byte 0"},
        {"[]", "the file is an array, must be an object"},
        {"null", "the file is null, must be an object"},
        {"{}", "model is missing, must be an object"},
        {"{\"model\": []}", "model is an array, must be an object"},
        {"{\"model\": {\"vocab\": {}, \"merges\": []}}",
         "pre_tokenizer.type is missing, only \"ByteLevel\" is supported here"},
        {MINIMAL("[]"), "model.vocab is an array, must be an object"},
        {MINIMAL("{}"), "model.vocab has no piece for the byte 0x00"},
        {"{\"model\": {}} x", "not valid JSON: something behind the end at byte 14"},
        {"{\"version\": \"1\\u00000\"}", "not valid JSON: a NUL character at byte 20"},
        {"{\"version\": \"\xFF\"}", "not valid JSON: invalid UTF-8 at byte 13"},
        {"{\"version\": \"a\nb\"}", "not valid JSON: a control character in a string at byte 14"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++)
        check_message(cases[i].text, cases[i].text, strlen(cases[i].text), cases[i].message);
    check_message("NUL", "{}\0", 3, "not valid JSON: something behind the end at byte 2");
    char deep[2000];
    memset(deep, '[', sizeof deep);
    check_message("deep", deep, sizeof deep, "not valid JSON: nesting deeper than 32 at byte 32");
}

/* A good file cut anywhere, or with any byte changed, is read or refused, but never more than that. */
TEST(tokenizer_bad_bytes) {
    char *json = small_json();
    size_t n = strlen(json);
    Draws d = draws_open(7, DRAW_TEST, 0);
    for (int i = 0; i < 600; i++) {
        char *copy = xmalloc(n);
        size_t length = i % 3 ? n : draw_below(&d, n);
        memcpy(copy, json, n);
        for (uint64_t k = i % 3; k > 0; k--) copy[draw_below(&d, n)] = "0\"{}[],:\\u \x80"[draw_below(&d, 12)];
        char *exact = xmalloc(length);
        memcpy(exact, copy, length);
        Tokenizer *t = NULL;
        Err err = {""};
        int rc = tokenizer_json_parse(&t, exact, length, &err);
        CHECK((rc == 0) == (t != NULL) && (rc == 0 || err.msg[0]));
        if (t) check_round_trip(t, SMALL_TEXT, strlen(SMALL_TEXT));
        tokenizer_free(t);
        free(exact);
        free(copy);
    }
    free(json);
}
