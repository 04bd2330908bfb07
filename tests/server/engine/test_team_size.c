/* How many threads compute beside other programs: the decision by itself, and the looks at the real team. */
#include "base/team.h"
#include "server/engine/team_size.h"
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>

/* A look every fifth of a second: what share members wait for when all of the team compute, and when fewer do, whose
 * steps take so many times as long. Returns for how many of n looks the team was full. */
static int looks_at_pace(TeamSize *c, double *now, double full, double few, double pace, int n) {
    int n_full = 0;
    for (int i = 0; i < n; i++, *now += 0.2) {
        n_full += c->size == c->most;
        for (int k = 0; k < 8; k++) team_size_time(c, 1 + k % 2, c->size == c->most ? 0.02 : pace * 0.02);
        c->size = team_size_decide(c, c->size == c->most ? full : few, *now);
        CHECK(c->size >= 1 && c->size <= c->most);
    }
    return n_full;
}

static int looks(TeamSize *c, double *now, double full, double few, int n) {
    return looks_at_pace(c, now, full, few, 0.8, n);
}

static TeamSize team_size_of(int n) { return (TeamSize){.most = n, .size = n, .patience = 0.5}; }

TEST(team_size_is_full_when_alone) {
    static const int sizes[] = {1, 2, 3, 16, 64};
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        double now = 1000;
        TeamSize c = team_size_of(sizes[i]);
        CHECK(looks(&c, &now, 0.004, 0, 1000) == 1000);
    }
}

/* One other on one of two cores: three who take turns wait for a third of the time each. */
TEST(team_size_leaves_a_core_to_another) {
    double now = 1000;
    TeamSize c = team_size_of(2);
    int full = looks(&c, &now, 0.33, 0.01, 1000);
    CHECK_MSG(full >= 10 && full <= 20, "%d of 1000 looks", full); /* tried after 0.5, 1, 2, ... 16 seconds */
    full = looks(&c, &now, 0, 0, 1000);                            /* it has gone */
    CHECK_MSG(full >= 1000 - 90, "%d of 1000 looks", full);
    full = looks(&c, &now, 0.33, 0.01, 1000); /* and comes again: no time is lost */
    CHECK_MSG(full <= 20, "%d of 1000 looks", full);
}

TEST(team_size_leaves_as_many_as_there_are_others) {
    static const struct {
        int size, others, best;
    } cases[] = {{16, 1, 15}, {16, 2, 14}, {16, 8, 8}, {16, 9, 16}, {16, 16, 16},
                 {4, 1, 3},   {4, 3, 4},   {3, 1, 2},  {3, 2, 3}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        TeamSize c = team_size_of(cases[i].size);
        double delayed = (double)cases[i].others / (cases[i].size + cases[i].others);
        int size = team_size_decide(&c, delayed, 1000);
        CHECK_MSG(size == cases[i].best, "%d beside %d others: %d", cases[i].size, cases[i].others, size);
    }
}

/* What serves the streams, half a core's worth of it, is no reason to leave a core to it. */
TEST(team_size_bears_with_a_little) {
    double now = 1000;
    TeamSize c = team_size_of(2);
    CHECK(looks(&c, &now, 0.24, 0.01, 1000) == 1000);
}

/* Others everywhere: fewer would wait as long. */
TEST(team_size_is_full_when_fewer_wait_too) {
    double now = 1000;
    TeamSize c = team_size_of(2);
    int full = looks(&c, &now, 0.37, 0.4, 1000);
    CHECK_MSG(full >= 975, "%d of 1000 looks", full);
}

/* Cores of their own are of no use to fewer where they are slower all the same. */
TEST(team_size_is_full_when_fewer_are_slower) {
    double now = 1000;
    TeamSize c = team_size_of(2);
    int full = looks_at_pace(&c, &now, 0.33, 0.01, 1.05, 1000);
    CHECK_MSG(full >= 975, "%d of 1000 looks", full);
    full = looks_at_pace(&c, &now, 0.33, 0.01, 0.95, 1000); /* now they are not */
    CHECK_MSG(full <= 100, "%d of 1000 looks", full);
}

/* Steps are compared with steps of as many rows. */
TEST(team_size_compares_like_with_like) {
    TeamSize c = team_size_of(2);
    team_size_time(&c, 1, 0.01);
    team_size_time(&c, 100, 0.1);
    c.size = 1;
    c.until = 2000;
    team_size_time(&c, 1, 0.009);
    CHECK(team_size_decide(&c, 0, 1000) == 1);
    team_size_time(&c, 127, 0.12);
    team_size_time(&c, 127, 0.12);
    CHECK(team_size_decide(&c, 0, 1000) == 1);
    team_size_time(&c, 1, 0.011);
    CHECK(team_size_decide(&c, 0, 1000) == 2);
    c.size = 1;
    team_size_time(&c, 8, 0.001); /* of which nothing is known */
    CHECK(team_size_decide(&c, 0, 1000) == 2);
}

/* A part of the team bears with a fifth of the time, and is given up when it waits for more. */
TEST(team_size_of_a_part_at_the_limit) {
    TeamSize c = {.most = 4, .size = 3, .until = 2000, .patience = 0.5, .pace = {0.1}};
    team_size_time(&c, 1, 0.09);
    CHECK(team_size_decide(&c, 0.2, 1000) == 3);
    team_size_time(&c, 1, 0.09);
    CHECK(team_size_decide(&c, 0.21, 1000) == 4);
}

/* No system has room for such stacks. */
TEST(team_size_try_says_when_there_are_no_threads) {
    pthread_attr_t usual, huge;
    REQUIRE(pthread_getattr_default_np(&usual) == 0 && pthread_attr_init(&huge) == 0);
    CHECK(pthread_attr_setstacksize(&huge, (size_t)1 << 62) == 0 && pthread_setattr_default_np(&huge) == 0);
    int refused = team_size_try(3);
    CHECK(pthread_setattr_default_np(&usual) == 0);
    CHECK(refused != 0 && team_size_try(3) == 0 && team_size_try(0) == 0);
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
}

/* A team whose members are asked for their delays: this kernel tells, and nobody waited before it computed. */
TEST(team_size_looks_at_the_real_members) {
    int before = team_size();
    TeamSize c;
    team_size_init(&c);
    CHECK(c.most == before && c.size == before);
    for (int i = 0; i < c.size; i++) CHECK_MSG(c.threads[i] > 0 && isfinite(c.delays[i]), "member %d", i);
    for (int i = 0; i < 50; i++) team_size_observe(&c, 1, 0.03, 1000 + 0.03 * i);
    CHECK(c.size >= 1 && c.size <= c.most && team_size() == c.size);
    team_size_free(&c);
    team_resize(before);
}
