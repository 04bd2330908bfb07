/* The workers by themselves, and what clients see of them: nothing but that others are served meanwhile. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/workers.h"
#include "tests/support/http_client.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- the workers ---- */

typedef struct Piece {
    Work work;
    int number;
    int pieces; /* that are to come behind this one */
} Piece;

static atomic_bool held; /* the pieces with number 0 wait for its end */
static atomic_int n_run, n_freed, n_woken;
static atomic_int holder;           /* policy of the thread that ran piece 0, -1: none has begun it */
static atomic_int policy, niceness; /* of the thread that ran the last piece but 0 */
static int order[64];               /* numbers in the order in which they ran, by one worker */

static bool run_piece(Work *w) {
    Piece *p = (Piece *)w;
    if (p->number == 0) atomic_store(&holder, sched_getscheduler(0));
    while (p->number == 0 && atomic_load(&held)) usleep(100);
    if (p->number) atomic_store(&policy, sched_getscheduler(0)), atomic_store(&niceness, getpriority(PRIO_PROCESS, 0));
    order[atomic_fetch_add(&n_run, 1)] = p->number;
    return p->pieces-- > 0;
}

static void free_piece(Work *w) {
    atomic_fetch_add(&n_freed, 1);
    free(w);
}

static void wake(void *arg) {
    (void)arg;
    atomic_fetch_add(&n_woken, 1);
}

static Piece *make_piece(uint64_t client, int number) {
    Piece *p = xcalloc(1, sizeof *p);
    p->number = number;
    p->work = (Work){.run = run_piece, .free = free_piece, .wake = wake, .client = client};
    atomic_init(&p->work.done, true);
    atomic_init(&p->work.owners, 1);
    return p;
}

static void wait_done(Piece *p) {
    while (!atomic_load(&p->work.done)) usleep(100);
}

/* Workers, the first of which stands in a piece of client 9. */
static Workers *start_held(int threads, Piece **blocker) {
    Workers *p;
    Err err;
    if (workers_start(&p, threads, 3, &err)) return NULL;
    atomic_store(&held, true);
    atomic_store(&holder, -1);
    atomic_store(&n_run, 0);
    atomic_store(&n_freed, 0);
    atomic_store(&n_woken, 0);
    *blocker = make_piece(9, 0);
    CHECK(workers_submit(p, &(*blocker)->work, false));
    return p;
}

/* Two, of which the idle one stands in it. Where that got no core for a second, the last one came first. */
static Workers *start_idle_held(Piece **blocker) {
    Workers *p = NULL;
    for (int try = 0; try < TRIES && !p; try++) {
        p = start_held(2, blocker);
        while (p && atomic_load(&holder) < 0) usleep(100);
        if (!p || atomic_load(&holder) == SCHED_IDLE) break;
        atomic_store(&held, false);
        workers_release(p, &(*blocker)->work);
        workers_stop(p);
        p = NULL;
    }
    return p;
}

TEST(workers_take_fair_turns_within_bounds) {
    Piece *blocker, *pieces[6];
    Workers *p = start_held(1, &blocker);
    REQUIRE(p);
    usleep(2000); /* whether it waits or runs: its client is its own */
    static const uint64_t partys[] = {1, 1, 1, 1, 2, 3};
    for (int i = 0; i < 6; i++) {
        pieces[i] = make_piece(partys[i], i + 1);
        CHECK_MSG(workers_submit(p, &pieces[i]->work, false) == (i != 3), "piece %d", i); /* the fourth of a client */
    }
    CHECK(workers_submit(p, &pieces[3]->work, true));
    atomic_store(&held, false);
    for (int i = 0; i < 6; i++) wait_done(pieces[i]);
    static const int expected[] = {0, 1, 5, 6, 2, 3, 4};
    CHECK_MSG(!memcmp(order, expected, sizeof expected), "order %d %d %d %d %d %d %d", order[0], order[1], order[2],
              order[3], order[4], order[5], order[6]);
    for (int i = 0; i < 6; i++) workers_release(p, &pieces[i]->work);
    workers_release(p, &blocker->work);
    workers_stop(p);
    CHECK(atomic_load(&n_freed) == 7 && atomic_load(&n_woken) == 7);
}

static Workers *taking;
static Piece *newcomer;

static bool run_and_submit(Work *w) {
    CHECK(workers_submit(taking, &newcomer->work, false));
    return run_piece(w);
}

/* Rounds go on: who comes to the second piece of another client is not before its third, that has waited. */
TEST(workers_serve_no_newcomer_before_its_round) {
    Piece *blocker, *pieces[3];
    taking = start_held(1, &blocker);
    REQUIRE(taking);
    newcomer = make_piece(2, 4);
    for (int i = 0; i < 3; i++) {
        pieces[i] = make_piece(1, i + 1);
        if (i == 1) pieces[i]->work.run = run_and_submit;
        CHECK(workers_submit(taking, &pieces[i]->work, false));
    }
    atomic_store(&held, false);
    wait_done(pieces[2]);
    wait_done(newcomer);
    for (int i = 0; i < 5; i++) CHECK_MSG(order[i] == i, "piece %d is %d", i, order[i]);
    for (int i = 0; i < 3; i++) workers_release(taking, &pieces[i]->work);
    workers_release(taking, &newcomer->work);
    workers_release(taking, &blocker->work);
    workers_stop(taking);
}

TEST(workers_release_a_client_that_is_gone) {
    Piece *blocker, *waiting;
    Workers *p = start_held(1, &blocker);
    REQUIRE(p);
    waiting = make_piece(1, 1);
    CHECK(workers_submit(p, &waiting->work, false));
    workers_release(p, &waiting->work); /* never runs */
    CHECK(atomic_load(&n_freed) == 1);
    workers_release(p, &blocker->work); /* runs, perhaps, and is freed by the worker then */
    atomic_store(&held, false);
    workers_stop(p);
    CHECK_MSG(atomic_load(&n_freed) == 2 && atomic_load(&n_run) <= 1, "%d freed", atomic_load(&n_freed));
}

TEST(workers_do_the_same_work_twice) {
    Piece *blocker;
    Workers *p = start_held(1, &blocker);
    REQUIRE(p);
    atomic_store(&held, false);
    for (int i = 0; i < 200; i++) { /* handed over again at once, while the worker is about to let go */
        wait_done(blocker);
        if (i < 199 && atomic_load(&n_run) < 60) CHECK(workers_submit(p, &blocker->work, true));
    }
    workers_release(p, &blocker->work);
    workers_stop(p);
    CHECK(atomic_load(&n_freed) == 1 && atomic_load(&n_run) == 60);
}

TEST(workers_give_way_to_streams) {
    Piece *blocker, *piece = make_piece(1, 1);
    Workers *p = start_held(1, &blocker);
    REQUIRE(p);
    atomic_store(&held, false);
    CHECK(workers_submit(p, &piece->work, false));
    wait_done(piece);
    CHECK_MSG(policy == SCHED_IDLE, "policy %d", policy);
    workers_release(p, &piece->work);
    workers_release(p, &blocker->work);
    workers_stop(p);
}

TEST(workers_last_one_takes_what_has_waited) {
    Piece *blocker, *piece = make_piece(1, 1);
    Workers *p = start_idle_held(&blocker);
    REQUIRE(p);
    usleep(1200000); /* the blocker runs, and nothing waits: whoever looks for work now waits for it anew */
    double start = now_seconds();
    CHECK(workers_submit(p, &piece->work, false));
    wait_done(piece);
    double waited = now_seconds() - start;
    CHECK_MSG(waited >= 1 && niceness == getpriority(PRIO_PROCESS, 0) && policy == SCHED_OTHER, "%g s, nice %d", waited,
              niceness);
    bool overtaken = false; /* by what is brief, unless the machine stalls between the two */
    for (int try = 0; try < TRIES && !overtaken; try++) {
        Piece *slow = make_piece(1, 1), *brief = make_piece(1, 2);
        int before = atomic_load(&n_run);
        brief->work.brief = true;
        CHECK(workers_submit(p, &slow->work, false));
        usleep(20000); /* the last one has seen it, and waits again */
        CHECK(workers_submit(p, &brief->work, false));
        wait_done(brief);
        CHECK_MSG(policy == SCHED_OTHER, "policy %d", policy);
        wait_done(slow);
        overtaken = order[before] == 2 && order[before + 1] == 1;
        workers_release(p, &slow->work);
        workers_release(p, &brief->work);
    }
    CHECK(overtaken);
    atomic_store(&held, false);
    workers_release(p, &piece->work);
    workers_release(p, &blocker->work);
    workers_stop(p);
}

/* What an idle worker has begun goes on with the last one, piece by piece, once it is a second old. */
static bool run_slowly(Work *w) {
    usleep(50000);
    return run_piece(w);
}

TEST(workers_last_one_goes_on_with_what_takes_long) {
    Piece *blocker, *slow = make_piece(1, 1);
    Workers *p = start_held(2, &blocker);
    REQUIRE(p);
    atomic_store(&held, false);
    wait_done(blocker);
    slow->work.run = run_slowly;
    slow->pieces = 40;
    CHECK(workers_submit(p, &slow->work, false));
    wait_done(slow);
    CHECK_MSG(policy == SCHED_OTHER, "policy %d", policy);
    CHECK(slow->pieces == -1 && atomic_load(&n_run) == 42 && atomic_load(&n_woken) == 2);
    workers_release(p, &slow->work);
    workers_release(p, &blocker->work);
    workers_stop(p);
}

TEST(workers_leave_the_pieces_of_a_client_that_is_gone) {
    Piece *blocker, *endless = make_piece(1, 1);
    Workers *p = start_held(1, &blocker);
    REQUIRE(p);
    atomic_store(&held, false);
    endless->pieces = INT_MAX;
    endless->work.run = run_slowly;
    CHECK(workers_submit(p, &endless->work, false));
    while (atomic_load(&n_run) < 2) usleep(1000);
    workers_release(p, &endless->work);
    workers_release(p, &blocker->work);
    workers_stop(p);
    CHECK(atomic_load(&n_freed) == 2);
}

/* ---- large bodies ---- */

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
