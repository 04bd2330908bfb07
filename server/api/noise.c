#include "server/api/noise.h"

#include "base/memory.h"
#include "model/shape.h"

#include <stdlib.h>

static void print_layer(Buffer *b, const Config *c, const Noise *z) {
    int n = config_noise_heads(c);
    float *sigma = try_calloc((size_t)n, sizeof *sigma);
    if (!sigma) {
        b->failed = true;
        return;
    }
    noise_deviation(c, z, sigma);
    buffer_floats(b, sigma, n);
    free(sigma);
}

void noise_print(Buffer *b, const Model *m) {
    const Config *c = &m->cfg;
    buffer_print(b, "{\"scope\":\"%s\",\"density\":\"%s\",\"span\":\"%s\",\"conditioned\":%s,\"sigma\":",
                 scope_names[c->noise.scope], density_names[c->noise.density], span_names[c->noise.span],
                 c->noise.condition_dim ? "true" : "false");
    if (c->noise.condition_dim) {
        buffer_text(b, "null}");
        return;
    }
    buffer_text(b, "[");
    for (int l = 0; l < c->n_layers && c->noise.scope != NOISE_NONE; l++) {
        if (l) buffer_text(b, ",");
        print_layer(b, c, &m->blocks[l].attention.noise);
    }
    buffer_text(b, "]}");
}
