#include "server/api/context.h"

#include "base/err.h"

#include <string.h>

int api_check_user(const char *user, ApiError *e) {
    enum { USER_BYTES = 256 };
    if (!user || strlen(user) <= USER_BYTES) return 0;
    return api_fail(e, 400, NULL, "user", "user has %zu bytes, the limit is %d", strlen(user), USER_BYTES);
}

void api_default_noise(const ApiContext *ctx, OptionalSeed seed, OptionalSeed *noise_seed, float *noise_scale) {
    if (*noise_scale < 0) *noise_scale = (float)ctx->defaults.noise_scale;
    if (!noise_seed->given && !seed.given && ctx->defaults.noise_seed >= 0)
        *noise_seed = (OptionalSeed){.given = true, .value = (uint64_t)ctx->defaults.noise_seed};
}
