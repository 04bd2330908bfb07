#include "trainer/text/source.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { ROOM = 1 << 16, GZIP = 16 + MAX_WBITS };

/* One of the two libraries' streams; in[at..n) waits to be unpacked. */
typedef struct Unpacker {
    z_stream gz;
    ZSTD_DStream *zst; /* NULL: gz */
    bool within;       /* a member or frame has begun and not ended */
    bool members;      /* of gzip: one has ended */
    size_t at, n;
    unsigned char in[ROOM];
} Unpacker;

static int open_unpacker(Source *s, bool zst, Err *err) {
    Unpacker *u = s->unpacker = xcalloc(1, sizeof *u);
    s->packed = true;
    if (!zst) return inflateInit2(&u->gz, GZIP) == Z_OK ? 0 : err_set(err, "%s: no memory to unpack it", s->path);
    u->zst = ZSTD_createDStream();
    return u->zst ? 0 : err_set(err, "%s: no memory to unpack it", s->path);
}

static int64_t modified_at(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int source_open(Source *s, const char *path, Err *err) {
    struct stat st;
    *s = (Source){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (s->fd < 0 || fstat(s->fd, &st) < 0) return err_set(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return err_set(err, "%s: not a regular file", path);
    s->bytes = st.st_size;
    s->modified = modified_at(&st);
    bool zst = text_ends(path, ".zst");
    return zst || text_ends(path, ".gz") ? open_unpacker(s, zst, err) : 0;
}

void source_close(Source *s) {
    if (s->fd >= 0) close(s->fd);
    if (s->unpacker && s->unpacker->zst) ZSTD_freeDStream(s->unpacker->zst);
    if (s->unpacker && !s->unpacker->zst) inflateEnd(&s->unpacker->gz);
    free(s->unpacker);
    *s = (Source){.fd = -1};
}

int source_unchanged(const Source *s, int64_t bytes, int64_t modified, Err *err) {
    struct stat st;
    if (fstat(s->fd, &st) < 0) return err_set(err, "%s: %s", s->path, strerror(errno));
    if (st.st_size == bytes && modified_at(&st) == modified) return 0;
    return err_set(err, "%s: changed while it was read, it has %lld bytes and had %lld", s->path, (long long)st.st_size,
                   (long long)bytes);
}

static int64_t read_file(Source *s, void *out, size_t n, Err *err) {
    ssize_t r;
    do r = read(s->fd, out, n);
    while (r < 0 && errno == EINTR);
    if (r < 0) return err_set(err, "%s: %s", s->path, strerror(errno));
    s->taken += r;
    return r;
}

/* ---- unpacking: some bytes of in become some of out; -1 where they are no such file ---- */

static int unpack_gz(Source *s, char *out, size_t n, size_t *done, Err *err) {
    Unpacker *u = s->unpacker;
    if (!u->within && u->members) /* zeros behind a member are padding, of tapes and of tar */
        while (u->at < u->n && !u->in[u->at]) u->at++;
    *done = 0;
    if (!u->within && u->at == u->n) return 0;
    if (!u->within && inflateReset(&u->gz) != Z_OK) return err_set(err, "%s: zlib cannot begin again", s->path);
    u->gz.next_in = u->in + u->at;
    u->gz.avail_in = (unsigned)(u->n - u->at);
    u->gz.next_out = (unsigned char *)out;
    u->gz.avail_out = (unsigned)MIN(n, (size_t)ROOM);
    unsigned room = u->gz.avail_out;
    int rc = inflate(&u->gz, Z_NO_FLUSH);
    u->at = u->n - u->gz.avail_in;
    *done = room - u->gz.avail_out;
    u->within = rc != Z_STREAM_END;
    u->members |= !u->within;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) return 0;
    return err_set(err, "%s: no gzip before byte %lld: %s", s->path, (long long)s->taken,
                   u->gz.msg ? u->gz.msg : zError(rc));
}

static int unpack_zst(Source *s, char *out, size_t n, size_t *done, Err *err) {
    Unpacker *u = s->unpacker;
    ZSTD_inBuffer in = {.src = u->in, .size = u->n, .pos = u->at};
    ZSTD_outBuffer to = {.dst = out, .size = n};
    size_t rc = ZSTD_decompressStream(u->zst, &to, &in);
    if (ZSTD_isError(rc))
        return err_set(err, "%s: no zstd before byte %lld: %s", s->path, (long long)s->taken, ZSTD_getErrorName(rc));
    u->at = in.pos;
    *done = to.pos;
    u->within = rc != 0;
    return 0;
}

/* 0 at the end. What is unpacked may still wait inside the library when all of the file has been read. */
static int64_t unpack(Source *s, char *out, size_t n, Err *err) {
    Unpacker *u = s->unpacker;
    for (size_t done = 0;;) {
        bool ended = false;
        if (u->at == u->n) {
            int64_t got = read_file(s, u->in, ROOM, err);
            if (got < 0) return -1;
            u->at = 0;
            u->n = (size_t)got;
            ended = got == 0;
        }
        if (ended && !u->within) return 0;
        if ((u->zst ? unpack_zst : unpack_gz)(s, out, n, &done, err)) return -1;
        if (done) return (int64_t)done;
        if (ended) return err_set(err, "%s: ends within packed data, behind byte %lld", s->path, (long long)s->taken);
    }
}

int64_t source_read(Source *s, char *out, size_t n, Err *err) {
    size_t done = 0;
    while (done < n) {
        int64_t got = s->packed ? unpack(s, out + done, n - done, err) : read_file(s, out + done, n - done, err);
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int source_skip(Source *s, int64_t n, Err *err) {
    char room[ROOM / 4];
    if (!s->packed) {
        if (n > s->bytes || lseek(s->fd, n, SEEK_CUR) < 0)
            return err_set(err, "%s: has no byte %lld any more", s->path, (long long)n);
        s->taken += n;
        return 0;
    }
    while (n > 0) {
        int64_t got = source_read(s, room, (size_t)MIN(n, (int64_t)sizeof room), err);
        if (got < 0) return -1;
        if (got == 0) return err_set(err, "%s: unpacks to %lld bytes less than it did", s->path, (long long)n);
        n -= got;
    }
    return 0;
}

int source_length(const char *path, int64_t *n, Err *err) {
    Source s;
    char room[ROOM / 4];
    int64_t got = source_open(&s, path, err);
    *n = s.packed ? 0 : s.bytes;
    while (got == 0 && s.packed && (got = source_read(&s, room, sizeof room, err)) > 0) {
        *n += got;
        got = 0;
    }
    source_close(&s);
    return got < 0 ? -1 : 0;
}
