/* Texts into a corpus: whatever they are packed in, however many threads there are and wherever it was stopped, the
 * same bytes, and those of the texts in memory. */
#include "base/files.h"
#include "base/memory.h"
#include "base/team.h"
#include "tests/support/test.h"
#include "tests/tokenizer/test_tokenizer.h"
#include "tests/trainer/test_trainer.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/text/corpus.h"
#include "trainer/text/pieces.h"
#include "trainer/text/tokenize.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { LONG = 1500000, SHORT = 20000 };

typedef struct Folder {
    const char *dir, *files[2], *tokenizer;
} Folder;

static const char *path_in(const Folder *f, const char *name) { return test_text("%s/%s", f->dir, name); }

/* A text of several batches' pieces and a short one, and a tokenizer of theirs. */
static Folder folder_open(void) {
    static const int sizes[] = {LONG, SHORT};
    Folder f = {.dir = test_dir()};
    Tokenizer *tok;
    Err err;
    for (int i = 0; i < 2; i++) {
        char *text = trainer_text((size_t)sizes[i]);
        f.files[i] = path_in(&f, i ? "short.txt" : "long.txt");
        test_write_file(f.files[i], text, (size_t)sizes[i]);
        if (i) BUG_ON(bpe_train(&tok, &(BpeCorpus){.texts = &(BpeText){text, SHORT}, .n = 1}, 300, &err));
        free(text);
    }
    f.tokenizer = path_in(&f, "tokenizer.json");
    BUG_ON(tokenizer_json_save(tok, f.tokenizer, &err));
    tokenizer_free(tok);
    return f;
}

static Tokenize task(const Folder *f, const char *out) {
    return (Tokenize){.files = f->files,
                      .n_files = 2,
                      .field = "text",
                      .tokenizer = f->tokenizer,
                      .separator = "<|endoftext|>",
                      .out = out,
                      .shard_bytes = SHARD_UNIT};
}

static void run(const Tokenize *t) {
    Err err = {""};
    CHECK_MSG(tokenize(t, &err) == 0, "%s", err.msg);
}

static void check_same(const char *a, const char *b) {
    CorpusIndex x;
    Err err;
    char path[2][PATH_BYTES], sum[2][SHA256_HEX];
    REQUIRE(corpus_index_load(&x, a, &err) == 0);
    CHECK(!x.unfinished);
    for (int r = 0; r < CORPUS_ROWS; r++)
        for (int i = 0; i < corpus_shards(&x, (CorpusRowKind)r); i++) {
            CHECK(corpus_shard_path(path[0], a, (CorpusRowKind)r, i, &err) == 0 &&
                  corpus_shard_path(path[1], b, (CorpusRowKind)r, i, &err) == 0);
            for (int k = 0; k < 2; k++) CHECK(sha256_file(path[k], SHARD_BYTES, sum[k], &err) == 0);
            CHECK_MSG(!strcmp(sum[0], sum[1]), "%s and %s differ", path[0], path[1]);
            CHECK(!strcmp(sum[0], x.rows[r].sums[i]));
        }
    const char *index[] = {test_text("%s/index.json", a), test_text("%s/index.json", b)};
    char *text[] = {test_read_file(index[0], NULL), test_read_file(index[1], NULL)};
    CHECK(!strcmp(text[0], text[1]));
    for (int k = 0; k < 2; k++) free(text[k]);
    corpus_index_free(&x);
}

/* The ids of a row from its shards. */
static int *row_of(const char *dir, CorpusRowKind row, size_t *n) {
    CorpusIndex x;
    Err err;
    char path[PATH_BYTES];
    BUG_ON(corpus_index_load(&x, dir, &err));
    int *ids = xcalloc((size_t)x.rows[row].ids + 1, sizeof *ids);
    *n = 0;
    for (int i = 0; i < corpus_shards(&x, row); i++) {
        size_t bytes;
        BUG_ON(corpus_shard_path(path, dir, row, i, &err));
        unsigned char *shard = (unsigned char *)test_read_file(path, &bytes);
        CHECK(bytes == corpus_shard_bytes(&x, row, i));
        for (size_t k = 0; k + 1 < bytes; k += 2) ids[(*n)++] = shard[k] | shard[k + 1] << 8;
        free(shard);
    }
    CHECK(*n == x.rows[row].ids);
    corpus_index_free(&x);
    return ids;
}

TEST(tokenize_is_the_texts_in_memory) {
    Folder f = folder_open();
    const char *out = path_in(&f, "out"), *cache = path_in(&f, "tokens.bin");
    Tokenize t = task(&f, out);
    Tokenizer *tok;
    Texts texts;
    Corpus c;
    Err err;
    run(&t);
    REQUIRE(tokenizer_json_load(&tok, f.tokenizer, &err) == 0);
    REQUIRE(texts_load(&texts, t.files, 2, NULL, &err) == 0);
    REQUIRE(corpus_open(&c, cache, &texts, tok, "", 0, &err) == 0);
    for (int r = 0; r < CORPUS_ROWS; r++) {
        const TokenSpan *want = r ? &c.val : &c.train;
        size_t n;
        int *ids = row_of(out, (CorpusRowKind)r, &n);
        CHECK_MSG(n == want->n, "%zu ids, want %zu", n, want->n);
        for (size_t i = 0; i < MIN(n, want->n); i++) CHECK(ids[i] == token_at(want, i));
        free(ids);
    }
    corpus_close(&c);
    texts_free(&texts);
    tokenizer_free(tok);
}

/* Llama 2's puts a space in front of a text, and none in front of its parts. */
TEST(tokenize_cuts_a_long_text_for_llama) {
    Folder f = folder_open();
    size_t bytes = PIECE_MAX + PIECE, n;
    const char *out = path_in(&f, "out");
    char *json = llama_json(), *text = trainer_text(bytes);
    Tokenize t = task(&f, out);
    Tokenizer *tok;
    TokenList want = {0};
    Err err;
    test_write_file(f.files[0], text, bytes);
    test_write_file(f.tokenizer, json, strlen(json));
    t.n_files = 1;
    t.val = VAL_NONE;
    t.separator = SEPARATOR_NONE;
    run(&t);
    REQUIRE(tokenizer_json_load(&tok, f.tokenizer, &err) == 0);
    token_list_push(&want, tokenizer_bos(tok));
    REQUIRE(tokenizer_encode(tok, text, bytes, true, &want, &err) == 0);
    int *ids = row_of(out, ROW_TRAIN, &n);
    CHECK_MSG(n == want.n, "%zu ids, want %zu", n, want.n);
    CHECK(memcmp(ids, want.ids, MIN(n, want.n) * sizeof *ids) == 0);
    token_list_free(&want);
    tokenizer_free(tok);
    free(ids), free(json), free(text);
}

static int stop_after, asked;
static int stop_now(void) { return asked++ == stop_after ? SIGTERM : 0; }

/* What a kill may have left behind the last save goes. */
TEST(tokenize_goes_on_where_it_was_stopped) {
    Folder f = folder_open();
    const char *out[] = {path_in(&f, "whole"), path_in(&f, "parts")};
    Tokenize whole = task(&f, out[0]), parts = task(&f, out[1]);
    const char *files[] = {f.files[0], f.files[0], f.files[0], f.files[0],
                           f.files[0], f.files[0], f.files[0], f.files[1]};
    whole.files = parts.files = files;
    whole.n_files = parts.n_files = COUNTOF(files);
    Err err = {""};
    int before = team_size(), stops = 0, rc;
    team_resize(1);
    run(&whole);
    team_resize(3);
    parts.stopped = stop_now;
    for (stop_after = 0; asked = 0, (rc = tokenize(&parts, &err)) == SIGTERM && stops < 20; stops++) {
        char path[PATH_BYTES];
        FILE *shard = NULL;
        CorpusIndex x;
        REQUIRE(corpus_index_load(&x, out[1], &err) == 0 && x.unfinished);
        if (corpus_shard_path(path, out[1], ROW_TRAIN, x.rows[ROW_TRAIN].n_sums, &err) == 0) shard = fopen(path, "a");
        REQUIRE(shard);
        fputs("what was written and not saved", shard);
        fclose(shard);
        corpus_index_free(&x);
    }
    CHECK_MSG(rc == 0 && stops > 0, "%d after %d stops: %s", rc, stops, err.msg);
    check_same(out[0], out[1]);
    CHECK(tokenize(&parts, &err) == -1 && strstr(err.msg, "it is finished"));
    team_resize(before);
}

static void append(const char *path, const unsigned char *bytes, size_t n) {
    FILE *f = fopen(path, "ab");
    BUG_ON(!f || fwrite(bytes, 1, n, f) != n || fclose(f));
}

static void pack(const char *path, const char *text, size_t n, bool zst) {
    size_t room = ZSTD_compressBound(n) + compressBound(n) + 64;
    unsigned char *out = xmalloc(room);
    z_stream z = {0};
    if (zst) {
        room = ZSTD_compress(out, room, text, n, 3);
    } else {
        BUG_ON(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK);
        z.next_in = (unsigned char *)text, z.avail_in = (unsigned)n;
        z.next_out = out, z.avail_out = (unsigned)room;
        BUG_ON(deflate(&z, Z_FINISH) != Z_STREAM_END);
        room = z.total_out;
        deflateEnd(&z);
    }
    append(path, out, room); /* members and frames join */
    free(out);
}

TEST(tokenize_unpacks) {
    Folder f = folder_open();
    const char *out[] = {path_in(&f, "plain"), path_in(&f, "packed")};
    const char *packed[] = {path_in(&f, "long.txt.gz"), path_in(&f, "short.txt.zst")};
    for (int i = 0; i < 2; i++) {
        size_t n;
        char *text = test_read_file(f.files[i], &n);
        pack(packed[i], text, n / 3, i);
        pack(packed[i], text + n / 3, n - n / 3, i);
        free(text);
    }
    static const unsigned char zeros[200000]; /* padding, which gzip takes for none of its business */
    append(packed[0], zeros, sizeof zeros);
    static const unsigned char wide[] = {0x28, 0xB5, 0x2F, 0xFD, 0, 17 << 3, 1, 0, 0}; /* no text in `zstd --long` */
    append(packed[1], wide, sizeof wide);
    Tokenize plain = task(&f, out[0]), t = task(&f, out[1]);
    run(&plain);
    t.files = packed;
    run(&t);
    check_same(out[0], out[1]);
    for (int i = 0; i < 2; i++) {
        Err err = {""};
        const char *cut = path_in(&f, i ? "cut.zst" : "cut.gz"), *bad = path_in(&f, i ? "bad.zst" : "bad.gz"),
                   *into = path_in(&f, "into");
        size_t n;
        char *bytes = test_read_file(packed[i], &n);
        test_write_file(cut, bytes, n / 2);
        test_write_file(bad, "no such thing at all", 20);
        t.n_files = 1;
        t.out = into;
        t.files = &cut;
        CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, cut) && strstr(err.msg, "ends within"), "%s", err.msg);
        t.files = &bad;
        CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, bad) && strstr(err.msg, i ? "no zstd" : "no gzip"), "%s",
                  err.msg);
        free(bytes);
    }
}

/* A document a line, <|endoftext|> between two of them and not behind the last. */
TEST(tokenize_lines_of_json) {
    static const char lines[] =
        "\xEF\xBB\xBF{\"text\": \"one \\u00e9\", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"id\": {}, \"text\": \"two\\n\"}";
    static const struct {
        const char *text, *why;
    } bad[] = {{"{\"text\": \"a\"}\n{\"body\": \"b\"}\n", "line 2: --field text: is missing"},
               {"{\"text\": 3}", "line 1: --field text: is no text"},
               {"\n\n{\"text\": \"a", "line 3: --field text: "},
               {"{\"text\": \"\xFF\"}", "line 1: --field text: "}};
    Folder f = folder_open();
    const char *out = path_in(&f, "out"), *other = path_in(&f, "other"), *file = path_in(&f, "x.jsonl");
    Tokenize t = task(&f, out);
    Tokenizer *tok;
    Err err;
    REQUIRE(tokenizer_json_load(&tok, f.tokenizer, &err) == 0);
    t.files = &file;
    t.n_files = 1;
    t.val = VAL_NONE;
    test_write_file(file, lines, sizeof lines - 1);
    run(&t);
    size_t n, n_text;
    int *ids = row_of(out, ROW_TRAIN, &n);
    char *text = tokenizer_decode(tok, ids, n, &n_text);
    CHECK_MSG(!strcmp(text, "one \xC3\xA9<|endoftext|>two\n"), "%s", text);
    free(text);
    free(ids);
    t.out = other;
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        test_write_file(file, bad[i].text, strlen(bad[i].text));
        CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, file) && strstr(err.msg, bad[i].why), "%s", err.msg);
    }
    tokenizer_free(tok);
}

/* Of lines the held-out part begins with a line, of a text as texts_cut says. */
TEST(tokenize_holds_out_whole_lines) {
    Folder f = folder_open();
    const char *out = path_in(&f, "out"), *file = path_in(&f, "x.jsonl");
    char *text = xcalloc(1, 40000), *at = text;
    for (int i = 0; i < 1000; i++) at += sprintf(at, "{\"text\": \"number %d\"}\n", i);
    test_write_file(file, text, (size_t)(at - text));
    size_t held_out = (size_t)(at - text) * 5 / 100, lines = 0, n;
    for (const char *p = at - held_out - 1; (p = memchr(p, '\n', (size_t)(at - p))); p++) lines++;
    Tokenize t = task(&f, out);
    t.files = &file;
    t.n_files = 1;
    run(&t);
    int *ids = row_of(out, ROW_HELD_OUT, &n);
    size_t separators = 0;
    for (size_t i = 0; i < n; i++) separators += ids[i] == 0;
    CHECK_MSG(separators + 2 == lines, "%zu separators, %zu line ends", separators, lines);
    free(ids), free(text);
}

TEST(tokenize_refuses) {
    Folder f = folder_open();
    const char *out = path_in(&f, "out");
    char *text = xmalloc(PIECE_MAX + 9);
    Tokenize t = task(&f, out);
    Err err;
    t.separator = "<|nothing|>";
    CHECK(tokenize(&t, &err) == -1 && strstr(err.msg, "no token <|nothing|>"));
    t.separator = SEPARATOR_NONE;
    t.tokenizer = NULL;
    CHECK(tokenize(&t, &err) == -1 && strstr(err.msg, "--tokenizer or --vocab-size is missing"));
    t = task(&f, f.dir);
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, "is not empty"), "%s", err.msg);
    t = task(&f, out);
    stop_after = asked = 0;
    t.stopped = stop_now;
    CHECK(tokenize(&t, &err) == SIGTERM);
    t.separator = SEPARATOR_NONE;
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, "is token -1") && strstr(err.msg, "has 0"), "%s", err.msg);
    t.separator = "<|endoftext|>";
    t.field = "body";
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, "--field is body") && strstr(err.msg, "has text"), "%s",
              err.msg);
    t.field = "text";
    memset(text, 'x', PIECE_MAX + 8);
    test_write_file(f.files[1], text, 30);
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, f.files[1]) &&
                  strstr(err.msg, "changed: 30 bytes, then 20000"),
              "%s", err.msg);
    const char *other = path_in(&f, "other");
    t.out = other;
    t.val = VAL_NONE;
    test_write_file(f.files[1], text, PIECE_MAX + 8);
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, f.files[1]) && strstr(err.msg, "no place to cut"), "%s",
              err.msg);
    text[12345] = 0;
    test_write_file(f.files[1], text, 20000);
    CHECK_MSG(tokenize(&t, &err) == -1 && strstr(err.msg, "byte 12345 is zero"), "%s", err.msg);
    free(text);
}

/* Learnt from all, where all fits into the sample. */
TEST(tokenize_learns) {
    Folder f = folder_open();
    const char *out = path_in(&f, "out");
    char sum[2][SHA256_HEX];
    Tokenize t = task(&f, out);
    Tokenizer *tok;
    Texts texts;
    CorpusIndex x;
    Err err;
    t.tokenizer = NULL;
    t.vocab_size = 290;
    run(&t);
    REQUIRE(texts_load(&texts, t.files, 2, NULL, &err) == 0);
    REQUIRE(bpe_train(&tok, &(BpeCorpus){.texts = texts.train, .n = 2}, 290, &err) == 0);
    REQUIRE(tokenizer_json_sha256(tok, sum[0], &err) == 0 && corpus_index_load(&x, out, &err) == 0);
    CHECK(!strcmp(sum[0], x.tokenizer) && x.vocab_size == 290);
    tokenizer_free(tok);
    /* rare words count for nothing when there is no room left */
    REQUIRE(bpe_train(&tok, &(BpeCorpus){.texts = texts.train, .n = 2, .word_bytes = 40}, 270, &err) == 0);
    REQUIRE(tokenizer_json_sha256(tok, sum[1], &err) == 0);
    CHECK(strcmp(sum[0], sum[1]) && tokenizer_vocab_size(tok) == 270);
    tokenizer_free(tok);
    texts_free(&texts);
    corpus_index_free(&x);
}
