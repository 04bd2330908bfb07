/* The workers by themselves. What clients see of them is in test_large_bodies.c. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/workers.h"
#include "tests/support/test.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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
