#include "server/batch/results.h"

#include "base/files.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/batch/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char opening[] = "{\"id\":\"batch_req_";

int results_open(Results *r, const char *path, Err *err) {
    struct stat st;
    *r = (Results){.path = path, .synced = true};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        r->fd = -1;
        return err_set(err, "%s is no regular file, so a batch could not be taken up again", path);
    }
    r->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    if (flock(r->fd, LOCK_EX | LOCK_NB)) return err_set(err, "%s is written by another process", path);
    return folder_sync_of(path, err);
}

void results_close(Results *r) {
    if (r->fd >= 0) close(r->fd);
    buffer_free(&r->line);
}

/* ---- what is there ---- */

static int take_result(Results *r, Ids *ids, const cJSON *result) {
    const cJSON *response = json_field(result, "response"), *error = json_field(result, "error");
    const cJSON *line = json_field(error, "line"), *custom = json_field(result, "custom_id");
    const cJSON *status = json_field(response, "status_code");
    int64_t number;
    char digits[24] = "";
    bool asked = cJSON_IsString(custom) && cJSON_IsNumber(status) && json_is_null(error);
    if (!asked && (!json_is_null(response) || !json_integer(line, 1, JSON_INTEGER_MAX, &number))) return -1;
    if (!asked) snprintf(digits, sizeof digits, "%" PRId64, number);
    const char *fingerprint = cJSON_GetStringValue(json_field(json_field(response, "body"), "system_fingerprint"));
    if (fingerprint && !*r->fingerprint) {
        snprintf(r->fingerprint, sizeof r->fingerprint, "%s", fingerprint);
        r->answered = r->lines + 1;
    }
    Id *id = ids_find(ids, asked ? ID_CUSTOM : ID_LINE, asked ? custom->valuestring : digits);
    if (id) id->done = true;
    r->failed += !asked || status->valuedouble >= 400;
    return 0;
}

static int take_line(Results *r, Ids *ids, const LineReader *l, Err *err) {
    memory_ran_out(); /* forget what was before */
    /* Not json_parse: a model may write U+0000, which no request may. */
    cJSON *result = cJSON_ParseWithLength(l->text.data, l->text.n);
    int rc = result ? take_result(r, ids, result) : -1;
    cJSON_Delete(result);
    if (memory_ran_out()) return err_set(err, "%s: no memory to read line %" PRId64, r->path, l->number);
    if (rc) return err_set(err, "%s: line %" PRId64 " is no result of a batch", r->path, l->number);
    r->lines++;
    r->length += (int64_t)l->length + 1;
    return 0;
}

static int cut(const Results *r, Err *err) {
    return ftruncate(r->fd, r->length) ? err_set(err, "%s: %s", r->path, strerror(errno)) : 0;
}

/* What no newline ends is the beginning of a line, or the file is somebody else's. */
static int cut_torn(const Results *r, const LineReader *l, Err *err) {
    if (memcmp(l->text.data, opening, MIN(l->text.n, sizeof opening - 1)) != 0)
        return err_set(err, "%s: line %" PRId64 " is no result of a batch", r->path, l->number);
    log_line("%s: line %" PRId64 " was not written whole, and is done again", r->path, l->number);
    return cut(r, err);
}

int results_take_over(Results *r, Ids *ids, Err *err) {
    LineReader *l = try_calloc(1, sizeof *l);
    if (!l) return err_set(err, "%s: no memory to read it", r->path);
    *l = (LineReader){.fd = r->fd, .path = r->path, .most = SIZE_MAX};
    int more, rc = 0;
    while (rc == 0 && (more = line_reader_next(l, err)) != 0)
        rc = more < 0 ? -1 : l->whole ? take_line(r, ids, l, err) : cut_torn(r, l, err);
    line_reader_free(l);
    free(l);
    return rc;
}

/* ---- one more ---- */

static int fail_to_write(const Results *r, int error, Err *err) {
    return err_set(err, "%s cannot be written: %s; %" PRId64 " results are in it, and the same command goes on",
                   r->path, strerror(error), r->lines);
}

static int write_line(Results *r, bool failed, Err *err) {
    buffer_append(&r->line, "\n", 1);
    if (r->line.failed) return fail_to_write(r, ENOMEM, err);
    for (size_t at = 0; at < r->line.n;) {
        ssize_t n = write(r->fd, r->line.data + at, r->line.n - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fail_to_write(r, errno, err);
            (void)cut(r, NULL); /* or it is cut when the file is taken over */
            return -1;
        }
        at += (size_t)n;
    }
    r->length += (int64_t)r->line.n;
    r->lines++;
    r->failed += failed;
    r->synced = false;
    return 0;
}

static Buffer *begin_line(Results *r, int64_t line, const char *custom_id) {
    char id[48];
    Buffer *b = &r->line;
    b->n = 0;
    b->comma = false;
    snprintf(id, sizeof id, "batch_req_%" PRId64, line);
    json_open(b, NULL, '{');
    json_put_text(b, "id", id);
    json_put_text(b, "custom_id", custom_id);
    return b;
}

/* Lines "name: value" as members. */
static void put_headers(Buffer *b, const Buffer *headers) {
    const char *at = headers->data, *end = at + headers->n;
    if (!headers->n) return;
    json_open(b, "headers", '{');
    while (at < end) {
        const char *value = memmem(at, (size_t)(end - at), ": ", 2) + 2;
        const char *next = memmem(value, (size_t)(end - value), "\r\n", 2);
        json_key(b, at, (size_t)(value - at) - 2);
        json_put_bytes(b, NULL, value, (size_t)(next - value));
        at = next + 2;
    }
    json_close(b, '}');
}

int results_put_answer(Results *r, int64_t line, const char *custom_id, const HttpReply *reply, Err *err) {
    char id[32];
    Buffer *b = begin_line(r, line, custom_id);
    snprintf(id, sizeof id, "req_%" PRId64, line);
    json_open(b, "response", '{');
    json_put_int(b, "status_code", reply->status);
    json_put_text(b, "request_id", id);
    put_headers(b, &reply->headers);
    json_put_raw(b, "body", reply->body.data, reply->body.n);
    json_close(b, '}');
    json_put_null(b, "error");
    json_close(b, '}');
    return write_line(r, reply->status >= 400, err);
}

int results_put_error(Results *r, int64_t line, const char *custom_id, const ApiError *e, Err *err) {
    char message[sizeof e->message + 32];
    Buffer *b = begin_line(r, line, custom_id);
    snprintf(message, sizeof message, "line %" PRId64 ": %s", line, e->message);
    json_put_null(b, "response");
    json_open(b, "error", '{');
    json_put_text(b, "code", e->code);
    json_put_text(b, "message", message);
    json_put_some(b, "param", e->param);
    json_put_int(b, "line", line);
    json_close(b, '}');
    json_close(b, '}');
    return write_line(r, true, err);
}

int results_sync(Results *r, Err *err) {
    if (r->synced) return 0;
    if (fsync(r->fd)) return fail_to_write(r, errno, err);
    r->synced = true;
    return 0;
}
