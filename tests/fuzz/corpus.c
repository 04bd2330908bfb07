/* Texts to train on, and the cache of their ids as somebody may have left it. An input is changes to the good cache,
 * each a place (2 bytes) and a byte, up to a 0xFF in the place of the first, and the text. Whatever the cache holds,
 * what is read are ids of the vocabulary, and of the right cache the text itself. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "trainer/text/windows.h"

#include <stdlib.h>
#include <string.h>

static Tokenizer *tokenizer;

static void check_windows(const Corpus *c, int vocab) {
    enum { T = 4 };
    Windows w;
    Err err = {""};
    int tokens[T], targets[T];
    if (windows_init(&w, c->train, T, 7, &err)) {
        CHECK(c->train.n < T + 1 && err.msg[0]);
        return;
    }
    size_t n = w.rows[0].n;
    CHECK(n >= 1 && n * T < c->train.n);
    for (uint64_t p = 0; p < 2 * MIN(n, (size_t)64); p++) {
        CHECK_MSG(windows_read(&w, p, vocab, tokens, targets, &err) == 0, "%s", err.msg);
        for (int i = 0; i < T; i++) CHECK(tokens[i] >= 0 && tokens[i] < vocab && targets[i] >= 0 && targets[i] < vocab);
        for (int i = 0; i + 1 < T; i++) CHECK(targets[i] == tokens[i + 1]);
    }
    windows_free(&w);
}

static void check_text(const Corpus *c, const Texts *t) {
    int *ids = xmalloc((c->train.n + 1) * sizeof *ids);
    size_t n;
    for (size_t i = 0; i < c->train.n; i++) ids[i] = token_at(&c->train, i);
    char *text = tokenizer_decode(tokenizer, ids, c->train.n, &n);
    CHECK_MSG(n == t->train[0].n && !memcmp(text, t->train[0].data, n), "%zu bytes come back as %zu", t->train[0].n, n);
    free(text);
    free(ids);
}

static void change(FuzzInput *in, const char *path) {
    size_t n;
    char *file = test_read_file(path, &n);
    while (in->left >= 3 && *in->at != 0xFF) {
        size_t place = (size_t)fuzz_byte(in) | (size_t)fuzz_byte(in) << 8;
        file[place % n] = (char)fuzz_byte(in);
    }
    fuzz_byte(in);
    fuzz_file("tokens.bin", file, n);
    free(file);
}

static void open_twice(const Texts *t, FuzzInput *changes) {
    Corpus c;
    Err err = {""};
    int vocab = tokenizer_vocab_size(tokenizer);
    fuzz_remove("tokens.bin");
    char path[512];
    snprintf(path, sizeof path, "%s/tokens.bin", fuzz_folder());
    for (int pass = 0; pass < 2; pass++) {
        CHECK_MSG(corpus_open(&c, path, t, tokenizer, "hash", 0, &err) == 0, "%s", err.msg);
        CHECK(c.train.n > 0 && corpus_intact(&c) && (pass > 0 || c.rebuilt));
        if (c.rebuilt) check_text(&c, t);
        check_windows(&c, vocab);
        corpus_close(&c);
        change(changes, path);
    }
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n}, changes = in;
    Err err = {""};
    Texts t;
    while (in.left >= 3 && *in.at != 0xFF) in.at += 3, in.left -= 3;
    fuzz_byte(&in);
    const char *paths[] = {fuzz_file("text.txt", in.at, in.left)};
    bool held_out = n % 2;
    if (texts_load(&t, paths, 1, held_out ? NULL : VAL_NONE, &err)) {
        CHECK(strstr(err.msg, "text.txt"));
        return;
    }
    size_t n_val = t.n_val ? t.val[0].n : 0;
    CHECK(utf8_is_valid(t.train[0].data, t.train[0].n) && t.train[0].n + n_val == in.left && (held_out || !n_val));
    CHECK(!n_val || utf8_is_valid(t.val[0].data, n_val));
    open_twice(&t, &changes);
    texts_free(&t);
}

TEST(fuzz_corpus) {
    tokenizer = small_tokenizer();
    fuzz_run("corpus", look);
    tokenizer_free(tokenizer);
}
