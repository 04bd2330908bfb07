/* GET /streams, and the same figures in the access log. */
#include "base/clock.h"
#include "base/err.h"
#include "base/json/json_reader.h"
#include "server/api/answer.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the figures ---- */

static void publish(Job *job, int n_tokens, useconds_t after) {
    usleep(after);
    job_publish(job, 0, n_tokens, 0);
}

TEST(streams_longest_gap) {
    const int prompt[] = {1};
    const Config config = {0};
    Job *job = job_new(prompt, 1, 4, -1, false);
    AnswerSummary s = ANSWER_NO_JOB;
    REQUIRE(job);
    job->progress.submitted = now_seconds();
    job_start(job, now_seconds());
    JobProgress p = job_progress(job);
    answer_add_job(&s, &config, job, &p, FINISH_NONE);
    CHECK(s.running == 1 && s.tokens == 0 && s.longest_gap < 0 && answer_tokens_per_second(&s) < 0);
    publish(job, 1, 80000); /* no gap: nothing was before */
    p = job_progress(job);
    CHECK(p.longest_gap == 0);
    publish(job, 2, 40000);
    publish(job, 3, 1000);
    p = job_progress(job);
    double whole = p.last_token - p.first_token;
    CHECK_MSG(p.longest_gap >= 0.04 && p.longest_gap < whole, "%g of %g s", p.longest_gap, whole);
    usleep(100000);
    s = ANSWER_NO_JOB;
    answer_add_job(&s, &config, job, &p, FINISH_NONE);
    CHECK_MSG(s.longest_gap >= 0.1, "%g s since the last token", s.longest_gap);
    s = ANSWER_NO_JOB;
    answer_add_job(&s, &config, job, &p, FINISH_STOP);
    CHECK(s.longest_gap == p.longest_gap && s.running == 0 && s.tokens == 3 && s.choices == 1);
    double rate = answer_tokens_per_second(&s);
    CHECK_MSG(fabs(rate * whole - 2) < 1e-9, "%g a second, two in %g s", rate, whole);
    job_release(job);
}

/* ---- the route ---- */

#define KEY "X-Api-Key: key-of-a"

static bool start_with_keys(Daemon *d, char log[256], const char *more) {
    const char *dir = test_dir();
    char path[256], options[512];
    snprintf(log, 256, "%s/log", dir);
    keys_write(path, dir, "key-of-a alice\nkey-of-b\n");
    snprintf(options, sizeof options, "--api-key-file %s --log json --access-log %s", path, more);
    daemon_log_to(log);
    bool up = daemon_start(d, CHECKPOINT_SLOW, options);
    daemon_log_to(NULL);
    return up;
}

static int ask(const Daemon *d, const char *key, const char *body) {
    int fd = raw_connect(d);
    const char *text =
        test_text("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nX-Request-Id: of-%s\r\n"
                  "Content-Length: %zu\r\n\r\n%s",
                  key, key, strlen(body), body);
    CHECK(raw_send(fd, text, strlen(text)));
    return fd;
}

static Answer list(const Daemon *d) { return http_request(d, NULL, "/streams", KEY, NULL); }

static int listed(const Daemon *d) {
    Answer a = list(d);
    int n = cJSON_GetArraySize(json_at(a.json, "data"));
    return n;
}

/* Until the first one has drawn so many tokens and there are n of them. */
static Answer list_with(const Daemon *d, double tokens, int n) {
    Answer a = list(d);
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(2000), a = list(d)) {
        bool there = cJSON_GetArraySize(json_at(a.json, "data")) == n;
        if (there && json_number(a.json, "data.0.tokens") >= tokens) break;
    }
    return a;
}

static void check_schema(const Daemon *d, const Answer *a) {
    char why[256];
    Answer api = http_request(d, NULL, "/openapi.json", KEY, NULL);
    bool fits = schema_check(api.json, json_at(api.json, "components.schemas.Streams"), a->json, why);
    CHECK_MSG(fits, "%s: %s", why, a->body);
}

/* What the access log says of the request, NULL when nothing; the caller deletes it. */
static cJSON *logged(const char *path, const char *request_id) {
    char *text = test_read_file(path, NULL);
    cJSON *found = NULL;
    Err err;
    for (const char *line = text; line && *line && !found; line += strcspn(line, "\n") + 1) {
        found = json_parse(line, strcspn(line, "\n"), 2, 64, &err);
        if (found && json_says(found, "request_id", request_id)) break;
        cJSON_Delete(found);
        found = NULL;
    }
    free(text);
    return found;
}

static void check_logged(const char *log, double seconds) {
    cJSON *a = logged(log, "of-key-of-a"), *b = logged(log, "of-key-of-b");
    CHECK(json_says(a, "tenant", "alice") && json_says(b, "tenant", "2"));
    CHECK(json_number(a, "seed") == 7 && json_number(a, "noise_seed") == 9 && json_number(a, "choices") == 2);
    CHECK(json_number(a, "longest_gap_seconds") > 0 && json_number(a, "longest_gap_seconds") < seconds);
    CHECK(json_number(a, "tokens_per_second") > 1 / seconds && json_text(a, "system_fingerprint"));
    CHECK(!json_at(b, "tokens_per_second") && !json_at(b, "longest_gap_seconds") && json_number(b, "seed") == 3);
    cJSON_Delete(a);
    cJSON_Delete(b);
}

/* A stream of two choices, and an answer that waits behind it. */
TEST(streams_tell_what_runs_and_whose) {
    Daemon d;
    char log[256];
    double start = now_seconds();
    REQUIRE(start_with_keys(&d, log, "--max-batch 1"));
    Answer none = http_get(&d, "/streams");
    CHECK_MSG(none.status == 401, "%d", none.status);
    CHECK(listed(&d) == 0);
    int a = ask(&d, "key-of-a",
                "{\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true,\"n\":2,\"seed\":7,\"noise_seed\":9}");
    char *head = raw_read_until(a, "system_fingerprint\":\"");
    int b =
        ask(&d, "key-of-b", "{\"prompt\":\"a\",\"max_tokens\":60000,\"ignore_eos\":true,\"seed\":3,\"stream\":true}");
    Answer l = list_with(&d, 3, 2);
    check_schema(&d, &l);
    const cJSON *first = json_at(l.json, "data.0"), *second = json_at(l.json, "data.1");
    CHECK_MSG(json_says(first, "request_id", "of-key-of-a") && json_says(first, "tenant", "alice"), "%s", l.body);
    CHECK(json_says(first, "path", "/v1/completions") && cJSON_IsTrue(json_at(first, "stream")));
    CHECK(json_number(first, "choices") == 2 && json_number(first, "running") >= 1);
    CHECK(json_number(first, "seed") == 7 && json_number(first, "noise_seed") == 9);
    CHECK(json_number(first, "tokens_per_second") > 0 && json_number(first, "longest_gap_seconds") > 0);
    CHECK(json_number(first, "age_seconds") >= json_number(first, "first_token_seconds"));
    CHECK(json_number(first, "longest_gap_seconds") <= json_number(first, "age_seconds"));
    const char *fingerprint = json_text(first, "system_fingerprint");
    CHECK(head && fingerprint && strstr(head, "system_fingerprint"));
    CHECK_MSG(json_says(second, "tenant", "2") && json_number(second, "seed") == 3, "%s", l.body);
    CHECK(json_says(second, "request_id", "of-key-of-b"));
    free(head);
    close(b); /* it would begin if the other one were the first to go */
    for (double t0 = now_seconds(); listed(&d) > 1 && now_seconds() - t0 < PATIENCE;) usleep(5000);
    close(a);
    for (double t0 = now_seconds(); listed(&d) > 0 && now_seconds() - t0 < PATIENCE;) usleep(5000);
    CHECK(listed(&d) == 0);
    daemon_stop(&d);
    check_logged(log, now_seconds() - start);
}

TEST(streams_are_kept_back) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--no-slots"));
    Answer a = http_get(&d, "/streams");
    CHECK_MSG(a.status == 501 && strstr(a.body, "--no-slots"), "%d %s", a.status, a.body);
    daemon_stop(&d);
}

/* ---- while everything moves ---- */

typedef struct Crowd {
    const Daemon *daemon;
    atomic_bool stop;
} Crowd;

static void *stream_on(void *arg) {
    Crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        Answer a =
            http_post(c->daemon, "/v1/completions",
                      "{\"prompt\":\"The river\",\"max_tokens\":30,\"ignore_eos\":true,\"stream\":true,\"n\":2}");
        CHECK(a.status == 200);
    }
    return NULL;
}

/* The engine writes what is read here: the thread sanitizer looks on in its build. */
TEST(streams_are_told_while_they_run) {
    enum { CLIENTS = 6, TIMES = 150 };
    Daemon d;
    pthread_t threads[CLIENTS];
    int seen = 0;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-batch 4"));
    Crowd c = {.daemon = &d};
    for (int i = 0; i < CLIENTS; i++) BUG_ON(pthread_create(&threads[i], NULL, stream_on, &c));
    double until = now_seconds() + PATIENCE;
    for (int i = 0; i < TIMES || (seen == 0 && now_seconds() < until); i++) {
        Answer a = http_get(&d, "/streams");
        const cJSON *row, *data = json_at(a.json, "data");
        CHECK_MSG(a.status == 200 && data && cJSON_GetArraySize(data) <= CLIENTS, "%d %s", a.status, a.body);
        cJSON_ArrayForEach(row, data) {
            CHECK_MSG(json_number(row, "tokens") <= 60 && json_number(row, "choices") == 2, "%s", a.body);
            CHECK_MSG(cJSON_IsNull(json_at(row, "tenant")), "%s", a.body);
            seen += json_number(row, "tokens") > 0;
        }
    }
    CHECK(seen > 0);
    atomic_store(&c.stop, true);
    for (int i = 0; i < CLIENTS; i++) BUG_ON(pthread_join(threads[i], NULL));
    daemon_stop(&d);
}
