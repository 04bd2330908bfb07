#include "server/api/pooling/probabilities.h"

#include "base/fixed_math.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int probabilities_init(Probabilities *p, int n) {
    size_t classes = (size_t)n;
    double *all = try_malloc(classes * (3 * sizeof(double) + 3 * sizeof(float)));
    if (!all) return -1;
    float *floats = (float *)(all + 3 * classes);
    *p = (Probabilities){.n = n,
                         .mean = floats,
                         .spread = floats + classes,
                         .sums = all,
                         .squares = all + classes,
                         .terms = all + 2 * classes,
                         .sample = floats + 2 * classes};
    return 0;
}

void probabilities_free(Probabilities *p) { free(p->sums); }

static void softmax(float *to, double *terms, const float *logits, int n) {
    double top = (double)logits[0], sum = 0;
    for (int i = 1; i < n; i++) top = fmax(top, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += terms[i] = fixed_exp((double)logits[i] - top);
    for (int i = 0; i < n; i++) to[i] = (float)(terms[i] / sum);
}

static double entropy(const float *p, int n) {
    double h = 0;
    for (int i = 0; i < n; i++)
        if (p[i] > 0) h -= (double)p[i] * fixed_log((double)p[i]);
    return h;
}

void probabilities_of(Probabilities *p, const float *const *logits, int samples) {
    double inside = 0;
    memset(p->sums, 0, 2 * (size_t)p->n * sizeof *p->sums);
    for (int s = 0; s < samples; s++) {
        softmax(p->sample, p->terms, logits[s], p->n);
        inside += entropy(p->sample, p->n);
        for (int i = 0; i < p->n; i++) {
            p->sums[i] += (double)p->sample[i];
            p->squares[i] += (double)p->sample[i] * (double)p->sample[i]; /* exact: 48 bits */
        }
    }
    for (int i = 0; i < p->n; i++) {
        double mean = p->sums[i] / samples;
        p->mean[i] = (float)mean;
        p->spread[i] = (float)sqrt(fmax(p->squares[i] / samples - mean * mean, 0));
    }
    p->mutual_information = fmax(entropy(p->mean, p->n) - inside / samples, 0);
}

int probabilities_best(const Probabilities *p) {
    int best = 0;
    for (int i = 1; i < p->n; i++)
        if (p->mean[i] > p->mean[best]) best = i;
    return best;
}
