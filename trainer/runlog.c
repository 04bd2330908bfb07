#include "trainer/runlog.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/err.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_DEPTH = 8, LINE_VALUES = 1 << 20 };
static const size_t log_max = (size_t)1 << 34;

static bool line_is_kept(const char *line, size_t n, int64_t last) {
    int64_t step;
    cJSON *o = json_parse(line, n, LINE_DEPTH, LINE_VALUES, NULL);
    bool keep = o && json_integer(json_field(o, "step"), 0, last, &step);
    cJSON_Delete(o);
    return keep;
}

/* Steps ascend, so the first line that does not belong ends the part that does. */
static size_t kept_bytes(const char *text, size_t n, int64_t last) {
    size_t kept = 0;
    const char *end;
    while ((end = memchr(text + kept, '\n', n - kept))) {
        size_t length = (size_t)(end - (text + kept));
        if (!line_is_kept(text + kept, length, last)) break;
        kept += length + 1;
    }
    return kept;
}

static int trim(const char *path, int64_t step, Err *err) {
    size_t n;
    if (access(path, F_OK) < 0 && errno == ENOENT) return 0;
    char *text = file_read(path, log_max, &n, err);
    if (!text) return -1;
    size_t kept = kept_bytes(text, n, step);
    int rc = kept < n ? file_write(path, text, kept, err) : 0;
    free(text);
    return rc;
}

static int open_end(RunLog *log, Err *err) {
    log->file = fopen(log->path, "ae");
    return log->file ? 0 : err_set(err, "%s: %s", log->path, strerror(errno));
}

int runlog_open(RunLog *log, const char *dir, int64_t step, Err *err) {
    log->file = NULL;
    return path_join(log->path, dir, "log.jsonl", err) || trim(log->path, step, err) ? -1 : open_end(log, err);
}

Buffer runlog_line(int64_t step) {
    Buffer line = {0};
    json_open(&line, NULL, '{');
    json_put_int(&line, "step", step);
    return line;
}

int runlog_write(RunLog *log, Buffer *line, Err *err) {
    return json_end_line(line, log->file) ? err_set(err, "%s: %s", log->path, strerror(errno)) : 0;
}

static const char unfinished[] = ",\"unfinished\":true}\n";

/* Where the last line of n bytes begins. */
static size_t last_line(const char *text, size_t n) {
    const char *end = n ? memrchr(text, '\n', n - 1) : NULL;
    return end ? (size_t)(end + 1 - text) : 0;
}

int runlog_unfinished(const RunLog *log, Buffer *line, Err *err) {
    size_t n, tail = strlen(unfinished);
    char *text = file_read(log->path, log_max, &n, err);
    if (!text) return -1;
    size_t at = last_line(text, n);
    if (n - at > tail && !memcmp(text + n - tail, unfinished, tail)) {
        buffer_append(line, text + at, n - tail - at);
        line->comma = true;
    }
    free(text);
    return 0;
}

void runlog_suspend(Buffer *line) { json_put_bool(line, "unfinished", true); }

int runlog_replace(RunLog *log, Buffer *line, Err *err) {
    size_t n;
    char *text = file_read(log->path, log_max, &n, err);
    Buffer whole = {0};
    if (text) buffer_append(&whole, text, last_line(text, n));
    json_close(line, '}');
    char *last = json_end_text(line);
    buffer_print(&whole, "%s\n", last);
    char *all = json_end_text(&whole);
    int rc = !text || runlog_close(log, err) || file_write(log->path, all, strlen(all), err) ? -1 : open_end(log, err);
    free(all);
    free(last);
    free(text);
    return rc;
}

int runlog_sync(const RunLog *log, Err *err) {
    return log->file && fsync(fileno(log->file)) < 0 ? err_set(err, "%s: %s", log->path, strerror(errno)) : 0;
}

int runlog_close(RunLog *log, Err *err) {
    if (!log->file) return 0;
    int rc = fclose(log->file) ? err_set(err, "%s: %s", log->path, strerror(errno)) : 0;
    log->file = NULL;
    return rc;
}

double runlog_number(const RunLogLine *line, const char *field) {
    const cJSON *item = json_field(line->fields, field);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

int runlog_read(const char *dir, int (*take)(void *context, const RunLogLine *line, Err *err), void *context,
                Err *err) {
    char path[PATH_BYTES];
    size_t n;
    Err why;
    if (path_join(path, dir, "log.jsonl", err)) return -1;
    char *text = file_read(path, log_max, &n, err), *at = text;
    if (!text) return -1;
    RunLogLine line = {0};
    int rc = 0;
    const size_t shortest = strlen("{\"step\":1}\n");
    for (size_t i = 0; i < n && (size_t)line.most < n / shortest; i++) line.most += text[i] == '\n';
    for (char *end; rc == 0 && (end = memchr(at, '\n', n - (size_t)(at - text))); at = end + 1, line.i++) {
        cJSON *o = json_parse(at, (size_t)(end - at), LINE_DEPTH, LINE_VALUES, &why);
        line.fields = o;
        line.step = runlog_number(&line, "step");
        if (isnan(line.step))
            rc = err_set(err, "%s: line %d is no step: %s", path, line.i + 1, o ? "it has no number" : why.msg);
        else
            rc = take(context, &line, err);
        cJSON_Delete(o);
    }
    free(text);
    return rc;
}
