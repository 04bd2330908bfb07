#include "base/team.h"
#include "tests/support/test.h"

/* A loop of one thread is a plain call; within a loop of several it still runs whole in each of them. */
TEST(team_of_one_within_a_team) {
    enum { TEAM = 2, N = 100 };
    int ran[TEAM] = {0}, before = team_size();
    team_resize(TEAM);
#pragma omp parallel for schedule(static)
    for (int t = 0; t < TEAM; t++)
#pragma omp parallel for if (team_pays(N, TEAM_ELEMENTS))
        for (int i = 0; i < N; i++)
#pragma omp atomic
            ran[t]++;
    team_resize(before);
    CHECK_MSG(ran[0] == N && ran[1] == N, "%d and %d of %d", ran[0], ran[1], N);
}
