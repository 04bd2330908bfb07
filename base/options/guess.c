#include "base/options/guess.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

/* Letters to insert, drop, change or swap with their neighbour to make b of a. */
static int distance(const char *a, size_t n, const char *b) {
    enum { LONGEST = 32 };
    int d[LONGEST + 1][LONGEST + 1];
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (size_t i = 0; i <= n; i++) {
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (int)(i + k);
                continue;
            }
            d[i][k] = MIN(MIN(d[i - 1][k], d[i][k - 1]) + 1, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = MIN(d[i][k], d[i - 2][k - 2] + 1);
        }
    }
    return d[n][m];
}

void guess(const char *word, size_t n, const char *name, const char **best, int *nearest) {
    int d = distance(word, n, name);
    bool begins = n > 2 && n < strlen(name) && !memcmp(word, name, n);
    if (begins) d = 1;
    if (d >= *nearest || d > 1 + (int)n / 4) return;
    *nearest = d;
    *best = name;
}
