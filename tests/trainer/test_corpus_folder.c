/* A folder of ids as what training reads: the windows, what is refused, and runs that end in the bytes of runs over the
 * texts themselves. */
#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/test.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/text/corpus_map.h"
#include "trainer/text/tokenize.h"
#include "trainer/text/windows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- orders and windows ---- */

TEST(order_permuted_is_a_permutation) {
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 1000, 4097};
    for (size_t k = 0; k < COUNTOF(sizes); k++) {
        uint64_t n = sizes[k], alike = 0, fixed = 0;
        char *seen = xcalloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = order_permuted(n, 7, DRAW_ORDER, 2, i);
            REQUIRE(at < n && !seen[at]);
            seen[at] = 1;
            alike += at == order_permuted(n, 7, DRAW_ORDER, 3, i);
            fixed += at == i;
        }
        CHECK_MSG(n < 1000 || (alike < 10 && fixed < 10), "of %d: %d as in the next epoch, %d in their place", (int)n,
                  (int)alike, (int)fixed);
        free(seen);
    }
    uint64_t many = (uint64_t)3 << 40;
    CHECK(order_permuted(many, 7, DRAW_ORDER, 0, many - 1) < many);
    CHECK(order_permuted(many, 7, DRAW_ORDER, 0, 5) != order_permuted(many, 8, DRAW_ORDER, 0, 5));
}

TEST(order_has_a_table_of_few_and_none_of_many) {
    enum { FEW = 100 };
    uint32_t want[FEW];
    Order o;
    order_open(&o, FEW, 9);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        order_shuffle(want, FEW, 9, epoch);
        for (uint64_t i = 0; i < FEW; i++) CHECK(order_at(&o, epoch * FEW + i) == want[i]);
    }
    order_close(&o);
    uint64_t many = (uint64_t)ORDER_TABLE + 1;
    order_open(&o, many, 9);
    CHECK(!o.table && order_at(&o, many + 17) == order_permuted(many, 9, DRAW_ORDER, 1, 17));
    order_close(&o);
}

TEST(windows_mix_rows_by_weight) {
    enum { T = 2, A = 6, B = 4, N = 60 };
    uint16_t a[T * A + 1], b[T * B + 1];
    for (int i = 0; i < T * A + 1; i++) a[i] = (uint16_t)i;
    for (int i = 0; i < T * B + 1; i++) b[i] = (uint16_t)(100 + i);
    TokenSpan spans[] = {{.ids = (unsigned char *)a, .width = 2, .n = T * A + 1},
                         {.ids = (unsigned char *)b, .width = 2, .n = T * B + 1}};
    int weights[] = {3, 2}, first[N], tokens[T], targets[T], counts[2][A] = {{0}};
    Windows w, other;
    Err err;
    REQUIRE(windows_init_mixed(&w, spans, weights, 2, T, 5, &err) == 0);
    REQUIRE(windows_init_mixed(&other, spans, weights, 2, T, 5, &err) == 0);
    for (int p = 0; p < N; p++) {
        REQUIRE(windows_read(&w, (uint64_t)p, 200, tokens, targets, &err) == 0 && targets[0] == tokens[1]);
        first[p] = tokens[0];
    }
    for (int block = 0; block < N; block += 5) { /* 3 of 5, whatever the block */
        int of_b = 0;
        for (int p = block; p < block + 5; p++) of_b += first[p] >= 100;
        CHECK(of_b == 2);
    }
    for (int p = 0; p < N; p++) counts[first[p] >= 100][first[p] % 100 / T]++;
    for (int i = 0; i < A; i++) CHECK(counts[0][i] == N * 3 / 5 / A); /* as often as each other */
    for (int i = 0; i < B; i++) CHECK(counts[1][i] == N * 2 / 5 / B);
    for (int p = N - 1; p >= 0; p--) /* backwards: the same */
        CHECK(windows_read(&other, (uint64_t)p, 200, tokens, targets, &err) == 0 && tokens[0] == first[p]);
    windows_free(&w);
    windows_free(&other);
    spans[1].n = T;
    CHECK(windows_init_mixed(&w, spans, weights, 2, T, 5, &err) == -1 && strstr(err.msg, "2 tokens"));
}

TEST(windows_come_in_an_order_of_the_seed) {
    enum { T = 1, N = 32 };
    uint16_t ids[N + 1];
    for (int i = 0; i <= N; i++) ids[i] = (uint16_t)i;
    TokenSpan span = {.ids = (unsigned char *)ids, .width = 2, .n = N + 1};
    Windows w[3];
    Err err;
    int same = 0, other = 0, got[3], target;
    for (int k = 0; k < 3; k++) REQUIRE(windows_init(&w[k], span, T, (uint64_t)(k / 2), &err) == 0);
    for (int p = 0; p < N; p++) {
        for (int k = 0; k < 3; k++) CHECK(windows_read(&w[k], (uint64_t)p, 200, &got[k], &target, &err) == 0);
        same += got[0] == got[1];
        other += got[0] == got[2];
    }
    CHECK_MSG(same == N && other < N / 2, "%d and %d of %d", same, other, N);
    for (int k = 0; k < 3; k++) windows_free(&w[k]);
}

TEST(spans_go_on_in_each_other) {
    uint16_t a[] = {1, 2, 3}, b[] = {4}, c[] = {5, 6};
    TokenSpan spans[] = {{.ids = (unsigned char *)a, .width = 2, .n = 3},
                         {.ids = (unsigned char *)b, .width = 2, .n = 1},
                         {.ids = (unsigned char *)c, .width = 2, .n = 2}};
    for (int i = 2; i > 0; i--) token_span_join(&spans[i - 1], &spans[i]);
    CHECK(spans[0].n == 6);
    for (int i = 0; i < 6; i++) CHECK(token_at(&spans[0], (size_t)i) == i + 1);
}

/* ---- the folder ---- */

typedef struct Made {
    const char *dir, *text, *out, *shard; /* out: the corpus, shard: its second one */
} Made;

static void make(const char *text, const char *out, size_t n_vocab) {
    Err err = {""};
    Tokenize t = {.files = &text,
                  .n_files = 1,
                  .field = "text",
                  .vocab_size = (int)n_vocab,
                  .separator = "<|endoftext|>",
                  .out = out,
                  .shard_bytes = SHARD_UNIT};
    CHECK_MSG(tokenize(&t, &err) == 0, "%s", err.msg);
}

static Made made_open(void) {
    Made m = {.dir = test_dir(), .text = trainer_text_file(300000)};
    m.out = test_text("%s/corpus", m.dir);
    m.shard = test_text("%s/train-00001.ids", m.out);
    make(m.text, m.out, 300);
    return m;
}

/* NULL when it opens, else why not, until the next call. */
static const char *map_fails(const char *dir) {
    static Err err;
    CorpusIndex x;
    Corpus c = {0};
    if (corpus_index_load(&x, dir, &err)) return err.msg;
    int rc = corpus_map(&c, dir, &x, &err);
    corpus_close(&c);
    corpus_index_free(&x);
    return rc ? err.msg : NULL;
}

static void flip(const char *path, long at) {
    FILE *f = fopen(path, "r+");
    BUG_ON(!f || fseek(f, at, SEEK_SET));
    int byte = fgetc(f);
    BUG_ON(fseek(f, at, SEEK_SET) || fputc(byte ^ 1, f) == EOF || fclose(f));
}

TEST(corpus_folder_is_one_row) {
    Made m = made_open();
    CorpusIndex x;
    Corpus c;
    Texts texts;
    Tokenizer *tok;
    Err err;
    const char *text = m.text;
    const char *tokenizer = test_text("%s/tokenizer.json", m.out);
    TokenList want = {0};
    REQUIRE(corpus_index_load(&x, m.out, &err) == 0 && corpus_map(&c, m.out, &x, &err) == 0);
    CHECK(corpus_shards(&x, ROW_TRAIN) > 2 && corpus_shards(&x, ROW_HELD_OUT) == 1 && corpus_intact(&c));
    REQUIRE(tokenizer_json_load(&tok, tokenizer, &err) == 0 && texts_load(&texts, &text, 1, NULL, &err) == 0);
    REQUIRE(tokenizer_encode(tok, texts.train[0].data, texts.train[0].n, true, &want, &err) == 0);
    CHECK(c.train.n == want.n && c.train_bytes == texts.train[0].n && c.val_bytes == texts.val[0].n);
    for (size_t i = 0; i < MIN(want.n, c.train.n); i++) CHECK(token_at(&c.train, i) == want.ids[i]);
    flip(m.shard, 12);
    CHECK(!corpus_intact(&c));
    corpus_close(&c);
    corpus_index_free(&x);
    token_list_free(&want);
    texts_free(&texts);
    tokenizer_free(tok);
}

/* Only inode and time of change say whether a shard is read again: one that is known may have any sha256 in the index.
 */
TEST(corpus_shards_are_looked_at_once) {
    Made m = made_open();
    const char *index = test_text("%s/index.json", m.out), *checked = test_text("%s/checked.json", m.out);
    size_t n;
    char *good = test_read_file(index, &n), *bad = xstrdup(good), *sum = strstr(bad, "\"sha256\": [\"");
    REQUIRE(sum);
    sum += strlen("\"sha256\": [\"");
    *sum = *sum == 'a' ? 'b' : 'a';
    CHECK(!map_fails(m.out));
    test_write_file(index, bad, n);
    CHECK(!map_fails(m.out));
    chmod(m.shard, 0600); /* another one */
    CHECK(!map_fails(m.out));
    unlink(checked);
    const char *why = map_fails(m.out);
    CHECK_MSG(why && strstr(why, "train-00000.ids: its sha256 is") && strstr(why, "the index says"), "%s", why);
    test_write_file(index, good, n);
    CHECK(!map_fails(m.out) && access(checked, F_OK) == 0);
    free(good), free(bad);
}

TEST(corpus_folder_refuses) {
    Made m = made_open();
    size_t n;
    char *shard = test_read_file(m.shard, &n);
    const char *why;
    flip(m.shard, 100);
    why = map_fails(m.out);
    CHECK_MSG(why && strstr(why, "train-00001.ids: its sha256 is"), "%s", why);
    test_write_file(m.shard, shard, n - 2);
    why = map_fails(m.out);
    CHECK_MSG(why && strstr(why, "train-00001.ids: 65534 bytes, the index says 65536"), "%s", why);
    unlink(m.shard);
    why = map_fails(m.out);
    CHECK_MSG(why && strstr(why, "train-00001.ids: No such file"), "%s", why);
    test_write_file(m.shard, shard, n);
    CHECK(!map_fails(m.out));
    free(shard);
}

TEST(corpus_index_that_lies) {
    static const struct {
        const char *from, *to, *why;
    } lies[] = {
        {"corpus 1", "corpus 2", "format is \"noised corpus 2\""},
        {"\"vocab_size\": 300", "\"vocab_size\": 0", "vocab_size is 0"},
        {"\"vocab_size\": 300", "\"vocab_size\": 70000", "ids of 4 bytes fill"},
        {"\"separator\": 0", "\"separator\": 300", "separator is 300"},
        {"65536", "65537", "shard_bytes is 65537"},
        {"{\"ids\": ", "{\"ids\": 9", "entries, but 9"},
        {"{\"ids\": ", "{\"ids\": -", "train.ids is -"},
        {"\"sha256\": [\"", "\"sha256\": [\"x", "train.sha256 holds \"x"},
        {"\"sha256\": [", "\"sha256\": [3, ", "train.sha256 holds 3"},
        {"\"train\"", "\"trains\"", "train is missing"},
        {"\"separator\"", "\"seperator\"", "separator is missing"},
        {"\"format\"", "\"also\": 1, \"format\"", "unknown key also"},
        {"}}", "}, \"unfinished\": {}}", "entries, but"},
    };
    Made m = made_open();
    const char *index = test_text("%s/index.json", m.out);
    char *good = test_read_file(index, NULL);
    for (size_t i = 0; i < COUNTOF(lies); i++) {
        char *bad = text_replace(good, lies[i].from, lies[i].to);
        REQUIRE(bad);
        test_write_file(index, bad, strlen(bad));
        const char *why = map_fails(m.out);
        CHECK_MSG(why && strstr(why, index) && strstr(why, lies[i].why), "%s: %s", lies[i].to, why);
        free(bad);
    }
    free(good);
}

/* ---- runs ---- */

static const char settings[] = "--batch 2 --warmup 2 --lr 1e-2 --threads 1";

static void check_same_run(const Made *m, const char *a, const char *b) {
    static const char *const files[] = {"optimizer.safetensors", "model.safetensors"};
    const char *dirs[] = {test_text("%s/%s", m->dir, a), test_text("%s/%s", m->dir, b)};
    char hash[2][65];
    for (size_t i = 0; i < COUNTOF(files); i++) {
        for (int k = 0; k < 2; k++) trainer_hash_file(dirs[k], files[i], hash[k]);
        CHECK_MSG(!strcmp(hash[0], hash[1]), "%s of %s and %s differ", files[i], a, b);
    }
}

static void pretrain(const Made *m, const char *name, const char *more) {
    trainer_done(test_text("pretrain --out %s/%s %s %s", m->dir, name, settings, more));
}

TEST(pretrain_on_a_corpus_is_that_on_its_texts) {
    Made m = made_open();
    const char *config = trainer_config_file();
    pretrain(&m, "texts",
             test_text("--steps 6 --config %s --data %s --tokenizer %s/tokenizer.json", config, m.text, m.out));
    pretrain(&m, "ids", test_text("--steps 6 --config %s --data %s", config, m.out));
    check_same_run(&m, "texts", "ids");
}

TEST(pretrain_on_a_mixture_goes_on) {
    Made m = made_open();
    const char *config = trainer_config_file(), *second = test_text("%s/second", m.dir);
    Err err = {""};
    const char *text = trainer_text_file(9000);
    const char *tokenizer = test_text("%s/tokenizer.json", m.out);
    Tokenize t = {
        .files = &text, .n_files = 1, .field = "text", .tokenizer = tokenizer, .separator = "none", .out = second};
    REQUIRE(tokenize(&t, &err) == 0);
    pretrain(&m, "whole", test_text("--steps 6 --schedule constant --config %s --data %s:3 %s", config, m.out, second));
    pretrain(&m, "parts", test_text("--steps 2 --schedule constant --config %s --data %s:3 %s", config, m.out, second));
    pretrain(&m, "parts", "--resume --steps 6");
    check_same_run(&m, "whole", "parts");
    ChildResult r =
        trainer_run(test_text("pretrain --out %s/parts --resume --steps 9 --data %s %s", m.dir, m.out, second));
    CHECK_MSG(r.status == 1 && strstr(r.output, "order or their weights have changed"), "%s", r.output);
    free(r.output);
}

TEST(pretrain_refuses_a_corpus) {
    Made m = made_open();
    const char *config = trainer_config_file(), *other = test_text("%s/other", m.dir);
    make(m.text, other, 299);
    const struct {
        const char *data, *more, *why;
    } bad[] = {{":0", "", "the weight is 0"},       {":1001", "", "the weight is 1001, it must be 1 to 1000"},
               {"", m.text, "is no corpus"},        {"", other, "has a tokenizer of sha256"},
               {"", "--val none", "--val is none"}, {"", "--vocab-size 400", "--vocab-size is 400"}};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        ChildResult r = trainer_run(test_text("pretrain --config %s --out %s/run --steps 1 --data %s%s %s", config,
                                              m.dir, m.out, bad[i].data, bad[i].more));
        CHECK_MSG(r.status == 1 && strstr(r.output, bad[i].why), "%s: %s", bad[i].why, r.output);
        free(r.output);
    }
    ChildResult r =
        trainer_run(test_text("pretrain --config %s --out %s/run --steps 1 --data %s --tokenizer %s/tokenizer.json",
                              config, m.dir, m.out, other));
    CHECK_MSG(r.status == 1 && strstr(r.output, "were made by a tokenizer of sha256"), "%s", r.output);
    free(r.output);
}

/* The mask is pretrain's own: the ids of the folder are still the model's. */
TEST(corpus_of_a_model_with_a_mask) {
    Made m = made_open();
    pretrain(&m, "masked", test_text("--steps 2 --config mlm-nano --data %s", m.out));
    trainer_done(test_text("eval --model %s/masked --data %s", m.dir, m.out));
    pretrain(&m, "further", test_text("--steps 2 --init %s/masked --data %s", m.dir, m.out));
}

/* The held-out part of the folder is that of the texts: a file of its own says the same. */
TEST(eval_of_a_corpus) {
    Made m = made_open();
    const char *config = trainer_config_file(), *held_out = test_text("%s/held-out.txt", m.dir);
    Texts texts;
    Err err;
    const char *text = m.text;
    REQUIRE(texts_load(&texts, &text, 1, NULL, &err) == 0);
    test_write_file(held_out, texts.val[0].data, texts.val[0].n);
    pretrain(&m, "run", test_text("--steps 2 --config %s --data %s --eval-every 0", config, m.out));
    ChildResult r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = trainer_run(test_text("eval --model %s/run --data %s", m.dir, i ? held_out : m.out));
        CHECK_MSG(r[i].status == 0, "%s", r[i].output);
    }
    CHECK_MSG(!strcmp(r[0].output, r[1].output), "%s and %s", r[0].output, r[1].output);
    free(r[0].output), free(r[1].output);
    texts_free(&texts);
}
