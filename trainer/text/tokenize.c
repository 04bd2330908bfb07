#include "trainer/text/tokenize.h"

#include "base/bar.h"
#include "base/clock.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/text/corpus_map.h"
#include "trainer/text/pieces.h"
#include "trainer/text/row_writer.h"
#include "trainer/text/sample_tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BATCH = 1 << 23, BATCH_PIECES = BATCH / PIECE };
static const double terminal_interval = 0.2, plain_interval = 10; /* seconds */

typedef struct Encoded {
    Piece piece;
    TokenList ids;
    uint64_t bytes;
    int rc;
    Err err;
} Encoded;

typedef struct Batch {
    Encoded pieces[BATCH_PIECES];
    int n;
    int source; /* the place behind it */
    TextPlace at;
    int rc; /* of reading it; what was read before an error is not used */
    Err err;
} Batch;

enum { WRITTEN, ENCODED, READ, BATCHES }; /* what is done with each at one time */

typedef struct Work {
    const Tokenize *t;
    CorpusIndex index; /* as far as is written */
    int lock;
    Tokenizer *tok;
    RowWriter rows[CORPUS_ROWS];
    PieceReader reader;
    bool reading; /* the reader is open, in the source */
    int source;   /* that is read, from here on */
    TextPlace at;
    Batch batches[BATCHES];
    /* ---- what is shown ---- */
    double started, shown, share_before;
    uint64_t bytes_before;
} Work;

static uint64_t text_bytes(const Work *w) { return w->index.rows[ROW_TRAIN].bytes + w->index.rows[ROW_HELD_OUT].bytes; }

/* ---- the folder ---- */

static bool has_val_file(const Tokenize *t) { return t->val && strcmp(t->val, VAL_NONE); }

static const char *file_at(const Tokenize *t, int i) { return i < t->n_files ? t->files[i] : t->val; }

static int look_at_sources(CorpusIndex *x, const Tokenize *t, Err *err) {
    int n = t->n_files + has_val_file(t);
    x->sources = xcalloc((size_t)n, sizeof *x->sources);
    for (; x->n_sources < n; x->n_sources++) {
        Source s;
        int rc = source_open(&s, file_at(t, x->n_sources), err);
        x->sources[x->n_sources] =
            (CorpusSource){.path = xstrdup(file_at(t, x->n_sources)), .bytes = s.bytes, .modified = s.modified};
        source_close(&s);
        if (rc) return x->n_sources++, -1;
    }
    return 0;
}

static int check_empty(const char *dir, Err *err) {
    DIR *d = opendir(dir);
    const struct dirent *e;
    int rc = d ? 0 : err_set(err, "%s: %s", dir, strerror(errno));
    while (rc == 0 && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "index.json.tmp"))
            rc = err_set(err, "--out %s is not empty (%.100s) and holds no corpus to go on with", dir, e->d_name);
    if (d) closedir(d);
    return rc;
}

static int same_text(const char *option, const char *now, const char *then, Err *err) {
    if (!now || !then ? now == then : !strcmp(now, then)) return 0;
    return err_set(err, "%s is %s, what is to be gone on with has %s", option, now ? now : "not given",
                   then ? then : "none");
}

static int check_same(const CorpusIndex *now, const CorpusIndex *then, Err *err) {
    if (same_text("--field", now->field, then->field, err) || same_text("--val", now->val, then->val, err)) return -1;
    if (now->n_sources != then->n_sources)
        return err_set(err, "--data and --val are %d files, what is to be gone on with has %d", now->n_sources,
                       then->n_sources);
    for (int i = 0; i < now->n_sources; i++) {
        const CorpusSource *a = &now->sources[i], *b = &then->sources[i];
        if (same_text("--data", a->path, b->path, err)) return -1;
        if (a->bytes != b->bytes || a->modified != b->modified)
            return err_set(err, "%s has changed: %lld bytes, then %lld%s", a->path, (long long)a->bytes,
                           (long long)b->bytes, a->bytes == b->bytes ? "; it was written to" : "");
    }
    return 0;
}

/* The index as it is to begin with, or as the call before has left it. */
static int open_folder(Work *w, Err *err) {
    const Tokenize *t = w->t;
    CorpusIndex now = {.unfinished = true,
                       .field = xstrdup(t->field),
                       .val = t->val ? xstrdup(t->val) : NULL,
                       .at = TEXT_START,
                       .separator = -1,
                       .shard_bytes = t->shard_bytes ? t->shard_bytes : SHARD_BYTES};
    int rc = look_at_sources(&now, t, err) || folder_create(t->out, NULL, err) ? -1 : 0;
    if (rc == 0 && (w->lock = open(t->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        rc = err_set(err, "%s: %s", t->out, strerror(errno));
    if (rc == 0 && flock(w->lock, LOCK_EX | LOCK_NB))
        rc = err_set(err, "--out %s: another noised-train is at work in it", t->out);
    if (rc == 0 && !corpus_is(t->out)) {
        if (check_empty(t->out, err) == 0) return w->index = now, 0;
        rc = -1;
    }
    if (rc == 0) rc = corpus_index_load(&w->index, t->out, err);
    if (rc == 0 && !w->index.unfinished) rc = err_set(err, "--out %s holds a corpus, and it is finished", t->out);
    if (rc == 0 && !text_bytes(w)) { /* nothing to lose: the settings may be others */
        corpus_index_free(&w->index);
        return w->index = now, 0;
    }
    if (rc == 0) rc = check_same(&now, &w->index, err);
    corpus_index_free(&now);
    return rc;
}

/* ---- the tokenizer ---- */

static int find_separator(const Work *w, int *id, Err *err) {
    const char *name = w->t->separator;
    *id = strcmp(name, SEPARATOR_NONE) ? tokenizer_find_special(w->tok, name) : -1;
    if (*id >= 0 || !strcmp(name, SEPARATOR_NONE)) return 0;
    return err_set(err, "the tokenizer has no token %s to put between two texts: --separator names another, or none",
                   name);
}

static int load_or_learn(Work *w, const char *own, Err *err) {
    const Tokenize *t = w->t;
    if (t->tokenizer) return tokenizer_json_load(&w->tok, t->tokenizer, err);
    if (*w->index.tokenizer && access(own, F_OK) == 0) return tokenizer_json_load(&w->tok, own, err);
    if (t->vocab_size < BPE_FIRST_MERGE) return err_set(err, "--tokenizer or --vocab-size is missing");
    printf("learning %d tokens from a sample\n", t->vocab_size);
    fflush(stdout);
    return sample_tokenizer(&w->tok, t->files, t->n_files, t->field, !t->val, t->vocab_size, err);
}

static int open_tokenizer(Work *w, Err *err) {
    char path[PATH_BYTES], sum[SHA256_HEX];
    CorpusIndex *x = &w->index;
    int separator;
    if (path_join(path, w->t->out, "tokenizer.json", err) || load_or_learn(w, path, err)) return -1;
    if (tokenizer_json_sha256(w->tok, sum, err) || find_separator(w, &separator, err)) return -1;
    if (*x->tokenizer && strcmp(x->tokenizer, sum))
        return err_set(err, "the tokenizer's sha256 is %s, what is to be gone on with in %s has %s", sum, w->t->out,
                       x->tokenizer);
    if (*x->tokenizer && x->separator != separator)
        return err_set(err, "--separator is token %d, what is to be gone on with has %d", separator, x->separator);
    memcpy(x->tokenizer, sum, sizeof sum);
    x->vocab_size = tokenizer_vocab_size(w->tok);
    x->separator = separator;
    return corpus_index_save(x, w->t->out, err) || tokenizer_json_save(w->tok, path, err) ? -1 : 0;
}

/* ---- a batch ---- */

static int open_reader(Work *w, Err *err) {
    const CorpusIndex *x = &w->index;
    w->reading = true;
    return piece_reader_open(&w->reader, x->sources[w->source].path, x->field, w->tok, !x->val, w->at, err);
}

static void close_reader(Work *w) {
    if (w->reading) piece_reader_close(&w->reader);
    w->reading = false;
}

static int read_pieces(Work *w, Batch *b, Err *err) {
    const CorpusIndex *x = &w->index;
    for (size_t bytes = 0; bytes < BATCH && b->n < BATCH_PIECES && w->source < x->n_sources;) {
        if (!w->reading && open_reader(w, err)) return -1;
        Encoded *e = &b->pieces[b->n];
        *e = (Encoded){0};
        int rc = piece_next(&w->reader, &e->piece, err);
        if (rc < 0) return -1;
        w->at = w->reader.at;
        bytes += e->piece.n;
        b->n += rc;
        if (rc) continue;
        const CorpusSource *s = &x->sources[w->source];
        if (source_unchanged(&w->reader.source, s->bytes, s->modified, err)) return -1;
        close_reader(w);
        w->source++;
        w->at = TEXT_START;
    }
    return 0;
}

static void read_batch(Work *w, Batch *b) {
    b->rc = read_pieces(w, b, &b->err);
    b->source = w->source;
    b->at = w->at;
}

static void encode(const Work *w, Encoded *e) {
    e->rc = piece_encode(&e->piece, w->tok, w->index.separator, &e->ids, &e->bytes, &e->err);
}

/* Between two texts stands the separator, but not in front of the first. */
static int write_piece(Work *w, const Encoded *e, bool val, Err *err) {
    CorpusRowKind kind = val || e->piece.held_out ? ROW_HELD_OUT : ROW_TRAIN;
    CorpusRow *row = &w->index.rows[kind];
    size_t first = row->ids == 0 && w->index.separator >= 0 && e->ids.n;
    if (e->rc) return err_set(err, "%s", e->err.msg);
    row->bytes += e->bytes;
    return row_append(&w->rows[kind], e->ids.ids + first, e->ids.n - first, err);
}

static void drop_batch(Batch *b) {
    for (int i = 0; i < b->n; i++) {
        token_list_free(&b->pieces[i].ids);
        free(b->pieces[i].piece.data);
    }
    b->n = 0;
}

static int save(Work *w, Err *err) {
    for (int r = 0; r < CORPUS_ROWS; r++)
        if (row_sync(&w->rows[r], err)) return -1;
    return corpus_index_save(&w->index, w->t->out, err);
}

static void reach(CorpusIndex *x, const Batch *b) {
    x->source = b->source;
    x->at = b->at;
}

static int write_batch(Work *w, Batch *b, Err *err) {
    const CorpusRow *rows = w->index.rows;
    int shards = rows[ROW_TRAIN].n_sums + rows[ROW_HELD_OUT].n_sums, rc = 0;
    for (int i = 0; i < b->n && rc == 0; i++) {
        const Encoded *e = &b->pieces[i];
        bool val = has_val_file(w->t) && e->piece.path == w->index.sources[w->t->n_files].path;
        rc = write_piece(w, e, val, err);
    }
    drop_batch(b);
    reach(&w->index, b);
    bool full = rows[ROW_TRAIN].n_sums + rows[ROW_HELD_OUT].n_sums > shards;
    return rc || (full && save(w, err)) ? -1 : 0;
}

/* One of the team writes and one reads while the others begin to encode; both then help. */
static int turn(Work *w, Batch *const b[BATCHES], Err *err) {
    int rc = 0;
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < b[ENCODED]->n + 2; i++) {
        if (i == 0)
            rc = write_batch(w, b[WRITTEN], err);
        else if (i == 1 && b[ENCODED]->rc == 0)
            read_batch(w, b[READ]);
        else if (i > 1)
            encode(w, &b[ENCODED]->pieces[i - 2]);
    }
    return rc;
}

/* ---- what is shown ---- */

static double share_done(const Work *w) {
    const CorpusIndex *x = &w->index;
    double all = 0, done = w->reading ? (double)w->reader.source.taken : 0;
    for (int i = 0; i < x->n_sources; i++) {
        all += (double)x->sources[i].bytes;
        if (i < w->source) done += (double)x->sources[i].bytes;
    }
    return done / all;
}

enum { FIELD_BYTES, FIELD_SPEED, FIELD_LEFT, FIELDS };

static void show(Work *w) {
    bool terminal = isatty(STDOUT_FILENO) == 1;
    double now = now_seconds(), seconds = now - w->started, share = share_done(w);
    if (now - w->shown < (terminal ? terminal_interval : plain_interval) || share <= w->share_before) return;
    w->shown = now;
    char left[32];
    BarText fields[FIELDS];
    bar_duration(seconds * (1 - share) / (share - w->share_before), left);
    snprintf(fields[FIELD_BYTES], BAR_TEXT, "%.0f MB", (double)text_bytes(w) / 1e6);
    snprintf(fields[FIELD_SPEED], BAR_TEXT, "  %.2f MB/s", (double)(text_bytes(w) - w->bytes_before) / seconds / 1e6);
    snprintf(fields[FIELD_LEFT], BAR_TEXT, "  %s left", left);
    if (terminal)
        bar_draw(stdout, fields, FIELDS, share);
    else
        printf("%s of text%s%s\n", fields[FIELD_BYTES], fields[FIELD_SPEED], fields[FIELD_LEFT]);
    fflush(stdout);
}

static void show_end(const Work *w, int stopped) {
    const CorpusRow *train = &w->index.rows[ROW_TRAIN], *held_out = &w->index.rows[ROW_HELD_OUT];
    if (isatty(STDOUT_FILENO) == 1) fputs("\r\033[K", stdout);
    printf("%s: %llu ids to train on, %llu held out, from %llu bytes of text, in %d shards\n", w->t->out,
           (unsigned long long)train->ids, (unsigned long long)held_out->ids, (unsigned long long)text_bytes(w),
           corpus_shards(&w->index, ROW_TRAIN) + corpus_shards(&w->index, ROW_HELD_OUT));
    if (stopped) printf("stopped by signal %d: the same command goes on\n", stopped);
    fflush(stdout);
}

/* ---- all ---- */

static int run_batches(Work *w, Err *err) {
    CorpusIndex *x = &w->index;
    int stopped = 0;
    w->source = x->source;
    w->at = x->at;
    w->started = w->shown = now_seconds();
    w->bytes_before = text_bytes(w);
    w->share_before = share_done(w);
    if (w->bytes_before) printf("going on behind %llu bytes of text\n", (unsigned long long)w->bytes_before);
    for (int i = 0; i < BATCHES; i++) w->batches[i] = (Batch){.source = x->source, .at = x->at};
    read_batch(w, &w->batches[ENCODED]);
    for (int k = 0; !stopped; k++) {
        Batch *b[BATCHES];
        for (int i = 0; i < BATCHES; i++) b[i] = &w->batches[(k + i) % BATCHES];
        if (b[ENCODED]->rc) drop_batch(b[ENCODED]);
        if (turn(w, b, err)) return -1;
        if (b[ENCODED]->rc) return err_set(err, "%s", b[ENCODED]->err.msg);
        show(w);
        if (b[ENCODED]->n == 0) return reach(x, b[ENCODED]), 0;
        stopped = w->t->stopped ? w->t->stopped() : 0;
        if (stopped && write_batch(w, b[ENCODED], err)) return -1;
    }
    return save(w, err) ? -1 : stopped;
}

static int finish(Work *w, Err *err) {
    for (int r = 0; r < CORPUS_ROWS; r++)
        if (row_finish(&w->rows[r], err)) return -1;
    w->index.unfinished = false;
    return corpus_checked(w->t->out, &w->index, err) || corpus_index_save(&w->index, w->t->out, err) ? -1 : 0;
}

static int work(Work *w, Err *err) {
    if (open_folder(w, err) || open_tokenizer(w, err)) return -1;
    for (int r = 0; r < CORPUS_ROWS; r++)
        if (row_open(&w->rows[r], w->t->out, &w->index, (CorpusRowKind)r, err)) return -1;
    int rc = run_batches(w, err);
    if (rc == 0) rc = finish(w, err);
    if (rc >= 0) show_end(w, rc);
    return rc;
}

int tokenize(const Tokenize *t, Err *err) {
    Work *w = xcalloc(1, sizeof *w);
    *w = (Work){.t = t, .lock = -1, .rows = {{.fd = -1}, {.fd = -1}}};
    int rc = work(w, err);
    for (int i = 0; i < BATCHES; i++) drop_batch(&w->batches[i]);
    close_reader(w);
    for (int r = 0; r < CORPUS_ROWS; r++) row_close(&w->rows[r]);
    if (w->tok) tokenizer_free(w->tok);
    corpus_index_free(&w->index);
    if (w->lock >= 0) close(w->lock);
    free(w);
    return rc;
}
