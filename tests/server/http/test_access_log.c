/* --log and --access-log: what the daemon writes to its log, read back. */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "tests/support/http_client.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Log {
    char path[256], *text;
    cJSON *records; /* those of the access log */
} Log;

static bool start(Daemon *d, Log *log, TestCheckpoint kind, const char *options) {
    const char *dir = test_dir();
    *log = (Log){0};
    snprintf(log->path, sizeof log->path, "%s/log", dir);
    test_write_file(log->path, "", 0);
    daemon_log_to(log->path);
    bool ok = daemon_start(d, kind, options);
    daemon_log_to(NULL);
    return ok;
}

/* All lines are JSON objects with a time, a level and an event. */
static void read_json(Log *log) {
    size_t n;
    Err err;
    log->text = test_read_file(log->path, &n);
    log->records = cJSON_CreateArray();
    for (char *line = log->text; line && *line; line += strcspn(line, "\n") + 1) {
        cJSON *json = json_parse(line, strcspn(line, "\n"), 2, 64, &err);
        const char *event = json ? json_text(json, "event") : NULL;
        CHECK_MSG(event && json_text(json, "time") && json_text(json, "level"), "%.300s", line);
        CHECK_MSG(event && (!strcmp(event, "access") || json_text(json, "message")), "%.300s", line);
        const char *path = json ? json_text(json, "path") : NULL;
        bool ours = event && !strcmp(event, "access") && !(path && !strcmp(path, "/health"));
        if (ours) CHECK_MSG(!strcmp(json_text(json, "level"), "info"), "%.300s", line);
        if (ours)
            cJSON_AddItemToArray(log->records, json);
        else
            cJSON_Delete(json);
    }
}

static void log_free(Log *log) {
    cJSON_Delete(log->records);
    free(log->text);
}

/* The record of the n-th request; path "": none was read. */
static const cJSON *check_record(const Log *log, int n, const char *method, const char *path, int status) {
    const cJSON *r = cJSON_GetArrayItem(log->records, n);
    const char *m = json_text(r, "method"), *p = json_text(r, "path"), *client = json_text(r, "client");
    CHECK_MSG(!strcmp(m ? m : "", method) && !strcmp(p ? p : "", path), "record %d: %s %s", n, m, p);
    CHECK_MSG(status ? json_number(r, "status") == status : !json_at(r, "status"), "record %d: status %g", n,
              json_number(r, "status"));
    CHECK_MSG(client && !strcmp(client, "127.0.0.1"), "record %d: %s", n, client);
    CHECK(json_number(r, "seconds") >= 0 && json_number(r, "bytes") >= 0);
    return r;
}

static bool is_true(const cJSON *r, const char *name) { return cJSON_IsTrue(json_at(r, name)); }

#define PLAIN "{\"prompt\":\"The river\",\"max_tokens\":5,\"ignore_eos\":true}"
#define STREAM "{\"prompt\":\"The river\",\"max_tokens\":7,\"ignore_eos\":true,\"n\":2,\"stream\":true}"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

/* The answer goes on in the trace under a span of its own, and so says its record. */
static void check_trace(const Answer *a, const cJSON *record) {
    char *told = answer_header(a, "traceparent"), wanted[64];
    const char *span = json_text(record, "span_id");
    snprintf(wanted, sizeof wanted, "00-" TRACE "-%s-01", span ? span : "none");
    CHECK_MSG(told && !strcmp(told, wanted), "%s, not %s", told, wanted);
    CHECK(span && strlen(span) == 16 && strcmp(span, PARENT) != 0);
    CHECK(json_is_text(json_at(record, "trace_id"), TRACE) && json_is_text(json_at(record, "parent_id"), PARENT));
    free(told);
}

TEST(access_log_tells_of_every_request) {
    static const char odd[] = "GET /a%0a%1b%22b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static const char bad[] = "GET / HTTP/1.1\r\nHost: x\nConnection: close\r\n\r\n";
    Daemon d;
    Log log;
    REQUIRE(start(&d, &log, CHECKPOINT_SMALL, "--log json --access-log"));
    Answer plain = http_post(&d, "/v1/completions", PLAIN);
    Answer stream = http_post(&d, "/v1/completions", STREAM);
    Answer wrong = http_request(&d, NULL, "/v1/completions", "Traceparent: 00-" TRACE "-" PARENT "-03",
                                "{\"max_tokens\":\"many\"}");
    http_request(&d, NULL, "/nowhere", "X-Request-Id: mine-1", NULL);
    for (int i = 0; i < 2; i++) {
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, i ? bad : odd, i ? sizeof bad - 1 : sizeof odd - 1));
        free(raw_read(fd, PATIENCE, NULL));
        close(fd);
    }
    daemon_stop(&d);
    read_json(&log);
    CHECK_MSG(cJSON_GetArraySize(log.records) == 6, "%s", log.text);
    CHECK_MSG(!strstr(log.text, "river"), "%s", log.text);

    const cJSON *r = check_record(&log, 0, "POST", "/v1/completions", 200);
    CHECK(!is_true(r, "stream") && !is_true(r, "hung_up"));
    CHECK(json_number(r, "bytes") == (double)(strlen(plain.headers) + strlen(plain.body)));
    CHECK(json_number(r, "prompt_tokens") == json_number(plain.json, "usage.prompt_tokens"));
    CHECK(json_number(r, "completion_tokens") == 5 && !strcmp(json_text(r, "finish"), "length"));
    double queued = json_number(r, "queue_seconds"), first = json_number(r, "first_token_seconds");
    CHECK_MSG(queued >= 0 && first >= queued && json_number(r, "seconds") >= first, "%g %g", queued, first);

    r = check_record(&log, 1, "POST", "/v1/completions", 200);
    CHECK(is_true(r, "stream") && !is_true(r, "hung_up") && json_number(r, "completion_tokens") == 14);
    CHECK(json_number(r, "bytes") > (double)strlen(stream.body));
    r = check_record(&log, 2, "POST", "/v1/completions", 400);
    CHECK(!json_at(r, "finish") && !json_at(r, "prompt_tokens"));
    check_trace(&wrong, r);
    char *id = answer_header(&plain, "x-request-id");
    CHECK_MSG(id && !strcmp(id, json_text(check_record(&log, 0, "POST", "/v1/completions", 200), "request_id")), "%s",
              id);
    free(id);
    r = check_record(&log, 3, "GET", "/nowhere", 404);
    CHECK(!strcmp(json_text(r, "request_id"), "mine-1") && !json_at(r, "trace_id"));
    check_record(&log, 4, "GET", "/a??\"b", 404);
    check_record(&log, 5, "", "", 400);
    log_free(&log);
}

/* ---- deploy/otel-collector.yaml ---- */

/* Every field that it reads is text in some line. */
static void check_fields(const char *config, const char *log) {
    int n = 0;
    for (const char *at = config; (at = strstr(at, "attributes.")); n++) {
        at += strlen("attributes.");
        int length = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        const char *field = test_text("\"%.*s\":\"", length, at);
        CHECK_MSG(strstr(log, field), "no line has %s", field);
    }
    CHECK(n >= 7);
}

/* The layout is Go's of RFC 3339, in which Z is a zone, and the time is in it, and now. */
static void check_time(const char *config, const char *text) {
    struct tm tm = {0};
    CHECK(strstr(config, "layout_type: gotime, layout: \"2006-01-02T15:04:05Z07:00\""));
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    CHECK_MSG(end && !strcmp(end, "Z") && fabs(difftime(timegm(&tm), time(NULL))) < PATIENCE, "%s", text);
}

TEST(access_log_is_what_the_collector_reads) {
    Daemon d;
    Log log;
    char *config = test_read_file("deploy/otel-collector.yaml", NULL);
    REQUIRE(config && start(&d, &log, CHECKPOINT_SMALL, "--log json --access-log"));
    Answer a = http_request(&d, NULL, "/v1/completions", "Traceparent: 00-" TRACE "-" PARENT "-01", PLAIN);
    daemon_stop(&d);
    read_json(&log);
    check_fields(config, log.text);
    const cJSON *r = check_record(&log, 0, "POST", "/v1/completions", 200);
    check_trace(&a, r);
    check_time(config, json_text(r, "time"));
    /* of our levels the one that the collector does not know by itself */
    CHECK(strstr(config, "parse_from: attributes.level, mapping: {warn: warning}}"));
    log_free(&log);
    free(config);
}

/* Each is told as a client that left, at the level of all others. */
TEST(access_log_tells_who_hung_up) {
    Daemon d;
    Log log;
    REQUIRE(start(&d, &log, CHECKPOINT_SLOW, "--log json --access-log --max-batch 1"));
    int streamed = raw_completion(&d, "{\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}");
    CHECK(raw_expect(streamed, "data: "));
    int queued = raw_completion(&d, "{\"max_tokens\":60000,\"ignore_eos\":true}");
    double waiting = 0;
    for (double t0 = now_seconds(); waiting < 1 && now_seconds() - t0 < PATIENCE; usleep(5000)) {
        Answer a = http_get(&d, "/health");
        waiting = json_number(a.json, "queued");
    }
    close(queued);
    while (waiting > 0) {
        Answer a = http_get(&d, "/health");
        waiting = json_number(a.json, "queued");
    }
    close(streamed);
    daemon_stop(&d);
    read_json(&log);
    CHECK_MSG(cJSON_GetArraySize(log.records) == 2, "%s", log.text);
    const cJSON *r = check_record(&log, 0, "POST", "/v1/completions", 0);
    CHECK(is_true(r, "hung_up") && json_number(r, "bytes") == 0 && json_number(r, "completion_tokens") == 0);
    CHECK(!json_at(r, "first_token_seconds") && !strcmp(json_text(r, "finish"), "cancelled"));
    r = check_record(&log, 1, "POST", "/v1/completions", 200);
    CHECK(is_true(r, "hung_up") && is_true(r, "stream") && json_number(r, "completion_tokens") >= 1);
    CHECK(json_number(r, "bytes") > 0 && !strcmp(json_text(r, "finish"), "cancelled"));
    CHECK_MSG(!strstr(log.text, "\"error\"") && !strstr(log.text, "\"warning\""), "%s", log.text);
    log_free(&log);
}

TEST(access_log_tells_who_was_turned_away) {
    static const char request[] = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    Daemon d;
    Log log;
    REQUIRE(start(&d, &log, CHECKPOINT_SMALL, "--log json --access-log --max-connections-per-address 1"));
    http_get(&d, "/health"); /* its connection has gone, or takes the place */
    int fds[3], refused = 0;
    for (size_t i = 0; i < COUNTOF(fds); i++) {
        fds[i] = raw_connect(&d);
        CHECK(raw_send(fds[i], request, sizeof request - 1) && raw_expect(fds[i], "}"));
    }
    for (size_t i = 0; i < COUNTOF(fds); i++) close(fds[i]);
    daemon_stop(&d);
    read_json(&log);
    for (int i = 0; i < cJSON_GetArraySize(log.records); i++) {
        if (json_number(cJSON_GetArrayItem(log.records, i), "status") != 503) continue;
        check_record(&log, i, "", "", 503);
        refused++;
    }
    CHECK_MSG(refused >= 2, "%d refused", refused);
    log_free(&log);
}

TEST(access_log_as_text_and_none) {
    static const char *const options[] = {"--access-log", NULL};
    for (int i = 0; i < 2; i++) {
        Daemon d;
        Log log;
        size_t n;
        REQUIRE(start(&d, &log, CHECKPOINT_SMALL, options[i]));
        http_get(&d, "/v1/models");
        daemon_stop(&d);
        log.text = test_read_file(log.path, &n);
        const char *line = strstr(log.text, "client=127.0.0.1 method=GET path=/v1/models status=200 bytes=");
        CHECK_MSG((line != NULL) == (i == 0), "%s", log.text);
        CHECK_MSG(strstr(log.text, "Z ready\n") && strstr(log.text, "Z stopped\n"), "%s", log.text);
        log_free(&log);
    }
}

TEST(log_json_of_a_start_that_fails) {
    char *text;
    Err err;
    CHECK(daemon_run("--port 0 --log json --model /nowhere", &text) == 1);
    cJSON *json = json_parse(text, strcspn(text, "\n"), 2, 64, &err);
    const char *level = json_text(json, "level"), *message = json_text(json, "message");
    CHECK_MSG(level && !strcmp(level, "error") && message && strstr(message, "/nowhere"), "%s", text);
    cJSON_Delete(json);
    free(text);
    CHECK(daemon_run("--log xml --model /nowhere", &text) == 2);
    CHECK_MSG(strstr(text, "--log") && strstr(text, "xml") && strstr(text, "json"), "%s", text);
    free(text);
}

/* ---- a reader that stalls ---- */

enum { MANY = 600 }; /* requests whose lines fill the pipe and the ring */

static void ask_many(const Daemon *d) {
    char path[1000];
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    for (int i = 0; i < MANY; i++) {
        Answer a = http_get(d, path);
        CHECK_MSG(a.status == 404, "request %d: %d", i, a.status);
    }
}

/* What comes until `what` has come. */
static void read_until(int fd, const char *what, Text *t) {
    char block[4096];
    for (double t0 = now_seconds(); !strstr(t->data, what) && now_seconds() - t0 < PATIENCE;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n > 0)
            text_collect(block, 1, (size_t)n, t);
        else
            usleep(1000);
    }
}

TEST(access_log_that_nobody_reads) {
    static const char told[] = " lines of the log were lost";
    Daemon d;
    const char *dir = test_dir();
    const char *path = test_text("%s/log", dir);
    REQUIRE(mkfifo(path, 0600) == 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    daemon_log_to(path);
    bool up = daemon_start(&d, CHECKPOINT_SMALL, "--access-log");
    daemon_log_to(NULL);
    REQUIRE(up);
    ask_many(&d);
    Answer a = metrics_now(&d);
    const char *at = strstr(a.body, "\nnoised_log_lost_lines_total ");
    int lost = at ? atoi(strchr(at + 1, ' ')) : 0;
    CHECK_MSG(lost > 0 && lost < MANY, "%d lines lost", lost);
    Text log = {strdup(""), 0};
    read_until(fd, told, &log);
    at = strstr(log.data, told);
    while (at && at > log.data && at[-1] != ' ') at--;
    int here = text_count(log.data, "path=/pppp");
    CHECK_MSG(at && atoi(at) >= lost && here + atoi(at) >= MANY, "%d lines are here, %.40s", here, at ? at : "none");
    ask_many(&d); /* and again nobody reads: */
    CHECK(daemon_stop(&d) == 0);
    close(fd);
    free(log.data);
}

/* The line that the disk could not take is cut and ends there; what is lost is counted, and told of when there is room.
 */
TEST(access_log_on_a_disk_that_is_full) {
    static const char told[] = " lines of the log were lost";
    Daemon d;
    Log log;
    struct stat before;
    size_t n;
    REQUIRE(start(&d, &log, CHECKPOINT_SMALL, "--access-log"));
    CHECK(stat(log.path, &before) == 0);
    struct rlimit full = {(rlim_t)before.st_size + 1500, RLIM_INFINITY}, room = {RLIM_INFINITY, RLIM_INFINITY};
    REQUIRE(prlimit(d.pid, RLIMIT_FSIZE, &full, NULL) == 0);
    ask_many(&d);
    Answer a = metrics_now(&d);
    const char *at = strstr(a.body, "\nnoised_log_lost_lines_total ");
    CHECK_MSG(at && atoi(strchr(at + 1, ' ')) > MANY / 2, "%.60s", at ? at : "none");
    CHECK(prlimit(d.pid, RLIMIT_FSIZE, &room, NULL) == 0);
    http_get(&d, "/health?last=1");
    CHECK(daemon_stop(&d) == 0);
    log.text = test_read_file(log.path, &n);
    at = strstr(log.text, told);
    while (at && at > log.text && at[-1] != ' ') at--;
    int here = text_count(log.text, "path=/pppp"), whole = text_count(log.text, "hung_up=false\n");
    CHECK_MSG(at && whole + atoi(at) >= MANY && here + atoi(at) <= MANY + 3, "%d lines are here, %d whole, %.40s", here,
              whole, at ? at : "none");
    for (const char *line = log.text; *line; line += strcspn(line, "\n") + 1)
        CHECK_MSG(!strncmp(line, "20", 2), "%.60s", line); /* its time: none hangs on another */
    free(log.text);
}
