#include "trainer/ranks/agree.h"

#include "base/memory.h"
#include "base/sha256.h"
#include "model/kernels/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 30 };

typedef struct Claim {
    char host[RANK_HOST], value[OPTION_TEXT_BYTES];
} Claim;

int agree_on(const char *what, const char *mine, Err *err) {
    Claim *all = xcalloc((size_t)ranks->n + 1, sizeof *all), *own = all + ranks->n;
    memcpy(own->host, ranks->host, sizeof own->host);
    snprintf(own->value, sizeof own->value, "%s", mine);
    ranks->gather(own, sizeof *own, all);
    int odd = 1;
    while (odd < ranks->n && !strcmp(all[odd].value, all[0].value)) odd++;
    int rc = odd < ranks->n ? ranks_refuse(err, "%s is %s on rank %d (%s), but %s on rank 0 (%s)", what,
                                           *all[odd].value ? all[odd].value : "not given", odd, all[odd].host,
                                           *all[0].value ? all[0].value : "not given", all[0].host)
                            : 0;
    free(all);
    return rc;
}

int agree_program(Err *err) {
    char hex[SHA256_HEX];
    if (ranks->n == 1) return 0;
    if (sha256_file("/proc/self/exe", FILE_MOST, hex, err) || agree_on("the sha256 of the program", hex, err))
        return -1;
    return agree_on("the arithmetic", kernels->arithmetic_bf16, err);
}

int agree_folder(const char *out, bool *saved, Err *err) {
    *saved = ranks_most(!ranks->rank && *saved);
    int missing = ranks->rank && access(out, R_OK | X_OK) ? errno : 0;
    ranks_wait(); /* until all have looked: rank 0 takes the folder of a run that is refused away again */
    return !missing ? 0
                    : err_set(err, "--out %s: %s; it must be a folder that all ranks share", out, strerror(missing));
}

/* The texts themselves are compared, and threads change no bits. */
static bool is_own(const Option *o) { return o->kind == OPTION_LIST || !strcmp(o->name, "threads"); }

int agree_options(const CommandLine *line, Err *err) {
    const Command *c = line->command;
    char text[OPTION_TEXT_BYTES], name[64];
    if (ranks->n == 1) return 0;
    for (const Option *o = c->options; o < c->options + c->n_options; o++) {
        if (is_own(o)) continue;
        option_text(o, line->values, text);
        snprintf(name, sizeof name, "--%s", o->name);
        if (agree_on(name, text, err)) return -1;
    }
    return 0;
}

int agree_file(const char *option, const char *path, Err *err) {
    char hex[SHA256_HEX], what[64];
    if (ranks->n == 1) return 0;
    snprintf(what, sizeof what, "the sha256 of %s", option);
    return sha256_file(path, FILE_MOST, hex, err) || agree_on(what, hex, err) ? -1 : 0;
}

int agree_weights(const void *w, size_t bytes, Err *err) {
    char hex[SHA256_HEX];
    Sha256 hash;
    if (ranks->n == 1) return 0;
    sha256_init(&hash);
    sha256_add(&hash, w, bytes);
    sha256_hex(&hash, hex);
    return agree_on("the sha256 of the first weights", hex, err);
}
