#include "trainer/tasks/mixing.h"

#include "base/err.h"
#include "base/fixed_math.h"

#include <math.h>
#include <string.h>

/* Gamma(a, 1) for a >= 1 by Marsaglia and Tsang's squeeze, without the squeeze. */
static double draw_gamma(Draws *d, double a) {
    double c = a - 1.0 / 3, b = 1 / sqrt(9 * c);
    for (;;) {
        double x = draw_normal(d), v = 1 + b * x, u = draw_uniform(d);
        if (v <= 0) continue;
        v = v * v * v;
        if (fixed_log(u) < 0.5 * x * x + c - c * v + c * fixed_log(v)) return c * v;
    }
}

/* The logarithm of Gamma(a, 1), which for small a may be too small for a double: G(a) = G(a + 1) U^(1 / a). */
static double draw_log_gamma(Draws *d, double a) {
    double g = fixed_log(draw_gamma(d, a + 1));
    return g + fixed_log(draw_uniform(d)) / a;
}

double draw_beta(Draws *d, double a) {
    double x = draw_log_gamma(d, a), y = draw_log_gamma(d, a);
    return 1 / (1 + fixed_exp(y - x));
}

static void mix_pixels(float *a, float *b, int n, float share) {
    for (int i = 0; i < n; i++) {
        float x = a[i], y = b[i];
        a[i] = share * x + (1 - share) * y;
        b[i] = share * y + (1 - share) * x;
    }
}

typedef struct Box {
    int top, left, bottom, right;
} Box;

static Box draw_box(Draws *d, const Config *c, double share) {
    double side = sqrt(1 - share);
    int height = (int)(c->input.height * side), width = (int)(c->input.width * side);
    int y = (int)draw_below(d, (uint64_t)c->input.height), x = (int)draw_below(d, (uint64_t)c->input.width);
    return (Box){.top = MAX(0, y - height / 2),
                 .left = MAX(0, x - width / 2),
                 .bottom = MIN(c->input.height, y - height / 2 + height),
                 .right = MIN(c->input.width, x - width / 2 + width)};
}

static void swap_box(float *a, float *b, const Config *c, const Box *box) {
    for (int k = 0; k < c->input.channels; k++)
        for (int y = box->top; y < box->bottom; y++)
            for (int x = box->left; x < box->right; x++) {
                int i = (k * c->input.height + y) * c->input.width + x;
                float keep = a[i];
                a[i] = b[i];
                b[i] = keep;
            }
}

double mix_images(const Mixing *c, TaskBatch *b, const Config *cfg, uint64_t seed, uint64_t number) {
    if (c->mixup == 0 && c->cutmix == 0) return 1;
    Draws d = draws_open(seed, DRAW_MIX, (uint32_t)number);
    bool cut = c->mixup == 0 || (c->cutmix > 0 && draw_uniform(&d) < 0.5);
    double share = draw_beta(&d, cut ? c->cutmix : c->mixup);
    int n = b->n_units, pixels = cfg->input.channels * cfg->input.height * cfg->input.width;
    Box box = {0};
    if (cut) {
        box = draw_box(&d, cfg, share);
        int area = (box.bottom - box.top) * (box.right - box.left);
        share = 1 - (double)area / (cfg->input.height * cfg->input.width);
    }
    for (int i = 0; i < n / 2; i++) {
        float *one = b->images + (size_t)i * (size_t)pixels, *other = b->images + (size_t)(n - 1 - i) * (size_t)pixels;
        if (cut)
            swap_box(one, other, cfg, &box);
        else
            mix_pixels(one, other, pixels, (float)share);
    }
    return share;
}

void mix_labels(double share, int n, const int *targets, int *row, int *target, float *weight) {
    for (int i = 0; i < 2 * n; i++) {
        row[i] = i % n;
        target[i] = targets[i < n ? i : 2 * n - 1 - i];
        weight[i] = (float)(i < n ? share : 1 - share);
    }
}
