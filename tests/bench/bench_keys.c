/* Does the time of a check tell how much of a key was guessed? As dudect asks it: classes of keys are checked in a
 * drawn order, each check timed in cycles, the slowest tenth dropped as the machine's noise, and the times of two
 * classes compared by Welch's t. Beyond 4.5 they differ. The same by strcmp shows that the measurement can tell. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/auth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

enum { KEYS = 3, LENGTH = 48, TIMES = 1000000 };

typedef enum Class { RIGHT, FIRST_WRONG, LAST_WRONG, ANOTHER_RIGHT, CLASSES } Class;
static const char *const names[CLASSES] = {"the right key", "its first byte wrong", "its last byte wrong",
                                           "another right key"};

typedef struct Times {
    double *cycles; /* [TIMES] */
    int n;
} Times;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of what is at most `most`. */
static void moments(const Times *t, double most, double *mean, double *variance, int *n) {
    double sum = 0, squares = 0;
    *n = 0;
    for (int i = 0; i < t->n; i++) {
        if (t->cycles[i] > most) continue;
        sum += t->cycles[i];
        squares += t->cycles[i] * t->cycles[i];
        ++*n;
    }
    *mean = sum / *n;
    *variance = squares / *n - *mean * *mean;
}

static double welch(const Times *a, const Times *b, double most) {
    double mean_a, mean_b, variance_a, variance_b;
    int n_a, n_b;
    moments(a, most, &mean_a, &variance_a, &n_a);
    moments(b, most, &mean_b, &variance_b, &n_b);
    return (mean_a - mean_b) / sqrt(variance_a / n_a + variance_b / n_b);
}

static double slow_tenth(const Times t[CLASSES]) {
    int n = 0;
    double *all = xcalloc((size_t)CLASSES * TIMES, sizeof *all);
    for (int c = 0; c < CLASSES; c++) {
        memcpy(all + n, t[c].cycles, (size_t)t[c].n * sizeof *all);
        n += t[c].n;
    }
    qsort(all, (size_t)n, sizeof *all, by_size);
    double most = all[n / 10 * 9];
    free(all);
    return most;
}

static int by_auth(Auth *auth, const char *key) { return auth_check(auth, NULL, key); }

static int by_strcmp(Auth *auth, const char *key) {
    int found = -1;
    for (int i = 0; i < auth->n; i++)
        if (!strcmp(key, auth->keys[i].text)) found = auth->keys[i].number;
    return found;
}

static void measure(Auth *auth, const char *what, int (*check)(Auth *, const char *)) {
    static char keys[CLASSES][AUTH_KEY_BYTES];
    Times times[CLASSES];
    Draws draws = draws_open(1, DRAW_TEST, 0);
    for (int c = 0; c < CLASSES; c++) {
        times[c] = (Times){.cycles = xcalloc(TIMES, sizeof(double))};
        memcpy(keys[c], auth->keys[c == ANOTHER_RIGHT].text, AUTH_KEY_BYTES);
    }
    keys[FIRST_WRONG][0] ^= 1;
    keys[LAST_WRONG][LENGTH - 1] ^= 1;
    for (int i = 0; i < CLASSES * TIMES;) {
        Times *t = &times[draw_below(&draws, CLASSES)];
        if (t->n == TIMES) continue;
        unsigned aux;
        _mm_lfence();
        uint64_t from = __rdtsc();
        volatile int found = check(auth, keys[t - times]);
        uint64_t to = __rdtscp(&aux);
        (void)found;
        t->cycles[t->n++] = (double)(to - from);
        i++;
    }
    double most = slow_tenth(times);
    printf("%s, %d checks of each class:\n", what, TIMES);
    for (int a = 0; a < CLASSES; a++)
        for (int b = a + 1; b < CLASSES; b++)
            printf("  %-20s against %-20s t = %8.2f\n", names[a], names[b], welch(&times[a], &times[b], most));
    for (int c = 0; c < CLASSES; c++) free(times[c].cycles);
}

int main(void) {
    char path[] = "/tmp/bench-keys-XXXXXX";
    Auth auth;
    Err err;
    Draws draws = draws_open(2, DRAW_TEST, 0);
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    BUG_ON(!f);
    for (int k = 0; k < KEYS; k++, fputc('\n', f))
        for (int i = 0; i < LENGTH; i++) fputc('a' + (int)draw_below(&draws, 26), f);
    fclose(f);
    int rc = auth_load(&auth, path, &err);
    unlink(path);
    if (rc) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    measure(&auth, "noised", by_auth);
    measure(&auth, "strcmp, for comparison", by_strcmp);
    auth_free(&auth);
    return 0;
}
