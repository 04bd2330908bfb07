/* probabilities: what classes are worth under one noise seed or several.
 *
 *     p_s = softmax(logits of sample s), in double, each rounded to float: what a request for that seed alone is told
 *     mean = (p_1 + … + p_n) / n, summed in double in the order of the samples, rounded to float
 *     spread = sqrt of the mean squared deviation from it
 *     mutual information = H(mean) - (H(p_1) + … + H(p_n)) / n, in nats: what knowing the seed tells of the class */
#ifndef NOISED_API_PROBABILITIES_H
#define NOISED_API_PROBABILITIES_H

typedef struct Probabilities {
    int n; /* classes */
    float *mean, *spread;
    double mutual_information;
    double *sums, *squares, *terms; /* scratch; the allocation begins at sums */
    float *sample;
} Probabilities;

int probabilities_init(Probabilities *p, int n); /* -1 when memory runs out; then there is nothing to free */
void probabilities_free(Probabilities *p);

/* logits[s] [n] of sample s. */
void probabilities_of(Probabilities *p, const float *const *logits, int samples);

int probabilities_best(const Probabilities *p);

#endif
