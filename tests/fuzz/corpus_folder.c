/* A folder of token ids as somebody may have left it: index.json, 0xFF, and what both first shards hold. An index that
 * is read says the same when it is saved again; rows that are mapped lie in their files, and no id that is read is
 * beyond the vocabulary. */
#include "tests/fuzz/fuzz.h"
#include "trainer/text/corpus_map.h"
#include "trainer/text/windows.h"

#include <stdlib.h>
#include <string.h>

static void check_windows(const CorpusIndex *x, const Corpus *c) {
    enum { T = 4 };
    Windows w;
    Err err = {""};
    int tokens[T], targets[T];
    CHECK(c->train.n == x->rows[ROW_TRAIN].ids && c->val.n == x->rows[ROW_HELD_OUT].ids && corpus_intact(c));
    if (windows_init(&w, c->train, T, 7, &err)) {
        CHECK(c->train.n < T + 1 && err.msg[0]);
        return;
    }
    for (uint64_t p = 0; p < 2 * MIN(w.rows[0].n, (size_t)64); p++) {
        if (windows_read(&w, p, x->vocab_size, tokens, targets, &err)) continue;
        for (int i = 0; i < T; i++) CHECK(tokens[i] >= 0 && tokens[i] < x->vocab_size && targets[i] < x->vocab_size);
        for (int i = 0; i + 1 < T; i++) CHECK(targets[i] == tokens[i + 1]);
    }
    windows_free(&w);
}

static void check_saved(const CorpusIndex *x) {
    CorpusIndex again;
    Err err = {""};
    char a[SHA256_HEX], b[SHA256_HEX];
    CHECK_MSG(corpus_index_save(x, fuzz_folder(), &err) == 0, "%s", err.msg);
    CHECK_MSG(corpus_index_load(&again, fuzz_folder(), &err) == 0, "%s", err.msg);
    corpus_index_sha256(x, a);
    corpus_index_sha256(&again, b);
    CHECK(!strcmp(a, b) && x->unfinished == again.unfinished && x->at.byte == again.at.byte);
    corpus_index_free(&again);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    CorpusIndex x;
    Corpus c;
    Err err = {""};
    size_t n_index, n_shard;
    char *index = fuzz_until(&in, 0xFF, &n_index), *shard = fuzz_rest(&in, &n_shard);
    fuzz_file("index.json", index, n_index);
    fuzz_file("train-00000.ids", shard, n_shard);
    fuzz_file("held_out-00000.ids", shard, n_shard);
    free(index);
    free(shard);
    if (corpus_index_load(&x, fuzz_folder(), &err)) {
        CHECK(strstr(err.msg, "index.json"));
        return;
    }
    if (n_shard % 8 == 1) check_saved(&x); /* waits for the disk */
    if (!x.unfinished) {
        bool known = corpus_checked(fuzz_folder(), &x, &err) == 0; /* else no shard would have its sha256 */
        int rc = corpus_map(&c, fuzz_folder(), &x, &err);
        CHECK(rc == 0 || strstr(err.msg, ".ids"));
        CHECK(rc || known);
        if (rc == 0) check_windows(&x, &c);
        corpus_close(&c);
    }
    corpus_index_free(&x);
}

TEST(fuzz_corpus_folder) { fuzz_run("corpus_folder", look); }
