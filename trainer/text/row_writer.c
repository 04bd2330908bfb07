#include "trainer/text/row_writer.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM_IDS = 1 << 14 };

static CorpusRow *row_of(const RowWriter *w) { return &w->index->rows[w->kind]; }

static size_t filled(const RowWriter *w) {
    return (size_t)row_of(w)->ids * (size_t)corpus_width(w->index) % w->index->shard_bytes;
}

static int fail(const RowWriter *w, int shard, Err *err) {
    int why = errno;
    char path[PATH_BYTES];
    if (corpus_shard_path(path, w->dir, w->kind, shard, err)) return -1;
    return err_set(err, "%s: %s", path, strerror(why));
}

static int open_shard(RowWriter *w, int flags, Err *err) {
    char path[PATH_BYTES];
    if (corpus_shard_path(path, w->dir, w->kind, row_of(w)->n_sums, err)) return -1;
    w->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    sha256_init(&w->hash);
    return w->fd < 0 ? fail(w, row_of(w)->n_sums, err) : 0;
}

/* The first n bytes of the shard stay, and are hashed again. */
static int go_on(RowWriter *w, size_t n, Err *err) {
    struct stat st;
    size_t size = ROOM_IDS * sizeof(uint32_t);
    if (open_shard(w, 0, err)) return -1;
    if (fstat(w->fd, &st) < 0) return fail(w, row_of(w)->n_sums, err);
    if ((size_t)st.st_size < n)
        return err_set(err, "%s: %s shard %d has %lld bytes, the index says %zu", w->dir, corpus_row_names[w->kind],
                       row_of(w)->n_sums, (long long)st.st_size, n);
    if (ftruncate(w->fd, (off_t)n) < 0) return fail(w, row_of(w)->n_sums, err);
    while (n) {
        ssize_t got = read(w->fd, w->room, MIN(n, size));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail(w, row_of(w)->n_sums, err);
        sha256_add(&w->hash, w->room, (size_t)got);
        n -= (size_t)got;
    }
    return 0;
}

int row_open(RowWriter *w, const char *dir, CorpusIndex *index, CorpusRowKind kind, Err *err) {
    *w = (RowWriter){.dir = dir, .index = index, .kind = kind, .fd = -1};
    w->room = xmalloc(ROOM_IDS * sizeof(uint32_t));
    return filled(w) ? go_on(w, filled(w), err) : 0;
}

static int end_shard(RowWriter *w, Err *err) {
    CorpusRow *row = row_of(w);
    if (row_sync(w, err)) return -1;
    if (close(w->fd) < 0) return w->fd = -1, fail(w, row->n_sums, err);
    w->fd = -1;
    row->sums = xrealloc(row->sums, (size_t)(row->n_sums + 1) * sizeof *row->sums);
    sha256_hex(&w->hash, row->sums[row->n_sums++]);
    return 0;
}

static int write_bytes(RowWriter *w, size_t n, Err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t r = write(w->fd, w->room + done, n - done);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return fail(w, row_of(w)->n_sums, err);
        done += (size_t)r;
    }
    sha256_add(&w->hash, w->room, n);
    return 0;
}

int row_append(RowWriter *w, const int *ids, size_t n, Err *err) {
    size_t width = (size_t)corpus_width(w->index);
    while (n) {
        if (w->fd < 0 && open_shard(w, O_TRUNC, err)) return -1;
        size_t some = MIN(MIN(n, (size_t)ROOM_IDS), (w->index->shard_bytes - filled(w)) / width);
        for (size_t i = 0; i < some; i++)
            for (size_t b = 0; b < width; b++) w->room[i * width + b] = (unsigned char)(ids[i] >> 8 * b);
        if (write_bytes(w, some * width, err)) return -1;
        row_of(w)->ids += some;
        ids += some;
        n -= some;
        if (filled(w) == 0 && end_shard(w, err)) return -1;
    }
    return 0;
}

int row_sync(RowWriter *w, Err *err) { return w->fd < 0 || fsync(w->fd) == 0 ? 0 : fail(w, row_of(w)->n_sums, err); }

int row_finish(RowWriter *w, Err *err) { return w->fd < 0 ? 0 : end_shard(w, err); }

void row_close(RowWriter *w) {
    if (w->fd >= 0) close(w->fd);
    free(w->room);
    w->room = NULL;
    w->fd = -1;
}
