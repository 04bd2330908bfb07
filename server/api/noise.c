#include "server/api/noise.h"

#include "base/json_write.h"
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
    json_put_floats(b, NULL, sigma, n);
    free(sigma);
}

void noise_print(Buffer *b, const Model *m) {
    const Config *c = &m->cfg;
    json_open(b, NULL, '{');
    json_put_text(b, "scope", scope_names[c->noise.scope]);
    json_put_text(b, "density", density_names[c->noise.density]);
    json_put_text(b, "span", span_names[c->noise.span]);
    if (config_noise_components(c)) {
        json_put_text(b, "site", site_names[c->noise.site]);
        json_put_int(b, "components", config_noise_components(c));
    }
    json_put_bool(b, "conditioned", c->noise.condition_dim);
    if (c->noise.condition_dim) {
        json_put_null(b, "sigma");
    } else {
        json_open(b, "sigma", '[');
        const Noise *z;
        for (int l = 0; (z = model_noise(m, l)); l++) print_layer(b, c, z);
        json_close(b, ']');
    }
    json_close(b, '}');
}
