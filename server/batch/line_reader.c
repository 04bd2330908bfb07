#include "server/batch/line_reader.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the next chunk, 0 at the end. */
static ssize_t read_chunk(LineReader *l, Err *err) {
    ssize_t n;
    do n = pread(l->fd, l->chunk, sizeof l->chunk, (off_t)l->place);
    while (n < 0 && errno == EINTR);
    if (n < 0) return err_set(err, "%s: %s", l->path, strerror(errno));
    l->at = 0;
    l->n = (size_t)n;
    l->place += (uint64_t)n;
    return n;
}

static void take(LineReader *l, size_t n) {
    l->length += n;
    if (l->length <= l->most)
        buffer_append(&l->text, l->chunk + l->at, n);
    else
        buffer_free(&l->text);
    l->at += n;
}

int line_reader_next(LineReader *l, Err *err) {
    l->text.n = l->length = 0;
    l->whole = false;
    while (!l->whole) {
        ssize_t more = l->at < l->n ? 1 : read_chunk(l, err);
        if (more < 0) return -1;
        if (more == 0) break;
        const char *newline = memchr(l->chunk + l->at, '\n', l->n - l->at);
        take(l, newline ? (size_t)(newline - l->chunk) - l->at : l->n - l->at);
        l->whole = newline != NULL;
        l->at += l->whole;
    }
    if (!l->whole && l->length == 0) return 0;
    l->number++;
    if (!l->text.failed) return 1;
    return err_set(err, "%s: no memory for line %lld of %zu bytes", l->path, (long long)l->number, l->length);
}

void line_reader_free(LineReader *l) { buffer_free(&l->text); }

int64_t line_reader_count(int fd, const char *path, Err *err) {
    LineReader *l = try_calloc(1, sizeof *l);
    if (!l) return err_set(err, "%s: no memory to read it", path);
    l->fd = fd;
    l->path = path;
    int rc;
    while ((rc = line_reader_next(l, err)) > 0) {}
    int64_t n = l->number;
    line_reader_free(l);
    free(l);
    return rc < 0 ? -1 : n;
}
