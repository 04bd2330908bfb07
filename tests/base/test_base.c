#include "base/arena.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(philox_known_answer) {
    Philox p = philox4x32(0, 0, 0, 0, 0);
    CHECK(p.v[0] == 0x6627e8d5 && p.v[1] == 0xe169c58d && p.v[2] == 0xbc57ac4c && p.v[3] == 0x9b00dbd8);
    /* Random123's second published vector: all bits set. */
    p = philox4x32(~0u, ~0u, ~0u, ~0u, ~(uint64_t)0);
    CHECK(p.v[0] == 0x408f276d && p.v[1] == 0x41c83b0e && p.v[2] == 0xa20bc7c6 && p.v[3] == 0x6d5451fd);
}

/* Values of an independent computation. */
TEST(seeds_fold) {
    CHECK(seed_fold(0) == 0 && seed_fold(SEED_MAX) == (uint64_t)SEED_MAX);
    CHECK(seed_fold(-1) == 7288636742845051 && seed_fold(SEED_MAX + 1) == 1414980677355368);
    CHECK(seed_fold(INT64_MAX) == 6165828233021391 && seed_fold(INT64_MIN) == 6425575012308757);
}

/* The i-th draw is a function of i: streams can be entered anywhere. */
TEST(draws_random_access) {
    Draws d = draws_open(5, DRAW_TEST, 3);
    uint32_t drawn[50];
    for (int i = 0; i < 50; i++) drawn[i] = draw_u32(&d);
    for (int i = 0; i < 50; i++) {
        int at = i * 17 % 50;
        d.next = (uint64_t)at;
        CHECK(draw_u32(&d) == drawn[at]);
    }
    Draws other = draws_open(5, DRAW_INIT, 3);
    CHECK(draw_u32(&other) != drawn[0]);
}

TEST(draws_are_normal) {
    Draws d = draws_open(1, DRAW_TEST, 0);
    double sum = 0, squares = 0;
    enum { N = 20000 };
    for (int i = 0; i < N; i++) {
        double z = draw_normal(&d);
        sum += z;
        squares += z * z;
    }
    CHECK(sum / N < 0.03 && sum / N > -0.03);
    CHECK(squares / N > 0.96 && squares / N < 1.04);
}

TEST(arena_keeps_its_blocks) {
    Arena a;
    arena_init(&a, 100);
    ArenaMark start = arena_mark(&a);
    for (int round = 0; round < 3; round++) {
        unsigned char *last = NULL;
        for (int i = 0; i < 40; i++) {
            unsigned char *p = arena_alloc(&a, 1000);
            CHECK((uintptr_t)p % 64 == 0 && p != last);
            memset(p, round, 1000);
            last = p;
        }
        if (round == 0) start = (ArenaMark){.block = a.first};
        CHECK_MSG(a.grown < 12, "%zu blocks", a.grown);
        arena_rewind(&a, start);
    }
    size_t grown = a.grown;
    for (int i = 0; i < 40; i++) arena_alloc(&a, 1000);
    CHECK(a.grown == grown);
    arena_free(&a);
}

TEST(size_arithmetic_overflows) {
    size_t out = 7;
    CHECK(!size_mul(SIZE_MAX / 2, 3, &out) && out == 7);
    CHECK(!size_add(SIZE_MAX, 1, &out) && out == 7);
    CHECK(size_mul(3, 4, &out) && out == 12);
}

TEST(text_ends_are_found) {
    static const char *const list[] = {"one", "two", NULL}, *const empty[] = {NULL};
    CHECK(text_begins("config.json", "config") && text_begins("config", "config") && text_begins("", ""));
    CHECK(!text_begins("conf", "config") && !text_begins("config", "onfig"));
    CHECK(text_ends("config.json", ".json") && text_ends(".json", ".json") && text_ends("x", ""));
    CHECK(!text_ends("json", ".json") && !text_ends("config.jsonl", ".json"));
    CHECK(text_is_in("one", list) && text_is_in("two", list));
    CHECK(!text_is_in("on", list) && !text_is_in("", list) && !text_is_in("one", empty));
}

TEST(arena_joined_holds_the_same_in_other_pieces) {
    Arena a;
    arena_init(&a, 1 << 10);
    for (int i = 0; i < 40; i++) arena_alloc(&a, 1 << 10);
    size_t used = arena_used(&a);
    arena_join(&a);
    size_t grown = a.grown;
    CHECK(arena_used(&a) == 0);
    arena_alloc(&a, 3 << 10);
    arena_alloc(&a, used - (3 << 10));
    CHECK_MSG(a.grown == grown, "%zu blocks, were %zu", a.grown, grown);
    arena_free(&a);
}

/* How a process ends that allocates after (or before) it promised not to. */
static int end_of_allocation(bool promised) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alloc_forbid(promised);
        char *volatile p = malloc(100);
        alloc_forbid(false);
        free(p);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(alloc_guard_fires) {
    if (!ALLOC_GUARD) SKIP("needs SAN=thread");
    CHECK(end_of_allocation(false) == 0);
    int status = end_of_allocation(true);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
