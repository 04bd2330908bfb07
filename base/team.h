/* team: the OpenMP team as plain functions, so that code also builds without OpenMP (thread sanitizer builds). */
#ifndef NOISED_TEAM_H
#define NOISED_TEAM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef _OPENMP
#include <omp.h>
static inline int team_member(void) { return omp_get_thread_num(); }
static inline int team_size(void) { return omp_get_max_threads(); }
/* 0: as it is, all cores that this process may use (machine_cpus, by omp_env.h), or OMP_NUM_THREADS. */
static inline void team_resize(int n) {
    if (n > 0) omp_set_num_threads(n);
}
#else
static inline int team_member(void) { return 0; }
static inline int team_size(void) { return 1; }
static inline void team_resize(int n) { (void)n; }
#endif

/* Whether a loop is worth waking the team for: `#pragma omp parallel for if (team_pays(n, TEAM_ELEMENTS))`. Each unit
 * of work has the count from which it is. No result depends on the answer. */
typedef enum TeamWork {
    TEAM_ELEMENTS = 1 << 14, /* elements computed or scattered one by one */
    TEAM_COPIES = 1 << 16,   /* elements copied or added in whole rows */
    TEAM_PRODUCTS = 1 << 17, /* multiply-adds of a matrix product */
    TEAM_SCORES = 1 << 14,   /* multiply-adds of queries and keys, which may lie in memory */
} TeamWork;
static inline bool team_pays(size_t count, TeamWork work) { return count > (size_t)work; }

#endif
