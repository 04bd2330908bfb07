/* Large bodies, which workers read: clients see nothing of them but that others are served meanwhile. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 200 << 10 };

/* json with so many spaces behind it that it is a large body. */
static char *padded(const char *json, size_t n) {
    char *text = xmalloc(n + 1);
    size_t at = strlen(json);
    memcpy(text, json, at);
    memset(text + at, ' ', n - at);
    text[n] = 0;
    return text;
}

/* {"prompt":"..."} of n bytes that take long to tokenise, and whatever else. */
static char *long_prompt(const char *rest, size_t n) {
    char *text = xmalloc(n + 256);
    size_t at = (size_t)sprintf(text, "{%s\"prompt\":\"", rest);
    while (at < n) text[at] = "the river runs below the mill "[at % 30], at++;
    strcpy(text + at, "\"}");
    return text;
}

/* A large body is answered as a small one is, whoever reads it. */
TEST(large_bodies_get_the_same_answers) {
    static const struct {
        const char *path, *body;
    } cases[] = {
        {"/tokenize", "{\"prompt\":\"The river runs.\"}"},
        {"/detokenize", "{\"tokens\":[1,2,300]}"},
        {"/tokenize", "{\"prompt\":1}"},
        {"/v1/completions", "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2,\"logprobs\":2,\"n\":2}"},
        {"/v1/completions", "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2,\"stream\":true}"},
        {"/v1/completions", "{\"prompt\":\"The river\",\"n\":0}"},
        {"/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":100000,\"stream\":true}"},
        /* long answers, which a worker writes */
        {"/v1/completions", "{\"seed\":1,\"noise_seed\":2,\"logprobs\":20,\"n\":8,\"max_tokens\":400,\"echo\":true}"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *large = padded(cases[i].body, 10000);
        Answer a = http_post(&d, cases[i].path, cases[i].body), b = http_post(&d, cases[i].path, large);
        CHECK_MSG(a.status == b.status, "%s: %d, %d", cases[i].body, a.status, b.status);
        if (strstr(cases[i].body, "true}") && a.status == 200 && strstr(cases[i].body, "stream")) {
            Events x = events_parse(a.body), y = events_parse(b.body);
            char *s = events_text(&x, 0), *t = events_text(&y, 0);
            CHECK_MSG(x.done && y.done && !strcmp(s, t), "%s: \"%s\", \"%s\"", cases[i].body, s, t);
            free(s);
            free(t);
            events_free(&x);
            events_free(&y);
        } else if (a.status == 200 && strstr(cases[i].path, "completions")) {
            CHECK(json_same(a.json, "choices", b.json, "choices"));
            CHECK(json_number(b.json, "usage.completion_tokens") > 0);
        } else {
            CHECK(json_same(a.json, "", b.json, ""));
        }
        free(large);
    }
    daemon_stop(&d);
}

static double metric(const Daemon *d, const char *name) {
    Answer a = metrics_now(d);
    const char *line = test_text("\n%s ", name);
    const char *at = a.body ? strstr(a.body, line) : NULL;
    double value = at ? atof(at + strlen(line)) : NAN;
    return value;
}

typedef struct Flood {
    const Daemon *d;
    char *body;
    atomic_bool stop;
} Flood;

static void *flood(void *arg) {
    Flood *f = arg;
    while (!atomic_load(&f->stop)) {
        Answer a = http_post(f->d, "/tokenize", f->body);
        CHECK_MSG(a.status == 200, "%d", a.status);
    }
    return NULL;
}

/* No turn of the thread that serves everybody contains the tokenising of a large body: the longest turn stays below
 * what one such body takes. */
TEST(large_bodies_hold_up_nobody) {
    enum { CLIENTS = 4 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Flood f = {.d = &d, .body = long_prompt("", LARGE)};
    double alone = 0, turns = INFINITY;
    for (int try = 0; try < TRIES && turns >= alone / 2; try++) {
        double before = metric(&d, "noised_http_loop_turn_seconds_sum"), start = now_seconds();
        Answer a = http_post(&d, "/tokenize", f.body);
        alone = now_seconds() - start;
        CHECK_MSG(a.status == 200 && json_number(a.json, "count") > 1000, "%d: %.200s", a.status, a.body);
        turns = metric(&d, "noised_http_loop_turn_seconds_sum") - before;
    }
    CHECK_MSG(turns < alone / 2, "%.4f s of turns for %.4f s of work", turns, alone);
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) pthread_create(&threads[i], NULL, flood, &f);
    for (int i = 0; i < 50; i++) {
        Answer health = http_get(&d, "/health");
        CHECK_MSG(health.status == 200, "%d", health.status);
        usleep(2000);
    }
    atomic_store(&f.stop, true);
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    CHECK(metric(&d, "noised_http_loop_turn_seconds_count") > 50);
    free(f.body);
    daemon_stop(&d);
}

/* A deadline counts from the request's arrival, and not from when its body is read. */
TEST(large_bodies_count_in_deadlines) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    char *body = long_prompt("\"truncate_prompt_tokens\":1,\"max_tokens\":1,\"deadline_ms\":1,", LARGE);
    Answer a = http_post(&d, "/v1/completions", body);
    CHECK_MSG(a.status == 200 && cJSON_IsTrue(json_at(a.json, "choices.0.deadline")), "%d: %.200s", a.status, a.body);
    free(body);
    daemon_stop(&d);
}

/* Bodies that are whole all at once, for the daemon stands still meanwhile. */
static void send_at_once(const Daemon *d, const char *body, int n, int *fds) {
    size_t all_but_one = strlen(body) - 1;
    const char *head =
        test_text("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    for (int i = 0; i < n; i++) {
        fds[i] = raw_connect(d);
        CHECK(raw_send(fds[i], head, strlen(head)) && raw_send(fds[i], body, all_but_one));
    }
    kill(d->pid, SIGSTOP);
    for (int i = 0; i < n; i++) CHECK(raw_send(fds[i], body + all_but_one, 1));
    kill(d->pid, SIGCONT);
}

/* There is room for one of the largest, again and again, whatever the pieces are that it comes in. */
TEST(large_bodies_give_their_memory_back) {
    enum { LARGEST = 1 << 18 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-body 262144 --max-bodies 262144"));
    for (int n = LARGEST; n > LARGEST / 2; n -= LARGEST / 8) {
        char *body = padded("{\"prompt\":\"The river\"}", (size_t)n);
        Answer a = http_post(&d, "/tokenize", body);
        CHECK_MSG(a.status == 200, "%d bytes: %d: %s", n, a.status, a.body);
        free(body);
    }
    daemon_stop(&d);
}

static bool is_refused(int fd) {
    char *text = raw_read_until(fd, "\r\n");
    bool refused = text && strstr(text, "HTTP/1.1 429") != NULL;
    free(text);
    return refused;
}

/* Clients that go while their bodies wait or are read leave nothing behind, and so does the end of the server. */
TEST(large_bodies_of_clients_that_go) {
    enum { N = 40 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-queue 8"));
    char *body = long_prompt("\"max_tokens\":1,", LARGE);
    bool refused = false;
    int fds[N];
    for (int tries = 0; tries < TRIES && !refused; tries++) {
        send_at_once(&d, body, N, fds);
        /* Eight wait, two are read: the last ones are refused, unless they come more slowly than bodies are read. */
        for (int i = N - 1; i > N - 4 && !refused; i--) refused = is_refused(fds[i]);
        for (int i = 0; i < N; i++) close(fds[i]);
        usleep(50000);
    }
    CHECK_MSG(refused, "nobody is refused");
    send_at_once(&d, body, N, fds);
    Answer a = http_get(&d, "/health");
    CHECK(a.status == 200);
    daemon_stop(&d); /* with some waiting */
    for (int i = 0; i < N; i++) close(fds[i]);
    free(body);
}
