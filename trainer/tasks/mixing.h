/* mixing: images of a batch mixed with each other, each with the one at the same place from the end (Mixup, Zhang et
 * al. 2018; CutMix, Yun et al. 2019). Of an image and its partner Mixup   lambda of the one and 1 - lambda of the other
 * are added, CutMix  a rectangle of the other, a share 1 - lambda of the area, is pasted in, cut off where it leaves
 * the image, lambda ~ Beta(a, a), one draw a batch. The loss is lambda of the own label's and 1 - lambda of the
 * partner's. With both switched on a coin decides for each batch. */
#ifndef NOISED_MIXING_H
#define NOISED_MIXING_H

#include "base/random.h"
#include "trainer/tasks/task_data.h"

typedef struct Mixing {
    double mixup, cutmix; /* a of the Beta distributions; 0: off */
} Mixing;

/* Mixes in place, a pure function of (seed, number of the batch). The share of an image's own label, 1 where nothing is
 * mixed. */
double mix_images(const Mixing *c, TaskBatch *b, const Config *cfg, uint64_t seed, uint64_t number);

/* What the loss takes of n rows of logits: row[i] with weight[i] for target[i], [2n]: the own labels, then the
 * partners'. */
void mix_labels(double share, int n, const int *targets, int *row, int *target, float *weight);

double draw_beta(Draws *d, double a); /* Beta(a, a), a > 0 */

#endif
