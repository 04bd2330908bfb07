/* vocab.json and merges.txt: GPT-2's tokenizer before tokenizer.json. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/test.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* dir/name becomes a link to a shared file; false without it. */
static bool link_shared(const char *dir, const char *name, const char *shared) {
    const char *from = test_shared(shared);
    char full[4096];
    bool there = from && realpath(from, full);
    BUG_ON(there && symlink(full, test_text("%s/%s", dir, name)));
    return there;
}

static char *saved(const Tokenizer *t, const char *dir, size_t *n) {
    const char *path = test_text("%s/saved.json", dir);
    BUG_ON(tokenizer_json_save(t, path, NULL));
    return test_read_file(path, n);
}

TEST(import_tokenizer_is_that_of_tokenizer_json) {
    const char *there = test_shared("tokenizer/tokenizer.json");
    if (!there) SKIP("no tokenizer files beside the checkout");
    const char *old = test_dir(), *new = test_dir();
    Tokenizer *a, *b;
    Err err = {""};
    size_t n_a, n_b;
    REQUIRE(link_shared(old, "vocab.json", "tokenizer/vocab.json") &&
            link_shared(old, "merges.txt", "tokenizer/merges.txt") &&
            link_shared(new, "tokenizer.json", "tokenizer/tokenizer.json"));
    int rc = tokenizer_files_load(&a, old, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    REQUIRE(rc == 0 && tokenizer_files_load(&b, new, &err) == 0 && a && b);
    char *x = saved(a, old, &n_a), *y = saved(b, new, &n_b);
    CHECK(n_a == n_b && !memcmp(x, y, n_a) && tokenizer_find_special(a, "<|endoftext|>") == 50256);
    tokenizer_free(a);
    tokenizer_free(b);
    free(x);
    free(y);
}

/* The 256 bytes, "ab" and what `more` says. */
static char *small_vocab(const char *more) {
    char *text = NULL;
    size_t n;
    int extra = 0;
    FILE *f = open_memstream(&text, &n);
    for (int b = 0; b < 256; b++) {
        bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
        int c = itself ? b : 256 + extra++;
        fprintf(f, "%c\"\\u%04x\":%d", b ? ',' : '{', (unsigned)c, b);
    }
    fprintf(f, ",\"ab\":256%s}", more);
    fclose(f);
    return text;
}

TEST(import_tokenizer_files) {
    static const struct {
        const char *more, *merges, *why;
    } cases[] = {
        {"", "#version: 0.2\na b\n", NULL},
        {"", "a b", NULL},
        {"", "#version: 0.2\r\na b\r\n\r\n", NULL},
        {",\"<|endoftext|>\":257", "a b\n", NULL},
        {",\"xa\":\"y\"", "a b\n",
         "vocab.json and merges.txt: model.vocab: \"xa\" has the id \"y\", must be an integer"},
        {",\"<|endoftext|>\":258", "a b\n", "vocab.json and merges.txt: no token has the id 257"},
        {",\"<|endoftext|>\":{}", "a b\n", "vocab.json: not valid JSON: nesting deeper than 1 "},
        {"", "a b\na\n", "vocab.json and merges.txt: model.merges[1] is \"a\", must be two pieces"},
        {"", "a b\na c\n", "vocab.json and merges.txt: model.merges[1]: \"ac\" is not in model.vocab"},
        {"", "a b\n#version: 0.2\n", "model.merges[1]: \"#version:\" is not in model.vocab"},
        {"", "a \xff\n", "UTF-8"},
    };
    const char *dir = test_dir();
    Tokenizer *t;
    Err err;
    REQUIRE(tokenizer_files_load(&t, dir, &err) == 0 && !t);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *vocab = small_vocab(cases[i].more);
        test_write_text(dir, "vocab.json", vocab);
        test_write_text(dir, "merges.txt", cases[i].merges);
        err.msg[0] = 0;
        int rc = tokenizer_files_load(&t, dir, &err);
        CHECK_MSG(cases[i].why ? rc == -1 && strstr(err.msg, cases[i].why) : rc == 0, "%zu: %s", i, err.msg);
        if (rc == 0) {
            TokenList ids = {0};
            CHECK(tokenizer_encode(t, "xab", 3, false, &ids, NULL) == 0 && ids.n == 2 && ids.ids[1] == 256);
            CHECK(tokenizer_find_special(t, "<|endoftext|>") == (*cases[i].more ? 257 : -1));
            token_list_free(&ids);
            tokenizer_free(t);
        }
        free(vocab);
    }
    test_write_text(dir, "tokenizer_config.json",
                    "{\"added_tokens_decoder\":{\"258\":{\"content\":\"<|im_start|>\"}}}");
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 &&
          strstr(err.msg, "tokenizer_config.json adds \"<|im_start|>\", which vocab.json lacks"));
    test_write_file(test_text("%s/merges.txt", dir), "a b\na\0b\n", 8);
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 && strstr(err.msg, "merges.txt: NUL at byte 5"));
    test_write_text(dir, "added_tokens.json", "{}");
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 &&
          strstr(err.msg, "added_tokens.json: only a tokenizer.json can add tokens to vocab.json and merges.txt"));
    unlink(test_text("%s/added_tokens.json", dir));
    unlink(test_text("%s/vocab.json", dir));
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 && strstr(err.msg, "vocab.json: No such file"));
    test_write_text(dir, "vocab.json", "{}");
    unlink(test_text("%s/merges.txt", dir));
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 && strstr(err.msg, "merges.txt: No such file"));
    test_write_text(dir, "tokenizer.json", "[]");
    CHECK(tokenizer_files_load(&t, dir, &err) == -1 && strstr(err.msg, "tokenizer.json: "));
}

/* The class puts tokens around a text by flags of its own, whatever tokenizer.json says. */
TEST(import_tokenizer_by_the_flags_of_its_class) {
    static const struct {
        const char *config;
        int bos, tail;
    } cases[] = {
        {"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true,\"bos_token\":\"<|endoftext|>\"}", 0, -1},
        {"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":true,\"add_eos_token\":true,"
         "\"bos_token\":{\"content\":\"<|endoftext|>\"},\"eos_token\":\"<|endoftext|>\"}",
         0, 0},
        {"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":false,\"bos_token\":\"<|endoftext|>\"}", -1,
         -1},
        {"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"bos_token\":\"<|endoftext|>\"}", -1, -1},
        {"{\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_bos_token\":true,\"bos_token\":\"<|endoftext|>\"}", -1, -1}};
    const char *dir = test_dir();
    char *json;
    REQUIRE((json = test_read_file(test_text("%s/tokenizer.json", test_checkpoint(CHECKPOINT_SMALL)), NULL)));
    test_write_text(dir, "tokenizer.json", json);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Tokenizer *t;
        Err err = {""};
        test_write_text(dir, "tokenizer_config.json", cases[i].config);
        int rc = tokenizer_files_load(&t, dir, &err);
        CHECK_MSG(rc == 0, "%s", err.msg);
        REQUIRE(rc == 0);
        CHECK_MSG(tokenizer_spec(t)->bos == cases[i].bos && tokenizer_spec(t)->tail == cases[i].tail, "%s: %d %d",
                  cases[i].config, tokenizer_spec(t)->bos, tokenizer_spec(t)->tail);
        tokenizer_free(t);
    }
    free(json);
}

/* What it lists is put beside the added tokens of tokenizer.json, or in their place. */
TEST(import_tokenizer_takes_the_added_tokens_of_its_config) {
    static const char file[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"added_tokens\":[{\"id\":257,\"content\":\"</s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false,\"special\":true}],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":";
    static const struct {
        const char *tokens, *why;
        bool ends; /* </s> is special */
        size_t n;  /* ids of the text below */
    } cases[] = {
        {"{}", NULL, true, 8},
        {"[{\"content\":\"<end>\"}]", NULL, true, 8},
        {"{\"257\":{\"content\":\"</s>\"}}", NULL, false, 8},
        {"{\"9\":{\"content\":\"</s>\",\"special\":true}}", NULL, true, 8},
        {"{\"258\":{\"content\":\"<end>\"},\"259\":{\"content\":\"\"}}", NULL, true, 4},
        {"{\"256\":{\"content\":\"ab\",\"special\":true}}", NULL, true, 7},
        {"", "tokenizer_config.json: ", false, 0},
        {"{\"257\":{\"content\":\"<end>\"}}", "\"<end>\" as \"257\", which cannot be added to the 258", false, 0},
        {"{\"0258\":{\"content\":\"<end>\"}}", "\"<end>\" as \"0258\", which cannot", false, 0},
        {"{\"97\":{\"content\":\"a\"}}", "\"a\" as \"97\", which cannot", false, 0},
        {"{\"258\":{\"content\":\"<end>\",\"lstrip\":true}}", "added_tokens_decoder.258.lstrip is true", false, 0},
        {"{\"257\":{\"content\":\"</s>\",\"rstrip\":true}}", "added_tokens_decoder.257.rstrip is true", false, 0},
        {"{\"257\":{\"content\":\"</s>\",\"special\":2}}", "added_tokens_decoder.257.special is 2", false, 0},
    };
    const char *dir = test_dir();
    char *vocab = small_vocab("");
    test_write_text(dir, "tokenizer.json", test_text("%s%s}}", file, vocab));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Tokenizer *t = NULL;
        TokenList ids = {0};
        Err err = {""};
        test_write_text(dir, "tokenizer_config.json", test_text("{\"added_tokens_decoder\":%s}", cases[i].tokens));
        int rc = tokenizer_files_load(&t, dir, &err);
        CHECK_MSG(cases[i].why ? rc == -1 && strstr(err.msg, cases[i].why) : rc == 0, "%zu: %s", i, err.msg);
        if (rc == 0) {
            CHECK_MSG(tokenizer_is_special(t, 257) == cases[i].ends, "%zu", i);
            CHECK(tokenizer_encode(t, "ab</s><end>", 11, true, &ids, NULL) == 0);
            CHECK_MSG(ids.n == cases[i].n, "%zu: %zu ids", i, ids.n);
        }
        token_list_free(&ids);
        tokenizer_free(t);
    }
    free(vocab);
}
